"""Extends the expiry of points: of a member or single lots at once, of a whole account by the worker."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from domain.idempotency import refuse_reuse
from domain.ledger.extensions import (
    DONE,
    RUNNING,
    ExpiryExtension,
    Extension,
    LotTotals,
    UnknownLedgerLot,
    totals_of,
)
from domain.ledger.postings import Details
from domain.ledger.records import LedgerAccount
from domain.ledger.refusals import PointsNotTracked, UnknownLedgerAccount
from domain.members import refuse_erased
from domain.organizations import Organization
from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call, Execution
from handlers.messages.json_text import digest_of
from handlers.services import references
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import posting, test_clocks, transactions
from persistence.expiry_extensions import EXTENSIONS, claim_running, find_next_wallets, find_wallets_of_lots
from persistence.ledger import ACCOUNTS

# The maximum numbers of wallets, and of their lots unless a single wallet has more, that a transaction extends.
WALLETS_AT_ONCE, MAX_LOTS_AT_ONCE = 200, 2_000

_ENTITY = "expiry-extension"
_REASON = "The expiry of points was extended."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionRequest:
    """A request to extend lots of an account: the lots of a member, the lots with `ledger_lot_ids`, or all lots."""

    ledger_account_id: int
    member_id: int | None = None
    ledger_lot_ids: Sequence[int] | None = None
    until: datetime | None = None
    months: int | None = None
    system_unique_key: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ExtensionResult:
    """The number and amount of the extended lots; `status` is `running` while the worker extends them."""

    lots: int
    amount: Decimal
    status: str


@dataclass(frozen=True, slots=True)
class _WalletExtension:
    """Extends lots of wallets in an account.

    `lots` has for each wallet the ids of the lots to extend. All lots of a wallet are extended if its entry is None or
    missing.
    """

    account: LedgerAccount
    extension: Extension
    key: str
    lots: Mapping[int, frozenset[int] | None]
    is_dry_run: bool

    def extend(self, execution: Execution, wallet_ids: Collection[int]) -> LotTotals:
        """Extend the lots of the wallets, in a dry run without storing it; return the totals of the extended lots."""
        unit = UnitOfWork(execution)
        account_ids = {self.account.ledger_account_id}
        unit.lock_wallets(wallet_ids, account_ids)
        if self.is_dry_run:
            unit.open_for_request(account_ids=account_ids)
            return self._post(unit, wallet_ids)
        with open_unit(unit, _REASON, account_ids=account_ids):
            return self._post(unit, wallet_ids)

    def _post(self, unit: UnitOfWork, wallet_ids: Collection[int]) -> LotTotals:
        """Post a transaction for each wallet with extended lots; return the totals of these lots."""
        ledger, savepoint = unit.ledger, unit.ledger.savepoint()
        steps_before = len(ledger.steps)
        # Post for all wallets to see which ones have lots to extend, and then only for these.
        for wallet_id in wallet_ids:
            self._post_one(unit, wallet_id)
        lots_by_step = posting.find_extended_lots(unit.db, unit.organization_id, ledger.steps)[steps_before:]
        ledger.rollback_to(savepoint)
        for wallet_id, lots in zip(wallet_ids, lots_by_step, strict=True):
            if lots:
                self._post_one(unit, wallet_id)
        return totals_of([lot for lots in lots_by_step for lot in lots])

    def _post_one(self, unit: UnitOfWork, wallet_id: int) -> None:
        account = unit.ledger.accounts[self.account.ledger_account_id]
        details = Details(f"{self.key}-{wallet_id}")
        unit.ledger.extend(account, wallet_id, self.extension, details, self.lots.get(wallet_id))


def extend_expiry(call: Call, request: ExtensionRequest) -> ExtensionResult:
    """Extend lots of an account; a request for all lots is left to the worker.

    The same request under the same key returns the progress. Raises InvalidRequest, KeyReused, UnknownLedgerAccount,
    PointsNotTracked, UnknownMember, MemberErased or UnknownLedgerLot.
    """
    digest = digest_of([getattr(request, name) for name in request.__slots__ if name != "system_unique_key"])
    organization_id = call.organization.organization_id
    earlier_extension = EXTENSIONS.find_by(call.db, organization_id, system_unique_key=request.system_unique_key)
    if earlier_extension is not None:
        refuse_reuse(request.system_unique_key, earlier_extension.request_digest, digest)
        return ExtensionResult(earlier_extension.lots, earlier_extension.amount, earlier_extension.status)
    extension = Extension(request.until, request.months)
    faults = extension.field_faults(call.now)
    if request.member_id is not None and request.ledger_lot_ids is not None:
        faults.append(
            FieldFault("memberId and ledgerLotIds exclude each other: send one of them", pointer="/ledgerLotIds")
        )
    if faults:
        raise InvalidRequest(faults)
    account_id = request.ledger_account_id
    account = ACCOUNTS.find(call.db, organization_id, account_id)
    if account is None:
        raise UnknownLedgerAccount(f"ledgerAccountId {account_id} names no ledger account of the organization.")
    if not account.point_tracking_enabled:
        raise PointsNotTracked("The account does not track when points expire: its pointTrackingEnabled is false.")
    if request.member_id is None and request.ledger_lot_ids is None:
        result = ExtensionResult(0, Decimal(0), RUNNING)
        _store(call, request, digest, result)
        return result
    lots = _lots_of(call, request)
    key = f"{_ENTITY}-{call.new_key()}"
    wallet_extension = _WalletExtension(account, extension, key, lots, request.dry_run)
    result = ExtensionResult(*wallet_extension.extend(call, sorted(lots)), DONE)
    if not request.dry_run:
        _store(call, request, digest, result, sorted(lots))
    return result


def _lots_of(call: Call, request: ExtensionRequest) -> dict[int, frozenset[int] | None]:
    """The ids of the lots that a request names, by wallet; None for all lots of a member's wallet."""
    if request.ledger_lot_ids is None:
        member = references.member(call, request.member_id)
        refuse_erased(member)
        return {member.wallet_id: None}
    organization_id = call.organization.organization_id
    lot_ids = sorted(set(request.ledger_lot_ids))
    wallets = find_wallets_of_lots(call.db, organization_id, request.ledger_account_id, lot_ids)
    lots_by_wallet: defaultdict[int, set[int]] = defaultdict(set)
    for lot_id in lot_ids:
        if lot_id not in wallets:
            raise UnknownLedgerLot(f"ledgerLotIds contains {lot_id}, but the account has no lot with this id.")
        lots_by_wallet[wallets[lot_id]].add(lot_id)
    return {wallet_id: frozenset(lots) for wallet_id, lots in lots_by_wallet.items()}


