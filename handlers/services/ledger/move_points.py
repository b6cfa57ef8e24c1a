"""Mints and burns points of members; a request that names no ledger or account uses the default one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache, partial

from domain.ledger.availability import Availability, TermsOfAvailability
from domain.ledger.records import MINT, LedgerAccount
from domain.members import Member, inactive_member, refuse_erased
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
    """The returned transaction of a mint or burn of a member's points."""

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
    """A `move` of a member's points; `transaction_type` is a mint or a burn."""

    member: Member
    transaction_type: int
    move: PointsMove


def move_points(calls: Sequence[Call], requests: Sequence[PointsRequest]) -> list[MovedPoints | Refusal | NotBatchable]:
    """Mint or burn points of a member for each call, one after the other (administration, Members 6).

    The same key with the same request returns the same transaction. A request is refused with MemberErased, with
    MemberInactive unless its key was used before, or by the ledger. It is NotBatchable if another call has its key.
    """
    unit = UnitOfWork(calls[0])
    # Read again under the lock, since another transaction may have changed the members.
    members = unit.lock(member_ids={request.member.member_id for request in requests})
    find_account = cache(partial(account_of_members, calls[0]))
    movements = [_movement(request, members[request.member.member_id], find_account) for request in requests]
    account_ids = {movement.ledger_account_id for movement in movements if movement.ledger_account_id is not None}
    # Without an account, all requests are refused.
    if not account_ids:
        return [movement.refusal for movement in movements if movement.refusal is not None]
    batch = MovementBatch(unit, calls, movements)
    return [
        _moved_points(unit, movement, outcome) if isinstance(outcome, int) else outcome
        for movement, outcome in zip(batch.movements, batch.post_all(account_ids), strict=True)
    ]


def _movement(request: PointsRequest, member: Member, find_account: Callable[..., LedgerAccount]) -> Movement:
    """The movement of a request; with a `refusal` if the member is erased or there is no such account."""
    move = request.move
    is_mint = request.transaction_type == MINT
    try:
        refuse_erased(member)
        account = find_account(move.ledger_id, move.ledger_account_id)
    except Refusal as refusal:
        return Movement(refusal=refusal)
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
        availability=Availability.from_fields_of(move),
        refusal_if_new=None if member.active else inactive_member(member),
    )


def _moved_points(unit: UnitOfWork, movement: Movement, transaction_id: int) -> MovedPoints:
    """The posted movement, for the response."""
    account = unit.ledger.accounts[movement.ledger_account_id or 0]
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
