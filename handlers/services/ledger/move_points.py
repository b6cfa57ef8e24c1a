"""Minting to and burning from a member; ledger and account are looked up if the request names none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from domain.ledger.records import MINT
from domain.members import Member, refuse_erased, refuse_inactive
from handlers.call import Call
from handlers.services.ledger.post_transactions import Movement, post_one
from handlers.services.members.lock_wallets import lock_referrers
from handlers.services.references import account_of_members
from persistence import members, posting


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


def move_points(call: Call, member: Member, transaction_type: int, asked: PointsMove) -> MovedPoints:
    """Mint or burn points of a member (administration, Members 6).

    The same key with the same request returns the same transaction. Raises MemberErased, or MemberInactive unless the
    key was used before.
    """
    lock_referrers(call.db, call.organization, member.wallet_id, ())
    locked = members.lock(call.db, member)
    refuse_erased(locked)
    account = account_of_members(call, asked.ledger_id, asked.ledger_account_id)
    movement = Movement(
        ledger_account_id=account.ledger_account_id,
        amount=asked.amount,
        from_wallet_id=None if transaction_type == MINT else member.wallet_id,
        to_wallet_id=member.wallet_id if transaction_type == MINT else None,
        system_unique_key=asked.system_unique_key or call.new_key(),
        external_event_date=asked.external_event_date,
        external_id=asked.external_id,
        description=asked.description,
        tags=tuple(asked.tags),
    )
    if not posting.find_posted(call.db, account.organization_id, [movement.system_unique_key or ""]):
        refuse_inactive(locked)
    return MovedPoints(
        ledger_transaction_id=post_one(call, movement),
        amount=asked.amount,
        from_wallet_id=movement.from_wallet_id,
        to_wallet_id=movement.to_wallet_id,
        organization_id=account.organization_id,
        ledger_id=account.ledger_id,
        ledger_account_id=account.ledger_account_id,
        atomic_set_id=None,
        system_unique_key=movement.system_unique_key or "",
    )