def _store(
    call: Call, request: ExtensionRequest, digest: bytes, result: ExtensionResult, wallet_ids: Sequence[int] = ()
) -> None:
    """Store an extension, with its entry in the audit log."""
    terms = {"until": request.until, "months": request.months}
    totals = {"lots": result.lots, "amount": result.amount}
    values = {
        **terms,
        **totals,
        "ledger_account_id": request.ledger_account_id,
        "system_unique_key": request.system_unique_key,
        "request_digest": digest,
        "is_dry_run": request.dry_run,
        "status": result.status,
        # The worker continues after this wallet.
        "after_wallet_id": 0,
    }
    record = EXTENSIONS.add(call.db, call.organization.organization_id, values, call.now)
    if not request.dry_run:
        after = {"ledgerAccountId": request.ledger_account_id, **terms, **totals}
        call.audit.add(_ENTITY, record.expiry_extension_id, before=None, after=after, wallet_ids=tuple(wallet_ids))


def extend_next(db: Connection, organization: Organization, extension: ExpiryExtension, now: datetime) -> bool:
    """Extend the lots of the next wallets for a locked extension of a whole account.

    Returns False, and sets the extension's status to done, if no wallet remains.
    """
    account = ACCOUNTS.find(db, organization.organization_id, extension.ledger_account_id)
    wallet_ids = find_next_wallets(db, extension, WALLETS_AT_ONCE, MAX_LOTS_AT_ONCE)
    if account is None or not account.point_tracking_enabled or not wallet_ids:
        EXTENSIONS.store(db, extension, {"status": DONE}, now)
        return False
    key = f"{_ENTITY}-{extension.expiry_extension_id}"
    wallet_extension = _WalletExtension(account, extension.extension, key, lots={}, is_dry_run=extension.is_dry_run)
    execution = Execution(db=db, organization=organization, now=now, request_id=_ENTITY)
    lots, amount = wallet_extension.extend(execution, wallet_ids)
    changes = {
        "after_wallet_id": wallet_ids[-1],
        "lots": extension.lots + lots,
        "amount": extension.amount + amount,
    }
    EXTENSIONS.store(db, extension, changes, now)
    return True


def extend_running(engine: Engine) -> bool:
    """Do the next part of a running extension; False if there is none to do now.

    That is so if no extension is running, if other workers have claimed all of them, or if the test clock of the
    organization is advancing or held by another transaction. If a row is locked, the part is left for later.
    """

    def step(db: Connection) -> bool:
        extension = claim_running(db)
        organization = None if extension is None else test_clocks.find_and_hold_clock(db, extension.organization_id)
        if extension is None or organization is None:
            return False
        extend_next(db, organization, extension, organization.time_at(datetime.now(UTC)))
        return True

    try:
        return transactions.run(engine, step)
    except DBAPIError as error:
        if not transactions.is_lock_timeout(error):
            raise
        return True
