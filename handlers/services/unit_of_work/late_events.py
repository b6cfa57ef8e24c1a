"""Late events: with which tiers of the member they are evaluated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from domain.members import Member
from domain.tier_history import EVENT_DATE, TierHistory, is_late
from domain.tiers import HeldTier, TierSchedule
from handlers.services.unit_of_work.tracked import TrackedEvent
from persistence import member_tiers

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


def tiers_of(unit: UnitOfWork, tracked: TrackedEvent) -> tuple[list[int], datetime | None]:
    """The tiers that apply to an event, and the moment whose tiers these are if it is late.

    A derived event reports what happens at the evaluation, such as a new tier: the present tiers apply.
    """
    is_by_date = unit.organization.late_event_tiers == EVENT_DATE and not tracked.depth
    if is_by_date and is_late(tracked.at, unit.now):
        return _tiers_at(unit, tracked.member, tracked.at), tracked.at
    return _present_tiers(unit, tracked.member), None


def tier_keys_at(unit: UnitOfWork, wallet_id: int, at: datetime) -> frozenset[str]:
    """The keys of the tiers that the member with this wallet had at a moment; a wallet of nobody has none."""
    member = next((member for member in unit.members.values() if member.wallet_id == wallet_id), None)
    if member is None:
        return frozenset()
    tier_ids = _tiers_at(unit, member, at) if is_late(at, unit.now) else _present_tiers(unit, member)
    keys = unit.configuration.tier_keys
    return frozenset(keys[tier_id] for tier_id in tier_ids if tier_id in keys)


def _present_tiers(unit: UnitOfWork, member: Member) -> list[int]:
    return unit.tier_assignments.tier_ids(member.member_id, unit.tier_points.of(member.wallet_id))


def _tiers_at(unit: UnitOfWork, member: Member, at: datetime) -> list[int]:
    points = unit.tier_points.of(member.wallet_id)

    def evaluate(program_id: int, lapsed: HeldTier) -> int | None:
        return unit.tier_assignments.current(program_id, lapsed, points)

    return unit.tier_history.tier_ids(member.member_id, at, evaluate)


def load_tier_history(
    db: Connection, organization_id: int, member_ids: Collection[int], schedules: Iterable[TierSchedule]
) -> TierHistory:
    """Load the recorded tiers of members."""
    default_tiers = {schedule.loyalty_program_id: schedule.default_tier_id for schedule in schedules}
    return TierHistory(member_tiers.find_periods(db, organization_id, member_ids), default_tiers)
