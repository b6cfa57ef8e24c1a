"""Minting to and burning from a member; ledger and account are looked up if the request names none."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from domain.ledger.records import MINT, LedgerAccount
from domain.members import Member, refuse_erased, refuse_inactive
from domain.problems import Refusal
from handlers.call import Call
from handlers.services.ledger.post_transactions import Movement, post_each
from handlers.services.members.lock_wallets import lock_wallets
from handlers.services.references import account_of_members
from handlers.services.unit_of_work.unit import only
from persistence import posting
from persistence.members import MEMBERS


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsMove:
    """The request to mint or burn points of a member."""

    ledger_id: int | None = None
    ledger_account_id: int | None = None
    amount: Decimal
    description: str | None = None
    tags: Sequence[str] = ()
    system_unique_key: str | None = None
    external_event_date: datetime | None = None
    external_id: str | None = None


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
    """The request of a call to mint or burn points of a member."""

    call: Call
    member: Member
    transaction_type: int
    asked: PointsMove


def move_points(call: Call, member: Member, transaction_type: int, asked: PointsMove) -> MovedPoints:
    """Mint or burn points of a member (administration, Members 6).

    The same key with the same request returns the same transaction. Raises MemberErased, or MemberInactive unless the
    key was used before.
    """
    return only(move_points_of([PointsRequest(call, member, transaction_type, asked)]))


def move_points_of(requests: Sequence[PointsRequest]) -> list[MovedPoints | Refusal | None]:
    """Mint or burn points for each request, as `move_points`; None for one whose call has to come alone."""
    call = requests[0].call
    organization_id = call.organization.organization_id
    wallets = lock_wallets(call.db, call.organization, {request.member.wallet_id for request in requests})
    # Read again, now that nobody else can change them.
    stored = MEMBERS.find_all(call.db, organization_id, member_id={request.member.member_id for request in requests})
    locked = {member.member_id: member for member in stored}
    keys = [request.asked.system_unique_key or call.new_key() for request in requests]
    posted: Collection[str] = ()
    if not all(member.active for member in stored):
        posted = posting.find_posted(call.db, organization_id, keys).keys()
    accounts: dict[tuple[int | None, int | None], LedgerAccount | Refusal] = {}
    moves: dict[int, tuple[PointsRequest, Movement, LedgerAccount]] = {}
    outcomes: dict[int, MovedPoints | Refusal | None] = {}
    for position, (request, key) in enumerate(zip(requests, keys, strict=True)):
        try:
            member = locked[request.member.member_id]
            refuse_erased(member)
            account = _account(call, request.asked, accounts)
            if key not in posted:
                refuse_inactive(member)
            moves[position] = request, _movement(request, account, key), account
        except Refusal as refusal:
            outcomes[position] = refusal
    calls = [request.call for request, _, _ in moves.values()]
    done = post_each(calls, [movement for _, movement, _ in moves.values()], wallets) if moves else ()
    for (position, (request, movement, account)), outcome in zip(moves.items(), done, strict=True):
        if outcome is None or outcome.ledger_transaction_id is None:
            outcomes[position] = None if outcome is None else outcome.refusal
        else:
            outcomes[position] = _moved(request, movement, account, outcome.ledger_transaction_id)
    return [outcomes[position] for position in range(len(requests))]


def _account(
    call: Call, asked: PointsMove, known: dict[tuple[int | None, int | None], LedgerAccount | Refusal]
) -> LedgerAccount:
    """The account of a request; `known` has those that were looked up."""
    named = asked.ledger_id, asked.ledger_account_id
    if named not in known:
        try:
            known[named] = account_of_members(call, *named)
        except Refusal as refusal:
            known[named] = refusal
    account_or_refusal = known[named]
    if isinstance(account_or_refusal, Refusal):
        raise account_or_refusal
    return account_or_refusal


def _movement(request: PointsRequest, account: LedgerAccount, key: str) -> Movement:
    asked, is_mint = request.asked, request.transaction_type == MINT
    return Movement(
        ledger_account_id=account.ledger_account_id,
        amount=asked.amount,
        from_wallet_id=None if is_mint else request.member.wallet_id,
        to_wallet_id=request.member.wallet_id if is_mint else None,
        system_unique_key=key,
        external_event_date=asked.external_event_date,
        external_id=asked.external_id,
        description=asked.description,
        tags=tuple(asked.tags),
    )


def _moved(request: PointsRequest, movement: Movement, account: LedgerAccount, transaction_id: int) -> MovedPoints:
    return MovedPoints(
        ledger_transaction_id=transaction_id,
        amount=request.asked.amount,
        from_wallet_id=movement.from_wallet_id,
        to_wallet_id=movement.to_wallet_id,
        organization_id=account.organization_id,
        ledger_id=account.ledger_id,
        ledger_account_id=account.ledger_account_id,
        atomic_set_id=None,
        system_unique_key=movement.system_unique_key or "",
    )
