"""Minting to and burning from a member; ledger and account are looked up if the request names none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from domain.ledger.availability import Availability, TermsOfAvailability
from domain.ledger.records import MINT, LedgerAccount
from domain.members import Member, inactive, refuse_erased
from domain.problems import Refusal
from handlers.call import Call, NotBatchable
from handlers.services.ledger.movements import Movement
from handlers.services.ledger.post_transactions import MovementBatch
from handlers.services.references import account_of_members
from handlers.services.unit_of_work.unit import UnitOfWork


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsMove(TermsOfAvailability):
    """The request to mint or burn points of a member."""

    ledger_id: int | None = None
    ledger_account_id: int | None = None
    amount: Decimal
    description: str | None = None
    tags: Sequence[str] = ()
    system_unique_key: str | None = None
    external_event_date: datetime | None = None
    external_id: str | None = None
    qualifying_amount: Decimal | None = None
    counts_as_activity: bool = True


@dataclass(frozen=True, slots=True)
class MovedPoints:
    """The transaction of a mint or burn by member, as it is returned."""

    ledger_transaction_id: int
    amount: Decimal
    from_wallet_id: int | None
    to_wallet_id: int | None
    organization_id: int
    ledger_id: int
    ledger_account_id: int
    atomic_set_id: str | None
    system_unique_key: str


@dataclass(frozen=True, slots=True)
class PointsRequest:
    """The request to mint or burn points of a member."""

    member: Member
    transaction_type: int
    move: PointsMove


def move_points(calls: Sequence[Call], requests: Sequence[PointsRequest]) -> list[MovedPoints | Refusal | NotBatchable]:
    """Mint or burn points of a member for each call, one after the other (administration, Members 6).

    The same key with the same request returns the same transaction. Refused with MemberErased, or MemberInactive unless
    the key was used before, or as by `post_transactions.post`, which also says what is NotBatchable.
    """
    unit = UnitOfWork(calls[0])
    # Read again, now that nobody else can change them.
    members = unit.lock(member_ids={request.member.member_id for request in requests})
    accounts: dict[tuple[int | None, int | None], LedgerAccount | Refusal] = {}
    outcomes: dict[int, MovedPoints | Refusal | NotBatchable] = {}
    movements: dict[int, tuple[Movement, LedgerAccount]] = {}
    for position, request in enumerate(requests):
        member = members[request.member.member_id]
        try:
            refuse_erased(member)
            account = _account(calls[0], request.move, accounts)
            movements[position] = _movement(request, member, account), account
        except Refusal as refusal:
            outcomes[position] = refusal
    if movements:
        outcomes |= _post(unit, calls, movements)
    return [outcomes[position] for position in range(len(requests))]


def _post(
    unit: UnitOfWork, calls: Sequence[Call], movements: Mapping[int, tuple[Movement, LedgerAccount]]
) -> dict[int, MovedPoints | Refusal | NotBatchable]:
    """Post movements, by the positions of their calls; returns the outcomes by position."""
    posting_calls = [calls[position] for position in movements]
    batch = MovementBatch(unit, posting_calls, [movement for movement, _ in movements.values()])
    posted = batch.post_all({account.ledger_account_id for _, account in movements.values()})
    outcomes: dict[int, MovedPoints | Refusal | NotBatchable] = {}
    of_posted = zip(movements.items(), batch.movements, posted, strict=True)
    for (position, (_, account)), movement, outcome in of_posted:
        outcomes[position] = _moved_points(movement, account, outcome) if isinstance(outcome, int) else outcome
    return outcomes


def _account(
    call: Call, move: PointsMove, accounts: dict[tuple[int | None, int | None], LedgerAccount | Refusal]
) -> LedgerAccount:
    """The account of a request; `accounts` has those that were looked up."""
    names = move.ledger_id, move.ledger_account_id
    if names not in accounts:
        try:
            accounts[names] = account_of_members(call, *names)
        except Refusal as refusal:
            accounts[names] = refusal
    account_or_refusal = accounts[names]
    if isinstance(account_or_refusal, Refusal):
        raise account_or_refusal
    return account_or_refusal


def _movement(request: PointsRequest, member: Member, account: LedgerAccount) -> Movement:
    move, is_mint = request.move, request.transaction_type == MINT
    return Movement(
        ledger_account_id=account.ledger_account_id,
        amount=move.amount,
        from_wallet_id=None if is_mint else member.wallet_id,
        to_wallet_id=member.wallet_id if is_mint else None,
        system_unique_key=move.system_unique_key,
        external_event_date=move.external_event_date,
        external_id=move.external_id,
        description=move.description,
        tags=tuple(move.tags),
        qualifying_amount=move.qualifying_amount,
        counts_as_activity=move.counts_as_activity,
        availability=Availability.named_by(move),
        refusal_if_new=None if member.active else inactive(member),
    )


def _moved_points(movement: Movement, account: LedgerAccount, transaction_id: int) -> MovedPoints:
    return MovedPoints(
        ledger_transaction_id=transaction_id,
        amount=movement.amount or Decimal(0),
        from_wallet_id=movement.from_wallet_id,
        to_wallet_id=movement.to_wallet_id,
        organization_id=account.organization_id,
        ledger_id=account.ledger_id,
        ledger_account_id=account.ledger_account_id,
        atomic_set_id=None,
        system_unique_key=movement.system_unique_key or "",
    )
