"""Posting ledger transactions: any number of them in a fixed number of statements, each key once.

All movements of points by request are posted here: single calls, sets of which all or none are posted, and batches
whose items are posted independently, except items of one set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from decimal import Decimal

from domain.idempotency import refuse_other_request
from domain.ledger.postings import Details, Fiat, Posting, Stored
from domain.ledger.records import TRANSACTION_TYPES, LedgerAccount, Wallet
from domain.ledger.refusals import (
    SetFailed,
    UnknownLedgerAccount,
    UnknownLedgerTransaction,
    UnknownWallet,
    unknown_account,
)
from domain.ledger.session import LedgerSession
from domain.ledger.views import TransactionRow
from domain.problems import FieldFault, InvalidRequest, Refusal
from handlers.call import Call
from handlers.services.idempotency import digest_of
from handlers.services.ledger.sessions import has_consequences, work_on_wallets
from handlers.services.members.lock_wallets import lock_wallets
from persistence import ledger_transactions, posting

MOVED = "Points were moved by request."


@dataclass(frozen=True, slots=True)
class Movement:
    """A movement that a request asks for.

    It is a mint (no `from_wallet_id`), a burn (no `to_wallet_id`), a transfer, or the revert of `reverts`, which is
    found by id. `pointer` is its place in the request, for faults; `refusal` is set for an item that is refused
    already.
    """

    ledger_account_id: int | None = None
    amount: Decimal | None = None
    from_wallet_id: int | None = None
    to_wallet_id: int | None = None
    system_unique_key: str | None = None
    external_event_date: datetime | None = None
    external_id: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    fiat_value: Decimal | None = None
    fiat_gross_amount: Decimal | None = None
    fiat_currency: str | None = None
    manual: bool = False
    allow_overdraft: bool = False
    expiration_date: datetime | None = None
    atomic_set_id: str | None = None
    reverts: int | None = None
    burn_available: bool = False
    partial_fiat_value: Decimal | None = None
    ledger_id: int | None = None
    pointer: str = ""
    refusal: Refusal | None = None

    @property
    def digest(self) -> bytes:
        """The digest of all fields by which two requests are the same."""
        content = [getattr(self, field.name) for field in fields(self) if field.name not in _NOT_ASKED_FOR]
        return digest_of(content)


_NOT_ASKED_FOR = {"system_unique_key", "pointer", "refusal"}


@dataclass(frozen=True, slots=True)
class MovementOutcome:
    """The outcome of one movement: the id of its transaction, or its refusal."""

    ledger_transaction_id: int | None = None
    refusal: Refusal | None = None


class Poster:
    """Posts movements, each asked for by its call; the calls are of one organization and moment.

    `locked` are the wallets of the movements, if the caller has locked all of them.
    """

    def __init__(
        self, calls: Sequence[Call], movements: Sequence[Movement], locked: Mapping[int, Wallet] | None = None
    ) -> None:
        self._calls = calls
        self._locked = locked
        self._call = calls[0]
        self._db = self._call.db
        self._organization_id = self._call.organization.organization_id
        self._movements = [_keyed(movement, call) for call, movement in zip(calls, movements, strict=True)]
        self._outcomes: dict[int, MovementOutcome] = {}

    def post(self, atomic: bool) -> list[MovementOutcome]:
        """Post the movements in their order. Returns an outcome for each; `atomic` raises the first refusal."""
        reverts = {movement.reverts for movement in self._movements if movement.reverts is not None}
        stored = posting.find_stored(self._db, self._organization_id, reverts)
        self._wallets = self._lock(stored) if self._locked is None else self._locked
        if reverts:
            # Read now that nobody else can move them.
            stored = posting.find_stored(self._db, self._organization_id, reverts)
        self._answer_known_keys()
        account_ids = {
            movement.ledger_account_id for movement in self._movements if movement.ledger_account_id is not None
        }
        account_ids |= {transaction.ledger_account_id for transaction in stored.values()}
        with work_on_wallets(self._call, self._wallets, account_ids, MOVED) as work:
            made = self._make(work.ledger, stored, atomic)
            for position, step in made.items():
                work.ask(step, self._calls[position].origin)
        steps = zip(work.ledger.steps, work.transaction_ids, strict=True)
        by_posting = {id(step): transaction_id for step, transaction_id in steps}
        for position, step in made.items():
            self._outcomes[position] = MovementOutcome(by_posting[id(step)])
            _add_to_audit_log(self._calls[position], self._movements[position], step, by_posting[id(step)])
        self._answer_repeats()
        return [self._outcomes[position] for position in range(len(self._movements))]

    def _lock(self, stored: Mapping[int, Stored]) -> Mapping[int, Wallet]:
        sides = [(movement.from_wallet_id, movement.to_wallet_id) for movement in self._movements]
        sides += [(transaction.from_wallet_id, transaction.to_wallet_id) for transaction in stored.values()]
        wallet_ids = {wallet_id for side in sides for wallet_id in side if wallet_id is not None}
        return lock_wallets(self._db, self._call.organization, wallet_ids)

    def _answer_known_keys(self) -> None:
        """Take the results of keys that were used before, and find keys that are used twice."""
        keys = [movement.system_unique_key or "" for movement in self._movements]
        known = posting.find_posted(self._db, self._organization_id, keys)
        self._repeats: dict[int, int] = {}
        first: dict[str, int] = {}
        for position, (key, movement) in enumerate(zip(keys, self._movements, strict=True)):
            before = known.get(key)
            try:
                if movement.refusal is not None:
                    raise movement.refusal
                if before is not None:
                    refuse_other_request(key, movement.digest, before.request_digest)
                    self._outcomes[position] = MovementOutcome(before.ledger_transaction_id)
                elif key in first:
                    refuse_other_request(key, movement.digest, self._movements[first[key]].digest)
                    self._repeats[position] = first[key]
                else:
                    first[key] = position
            except Refusal as refusal:
                self._outcomes[position] = MovementOutcome(refusal=refusal)

    def _answer_repeats(self) -> None:
        for position, original in self._repeats.items():
            self._outcomes[position] = self._outcomes[original]

    def _make(self, session: LedgerSession, stored: Mapping[int, Stored], atomic: bool) -> dict[int, Posting]:
        """Post what can be posted: each item on its own, a set at the position of its first item, all or none.

        So interleaved sets have the same result as sets posted one after the other.
        """
        made: dict[int, Posting] = {}
        for positions in self._units():
            savepoint, done = session.savepoint(), dict[int, Posting]()
            for position in positions:
                try:
                    done[position] = self._one(session, self._movements[position], stored)
                except Refusal as raised:
                    refusal = _placed(raised, self._movements[position].pointer)
                    if atomic:
                        raise refusal from raised
                    session.rollback_to(savepoint)
                    done = {}
                    self._outcomes[position] = MovementOutcome(refusal=refusal)
                    self._fail_set(self._movements[position].atomic_set_id)
                    break
            made.update(done)
        return made

    def _units(self) -> list[list[int]]:
        """The positions of the movements to post, those of a set together; a set with a refused item is left out."""
        for position in [p for p, outcome in self._outcomes.items() if outcome.refusal is not None]:
            self._fail_set(self._movements[position].atomic_set_id)
        units: dict[tuple[str | None, int], list[int]] = {}
        for position, movement in enumerate(self._movements):
            if position not in self._outcomes and position not in self._repeats:
                set_id = movement.atomic_set_id
                units.setdefault((set_id, position if set_id is None else -1), []).append(position)
        return list(units.values())

    def _fail_set(self, set_id: str | None) -> None:
        """Refuse the other items of a set of which one is refused."""
        for position, movement in enumerate(self._movements):
            if set_id is not None and movement.atomic_set_id == set_id and position not in self._outcomes:
                self._outcomes[position] = MovementOutcome(refusal=SetFailed("Another item of the set was refused."))

    def _one(self, session: LedgerSession, movement: Movement, stored: Mapping[int, Stored]) -> Posting:
        details = Details(
            system_unique_key=movement.system_unique_key or "",
            request_digest=movement.digest,
            external_id=movement.external_id,
            external_event_date=movement.external_event_date,
            description=movement.description,
            tags=movement.tags,
            atomic_set_id=movement.atomic_set_id,
            fiat=Fiat(movement.fiat_value, movement.fiat_gross_amount, movement.fiat_currency),
        )
        if movement.reverts is not None:
            return self._revert(session, movement, details, stored)
        account = session.accounts.get(movement.ledger_account_id or 0)
        if account is None or (movement.ledger_id is not None and account.ledger_id != movement.ledger_id):
            raise UnknownLedgerAccount(unknown_account(movement.ledger_id, movement.ledger_account_id))
        source, target = movement.from_wallet_id, movement.to_wallet_id
        _check(movement, self._call.now)
        for wallet_id in (source, target):
            if wallet_id is not None and getattr(self._wallets.get(wallet_id), "ledger_id", None) != account.ledger_id:
                raise UnknownWallet(f"The ledger has no wallet {wallet_id}.")
        amount = movement.amount or Decimal(0)
        if source is None and target is not None:
            return session.mint(account, target, amount, details, movement.expiration_date, movement.manual)
        if source is not None and target is None:
            return session.burn(account, source, amount, details, movement.allow_overdraft, movement.manual)
        return session.transfer(account, source or 0, target or 0, amount, details, movement.manual)

    def _revert(
        self,
        session: LedgerSession,
        movement: Movement,
        details: Details,
        stored: Mapping[int, Stored],
    ) -> Posting:
        original = stored.get(movement.reverts or 0)
        account = session.accounts.get(original.ledger_account_id) if original is not None else None
        if (
            original is None
            or account is None
            or movement.ledger_account_id not in (None, account.ledger_account_id)
            or movement.ledger_id not in (None, account.ledger_id)
        ):
            raise UnknownLedgerTransaction(f"There is no transaction {movement.reverts}.")
        return session.revert(
            original,
            account,
            details,
            allow_overdraft=movement.allow_overdraft,
            burn_available=movement.burn_available,
            partial_fiat=movement.partial_fiat_value,
        )


def _add_to_audit_log(call: Call, movement: Movement, step: Posting, transaction_id: int) -> None:
    """Add an entry to the audit log about the moved points and their owners."""
    call.audit.add(
        "ledger-transaction",
        transaction_id,
        after={
            "ledgerAccountId": step.account.ledger_account_id,
            "transactionType": TRANSACTION_TYPES[step.transaction_type],
            "amount": step.amount,
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


def _check(movement: Movement, now: datetime) -> None:
    """Refuse a movement whose fields contradict each other."""
    faults = []
    is_mint = movement.from_wallet_id is None and movement.to_wallet_id is not None
    if movement.from_wallet_id is None and movement.to_wallet_id is None:
        faults.append(FieldFault("fromWalletId and toWalletId are both null", pointer="/fromWalletId"))
    if movement.expiration_date is not None:
        if not is_mint:
            faults.append(FieldFault("expirationDate is given for what is not a mint", pointer=_EXPIRATION))
        elif movement.expiration_date <= now:
            faults.append(FieldFault("expirationDate is not in the future", pointer=_EXPIRATION))
    if faults:
        raise InvalidRequest(faults)


_EXPIRATION = "/expirationDate"


def _placed(refusal: Refusal, pointer: str) -> Refusal:
    """The refusal of one item, with pointers of its faults into the whole request."""
    if not pointer or not isinstance(refusal, InvalidRequest):
        return refusal
    return InvalidRequest([replace(fault, pointer=pointer + (fault.pointer or "")) for fault in refusal.faults])


def post_set(call: Call, movements: Sequence[Movement]) -> list[int]:
    """Post movements as one unit. Returns the ids of their transactions, or raises the first refusal."""
    outcomes = Poster([call] * len(movements), movements).post(atomic=True)
    for outcome in outcomes:
        if outcome.refusal is not None:
            raise outcome.refusal
    return [outcome.ledger_transaction_id or 0 for outcome in outcomes]


def post_batch(call: Call, movements: Sequence[Movement]) -> list[MovementOutcome]:
    """Post each movement on its own, those of one atomic set together."""
    return Poster([call] * len(movements), movements).post(atomic=False) if movements else []


def post_each(
    calls: Sequence[Call], movements: Sequence[Movement], locked: Mapping[int, Wallet] | None = None
) -> list[MovementOutcome | None]:
    """Post the movement of each call, as if the calls had come one after the other; `locked` as of a `Poster`.

    An outcome is None for a call that has to come alone: its key is that of another one, which may be refused, or
    campaigns may move points because of another one.
    """
    if len(calls) > 1 and has_consequences(calls[0]):
        return [None] * len(calls)
    first: dict[str | int, int] = {}
    for position, movement in enumerate(movements):
        # One without a key has no other.
        first.setdefault(position if movement.system_unique_key is None else movement.system_unique_key, position)
    chosen = sorted(first.values())
    poster = Poster([calls[position] for position in chosen], [movements[position] for position in chosen], locked)
    posted = poster.post(atomic=False)
    outcomes = dict(zip(chosen, posted, strict=True))
    return [outcomes.get(position) for position in range(len(calls))]


def answered(call: Call, movements: Sequence[Movement], ids: Sequence[int]) -> list[list[TransactionRow]]:
    """The rows of each movement's transaction as first returned, with those posted as part of it.

    Later changes of the transactions are not included.
    """
    rows = ledger_transactions.rows_as_answered(call.db, call.organization.organization_id, ids)
    return [
        # A capture may have left a part of the fiat value: the request has the original one.
        [replace(row, fiat_value=movement.fiat_value) for row in rows[transaction_id]]
        if movement.manual
        else rows[transaction_id]
        for movement, transaction_id in zip(movements, ids, strict=True)
    ]


def capture(call: Call, account: LedgerAccount, amounts: Sequence[tuple[int, Decimal | None]]) -> None:
    """Capture pending transactions of the account, all or none; raises the first refusal."""
    organization_id = call.organization.organization_id
    ids = {transaction_id for transaction_id, _ in amounts}
    stored = posting.find_stored(call.db, organization_id, ids)
    wallets = {
        wallet_id
        for transaction in stored.values()
        for wallet_id in (transaction.from_wallet_id, transaction.to_wallet_id)
        if wallet_id is not None
    }
    lock_wallets(call.db, call.organization, wallets)
    stored = posting.find_stored(call.db, organization_id, ids)
    with work_on_wallets(call, wallets, {account.ledger_account_id}, MOVED) as work:
        for index, (transaction_id, amount) in enumerate(amounts):
            held = stored.get(transaction_id)
            if held is None or held.ledger_account_id != account.ledger_account_id:
                raise UnknownLedgerTransaction(f"The account has no transaction {transaction_id}.")
            try:
                work.ledger.capture(held, work.ledger.accounts[account.ledger_account_id], amount)
            except InvalidRequest as invalid:
                place = f"/transactions/{index}/captureAmount"
                raise InvalidRequest([replace(fault, pointer=place) for fault in invalid.faults]) from invalid
            call.audit.add(
                "ledger-transaction",
                transaction_id,
                before={"isPending": True},
                after={"isPending": False, "captureAmount": amount},
                wallet_ids=(held.from_wallet_id, held.to_wallet_id),
            )


def _keyed(movement: Movement, call: Call) -> Movement:
    return movement if movement.system_unique_key is not None else replace(movement, system_unique_key=call.new_key())
