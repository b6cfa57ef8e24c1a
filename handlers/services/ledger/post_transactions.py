"""Posts ledger transactions: any number of them in a fixed number of statements, each key once.

All movements of points by request are posted here, of one call or of several. All movements of a set are posted or
none. The other movements of a batch are posted independently of each other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from types import MappingProxyType

from domain.idempotency import refuse_reuse
from domain.ledger.availability import awaited_event
from domain.ledger.postings import Details, Fiat, Posting, StoredTransaction
from domain.ledger.records import TRANSACTION_TYPES
from domain.ledger.refusals import (
    SetFailed,
    UnknownLedgerAccount,
    UnknownLedgerTransaction,
    UnknownWallet,
    unknown_account,
)
from domain.ledger.views import TransactionRow
from domain.members import MemberErased
from domain.problems import FieldFault, InvalidRequest, Refusal
from handlers.call import Call, NotBatchable
from handlers.messages.json_text import digest_of
from handlers.services import references
from handlers.services.ledger.movements import Movement
from handlers.services.unit_of_work.evaluation import evaluate_changes
from handlers.services.unit_of_work.unit import SPARE_IDS, UnitOfWork
from persistence import ledger_transactions, posting
from persistence.ledger import ACCOUNTS
from persistence.rows import IdAllocator

MOVE_REASON = "Points were moved by request."


# The outcome of one movement: the id of its transaction, or why it was not posted.
MovementOutcome = int | Refusal | NotBatchable


def post(calls: Sequence[Call], movements: Sequence[Movement], *, atomic: bool = False) -> list[MovementOutcome]:
    """Post movements one after the other, but all movements of a set at the position of its first one.

    `calls` has the call of each movement; several movements of one call are a batch or a set. The calls are of one
    organization and moment. All movements of a set are posted or none. Returns an outcome for each movement; if
    `atomic`, all are posted or none, and the first refusal is raised. A movement is NotBatchable if an earlier call
    here has the same key, because the earlier call may be refused.
    """
    if not movements:
        return []
    call, unit = calls[0], UnitOfWork(calls[0])
    ids_to_revert = {movement.reverts for movement in movements if movement.reverts is not None}
    transactions = posting.find_stored(call.db, unit.organization_id, ids_to_revert)
    wallet_ids = set().union(*map(wallets_of, movements), *map(wallets_of, transactions.values()))
    account_ids = {movement.ledger_account_id for movement in movements if movement.ledger_account_id is not None}
    account_ids |= {transaction.ledger_account_id for transaction in transactions.values()}
    unit.lock_wallets(wallet_ids, account_ids)
    if ids_to_revert:
        # Read again under the lock, since another transaction may have changed them.
        transactions = posting.find_stored(call.db, unit.organization_id, ids_to_revert)
    return MovementBatch(unit, calls, movements, transactions).post_all(account_ids, atomic=atomic)


class MovementBatch:
    """Movements between locked wallets of a unit of work; `post_all` posts them.

    `calls` has the call of each movement; `transactions_to_revert` are the transactions that movements revert, by id.
    The constructor looks up earlier uses of the keys.
    """

    def __init__(
        self,
        unit: UnitOfWork,
        calls: Sequence[Call],
        movements: Sequence[Movement],
        transactions_to_revert: Mapping[int, StoredTransaction] = MappingProxyType({}),
    ) -> None:
        self._unit = unit
        self._calls = calls
        self.movements = list(movements)
        for position, movement in enumerate(movements):
            if movement.system_unique_key is None:
                self.movements[position] = replace(movement, system_unique_key=calls[position].new_key())
        self._transactions_to_revert = transactions_to_revert
        self._digests = [_digest(movement) for movement in self.movements]
        keys = [movement.system_unique_key or "" for movement in self.movements]
        wallet_ids = set().union(*map(wallets_of, self.movements))
        self._posted_by_key, self._erased_wallet_ids, self._new_transaction_ids = posting.find_posted_and_reserve_ids(
            unit.db, unit.organization_id, keys, wallet_ids
        )
        # By the position of the movement.
        self._outcomes: dict[int, MovementOutcome] = {}
        # The position of the last movement that was to be posted under a key, by this key.
        self._positions_by_key: dict[str, int] = {}
        # The position of the earlier movement with the same key, by the position of the repeated one.
        self._repeats: dict[int, int] = {}

    def post_all(self, account_ids: Collection[int], *, atomic: bool = False) -> list[MovementOutcome]:
        """Post the movements, which are on these accounts, and flush the unit; return the outcome of each movement.

        Movements with one `atomic_set_id` are a set: all of them are posted or none. If `atomic`, this holds for all
        movements, and the first refusal is raised.
        """
        self._set_known_outcomes()
        sets = self._fail_refused_sets_and_group_others()
        postings: dict[int, Posting] = {}
        dates = [movement.external_event_date for movement in self.movements]
        since = min((date for date in dates if date is not None), default=None)
        ids = IdAllocator(self._unit.db, "ledger_transactions", SPARE_IDS, self._new_transaction_ids)
        self._unit.open_for_request(account_ids=account_ids, transaction_allocator=ids, since=since)
        for positions in sets:
            postings.update(self._post_set(positions, atomic=atomic))
        evaluate_changes(self._unit, MOVE_REASON)
        self._unit.flush()
        for position, step in postings.items():
            transaction_id = self._unit.id_of(step)
            self._outcomes[position] = transaction_id
            _add_to_audit_log(self._calls[position], self.movements[position], step, transaction_id)
        for position, first_position in self._repeats.items():
            self._outcomes[position] = self._outcomes[first_position]
        outcomes = [self._outcomes[position] for position in range(len(self.movements))]
        if atomic:
            for outcome in outcomes:
                if isinstance(outcome, Refusal):
                    raise outcome
        return outcomes

    def _set_known_outcomes(self) -> None:
        """Set the outcomes of refused movements, of keys used before, and of keys that an earlier call also has."""
        calls_by_key: dict[str, Call] = {}
        for position, (movement, call) in enumerate(zip(self.movements, self._calls, strict=True)):
            key, digest = movement.system_unique_key or "", self._digests[position]
            try:
                if movement.refusal is not None:
                    raise movement.refusal
                transaction_id = self._posted_by_key.find(key, digest)
                if transaction_id is not None:
                    self._outcomes[position] = transaction_id
                elif movement.refusal_if_new is not None:
                    raise movement.refusal_if_new
                elif erased_ids := wallets_of(movement).intersection(self._erased_wallet_ids):
                    raise MemberErased(f"The member of the wallet {min(erased_ids)} was erased.")
                elif calls_by_key.setdefault(key, call) is not call:
                    self._outcomes[position] = NotBatchable()
            except Refusal as refusal:
                self._outcomes[position] = refusal

    def _fail_refused_sets_and_group_others(self) -> list[list[int]]:
        """Fail the sets with a refused movement; return the positions of the other movements, grouped by set.

        Interleaved sets then have the same result as sets posted one after the other.
        """
        refused_set_ids: set[str | None] = {
            self.movements[position].atomic_set_id
            for position, outcome in self._outcomes.items()
            if isinstance(outcome, Refusal)
        }
        for set_id in refused_set_ids:
            self._fail_set(set_id)
        # By the id of the set, a text; each movement without a set is a group of its own, by its position.
        sets: dict[str | int, list[int]] = {}
        for position, movement in enumerate(self.movements):
            if position not in self._outcomes:
                group = position if movement.atomic_set_id is None else movement.atomic_set_id
                sets.setdefault(group, []).append(position)
        return list(sets.values())

    def _post_set(self, positions: Sequence[int], *, atomic: bool) -> dict[int, Posting]:
        """Post the movements of a set, all or none; return the postings by position. If `atomic`, raise a refusal."""
        unit = self._unit
        savepoint, postings = unit.ledger.savepoint(), dict[int, Posting]()
        for position in positions:
            movement, digest = self.movements[position], self._digests[position]
            key = movement.system_unique_key or ""
            try:
                first_position = self._positions_by_key.get(key)
                if first_position is None or first_position in self._outcomes:
                    # No movement has the key, or one that was refused, which does not use it.
                    self._positions_by_key[key] = position
                    postings[position] = self._post_one(movement, digest)
                else:
                    refuse_reuse(key, self._digests[first_position], digest)
                    self._repeats[position] = first_position
            except Refusal as raised:
                refusal = _with_pointer(raised, movement.pointer)
                if atomic:
                    raise refusal from raised
                unit.ledger.rollback_to(savepoint)
                self._outcomes[position] = refusal
                self._fail_set(movement.atomic_set_id)
                return {}
        if self._calls[0] is not self._calls[-1]:
            # Several calls: the derived events of this one are evaluated before the next one, as if not batched.
            evaluate_changes(unit, MOVE_REASON, origin=self._calls[positions[0]].origin)
        return postings

    def _fail_set(self, set_id: str | None) -> None:
        """Refuse the movements of a set that have no outcome yet; None, the id of movements in no set, does nothing."""
        for position, movement in enumerate(self.movements):
            if set_id is not None and movement.atomic_set_id == set_id and position not in self._outcomes:
                self._outcomes[position] = SetFailed("Another item of the set was refused.")

    def _post_one(self, movement: Movement, digest: bytes) -> Posting:
        """Post one movement; raises the refusal of a movement that is not possible."""
        session, ledger_ids = self._unit.ledger, self._unit.ledger_ids
        details = Details(
            system_unique_key=movement.system_unique_key or "",
            request_digest=digest,
            external_id=movement.external_id,
            external_event_date=movement.external_event_date,
            description=movement.description,
            tags=movement.tags,
            atomic_set_id=movement.atomic_set_id,
            counts_as_activity=movement.counts_as_activity,
            fiat=Fiat(movement.fiat_value, movement.fiat_gross_amount, movement.fiat_currency),
        )
        if movement.reverts is not None:
            return self._revert(movement, details)
        account = session.accounts.get(movement.ledger_account_id or 0)
        if account is None or (movement.ledger_id is not None and account.ledger_id != movement.ledger_id):
            raise UnknownLedgerAccount(unknown_account(movement.ledger_id, movement.ledger_account_id))
        source, target, amount = movement.from_wallet_id, movement.to_wallet_id, movement.amount or Decimal(0)
        _refuse_contradictions(movement, self._unit.now)
        if movement.availability is not None:
            references.refuse_unknown_event_types(self._unit.configuration, movement.availability)
        for wallet_id in (source, target):
            if wallet_id is not None and ledger_ids.get(wallet_id) != account.ledger_id:
                raise UnknownWallet(f"The ledger has no wallet {wallet_id}.")
        if source is None and target is not None:
            return session.mint(
                account,
                target,
                amount,
                details,
                movement.expiration_date,
                movement.manual,
                movement.qualifying_amount,
                availability=movement.availability,
            )
        if source is not None and target is None:
            return session.burn(account, source, amount, details, movement.allow_overdraft, movement.manual)
        return session.transfer(account, source or 0, target or 0, amount, details, movement.manual)

    def _revert(self, movement: Movement, details: Details) -> Posting:
        """Revert the transaction that a movement names; raises UnknownLedgerTransaction for one of another account."""
        session, transaction = self._unit.ledger, self._transactions_to_revert.get(movement.reverts or 0)
        account = session.accounts.get(transaction.ledger_account_id) if transaction is not None else None
        if (
            transaction is None
            or account is None
            or movement.ledger_account_id not in (None, account.ledger_account_id)
            or movement.ledger_id not in (None, account.ledger_id)
        ):
            raise UnknownLedgerTransaction(f"There is no transaction {movement.reverts}.")
        return session.revert(
            transaction,
            account,
            details,
            allow_overdraft=movement.allow_overdraft,
            burn_available=movement.burn_available,
            partial_fiat=movement.partial_fiat_value,
        )


def wallets_of(movement: Movement | StoredTransaction) -> set[int]:
    """The ids of the wallets of a movement, or of a stored transaction."""
    return {wallet_id for wallet_id in (movement.from_wallet_id, movement.to_wallet_id) if wallet_id is not None}


def _digest(movement: Movement) -> bytes:
    """The digest of a movement: two movements with the same digest are the same request."""
    fields = [*_request_fields_of(movement)]
    # Later fields are added only if they are set, so that requests to earlier versions are still recognized.
    if movement.qualifying_amount is not None:
        fields.append(movement.qualifying_amount)
    if not movement.counts_as_activity:
        fields.append("countsAsActivity")
    if movement.availability is not None:
        fields.append(movement.availability)
    return digest_of(fields)


_LATER_FIELDS = {"qualifying_amount", "counts_as_activity", "availability"}
_NOT_IN_DIGEST = {"system_unique_key", "pointer", "refusal", "refusal_if_new", *_LATER_FIELDS}
_request_fields_of = attrgetter(*(field.name for field in fields(Movement) if field.name not in _NOT_IN_DIGEST))


def _add_to_audit_log(call: Call, movement: Movement, step: Posting, transaction_id: int) -> None:
    """Add an entry to the audit log about the moved points and their owners."""
    call.audit.add(
        "ledger-transaction",
        transaction_id,
        after={
            "ledgerAccountId": step.account.ledger_account_id,
            "transactionType": TRANSACTION_TYPES[step.transaction_type],
            "amount": step.amount,
            "qualifyingAmount": step.qualifying,
            "availableAt": None if step.wait is None else step.wait.available_at,
            "availableOn": (
                None if step.wait is None or step.wait.awaited is None else awaited_event(step.wait.awaited)
            ),
            "fromWalletId": step.from_wallet_id,
            "toWalletId": step.to_wallet_id,
            "isPending": movement.manual or None,
            "revertedLedgerTransactionId": movement.reverts,
            "systemUniqueKey": movement.system_unique_key,
            "externalId": movement.external_id,
            "description": movement.description,
            "tags": movement.tags,
        },
        wallet_ids=(step.from_wallet_id, step.to_wallet_id),
    )


def _refuse_contradictions(movement: Movement, now: datetime) -> None:
    """Refuse a movement whose fields contradict each other."""
    faults = []
    is_mint = movement.from_wallet_id is None and movement.to_wallet_id is not None
    is_transfer = movement.from_wallet_id is not None and movement.to_wallet_id is not None
    if movement.from_wallet_id is None and movement.to_wallet_id is None:
        faults.append(FieldFault("fromWalletId and toWalletId are null: send one", pointer="/fromWalletId"))
    if movement.qualifying_amount is not None and not is_mint:
        faults.append(FieldFault("qualifyingAmount can only be sent for a mint", pointer="/qualifyingAmount"))
    if not movement.counts_as_activity and is_transfer:
        detail = "countsAsActivity cannot be false for a transfer"
        faults.append(FieldFault(detail, pointer="/countsAsActivity"))
    if movement.availability is not None:
        if not is_mint or movement.manual:
            problem = "can only be sent for a mint" if not is_mint else "cannot be sent with manual capture"
            faults += [FieldFault(f"{name} {problem}", pointer=f"/{name}") for name in movement.availability.term_names]
        else:
            faults += movement.availability.field_faults()
    if movement.expiration_date is not None:
        if not is_mint:
            faults.append(FieldFault("expirationDate can only be sent for a mint", pointer="/expirationDate"))
        elif movement.expiration_date <= now:
            faults.append(FieldFault("expirationDate is not in the future", pointer="/expirationDate"))
    if faults:
        raise InvalidRequest(faults)


def _with_pointer(refusal: Refusal, pointer: str) -> Refusal:
    """The refusal of the item at `pointer`, whose faults then point into the whole request."""
    if not pointer or not isinstance(refusal, InvalidRequest):
        return refusal
    return InvalidRequest([replace(fault, pointer=pointer + (fault.pointer or "")) for fault in refusal.faults])


def post_and_read(
    calls: Sequence[Call], movements: Sequence[Movement], *, atomic: bool = False
) -> list[list[TransactionRow] | Refusal | NotBatchable]:
    """Post movements by `post`; return the rows of each posted transaction instead of its id."""
    outcomes = post(calls, movements, atomic=atomic)
    posted_movements = [
        (movement, outcome) for movement, outcome in zip(movements, outcomes, strict=True) if isinstance(outcome, int)
    ]
    rows_of_posted = iter(_rows_as_created(calls[0], posted_movements) if posted_movements else [])
    return [next(rows_of_posted) if isinstance(outcome, int) else outcome for outcome in outcomes]


def mint_and_read(
    calls: Sequence[Call], movements: Sequence[Movement]
) -> list[list[TransactionRow] | Refusal | NotBatchable]:
    """Post mints on the default accounts of their ledgers by `post_and_read`."""
    organization_id = calls[0].organization.organization_id
    ledger_ids = {movement.ledger_id for movement in movements}
    accounts = {
        account.ledger_id: account.ledger_account_id
        for account in ACCOUNTS.find_all(calls[0].db, organization_id, ledger_id=ledger_ids, is_default_account=True)
    }
    return post_and_read(
        calls, [_on_account(movement, accounts.get(movement.ledger_id or 0)) for movement in movements]
    )


def _on_account(movement: Movement, ledger_account_id: int | None) -> Movement:
    """The movement on the account with this id; None refuses the movement: the ledger has no default account."""
    refusal = None
    if ledger_account_id is None:
        refusal = UnknownLedgerAccount(f"The ledger {movement.ledger_id} has no default account.")
    return replace(movement, ledger_account_id=ledger_account_id, ledger_id=None, refusal=refusal)


def _rows_as_created(call: Call, posted_movements: Sequence[tuple[Movement, int]]) -> list[list[TransactionRow]]:
    """The rows of each movement's transaction and of the transactions posted as part of it, as first returned.

    Later changes of the transactions are not included.
    """
    rows = ledger_transactions.find_rows_as_created(
        call.db, call.organization.organization_id, [transaction_id for _, transaction_id in posted_movements]
    )
    for movement, transaction_id in posted_movements:
        if movement.manual:
            # A partial capture has lowered the stored fiat value: the request has the original one.
            rows[transaction_id] = [replace(row, fiat_value=movement.fiat_value) for row in rows[transaction_id]]
    return [rows[transaction_id] for _, transaction_id in posted_movements]
