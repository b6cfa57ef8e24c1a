"""Late events: with which tiers of the member they are evaluated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from domain.tier_history import EVENT_DATE, TierHistory, is_late
from domain.tiers import HeldTier, TierSchedule
from handlers.services.unit_of_work.tracked import TrackedEvent
from persistence import member_tiers

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


def tiers_of(unit: UnitOfWork, tracked: TrackedEvent) -> tuple[list[int], datetime | None]:
    """The tiers that an event goes by, and the moment whose tiers these are if it is late.

    A derived event tells of what happens at the evaluation, such as a new tier: it goes by the present tiers.
    """
    member, assignments = tracked.member, unit.tier_assignments
    points = unit.tier_points.of(member.wallet_id)
    is_by_date = unit.organization.late_event_tiers == EVENT_DATE and not tracked.depth
    if not (is_by_date and is_late(tracked.at, unit.now)):
        return assignments.tier_ids(member.member_id, points), None

    def evaluate(program_id: int, lapsed: HeldTier) -> int | None:
        return assignments.current(program_id, lapsed, points)

    return unit.tier_history.tier_ids(member.member_id, tracked.at, evaluate), tracked.at


def load_tier_history(
    db: Connection, organization_id: int, member_ids: Collection[int], schedules: Iterable[TierSchedule]
) -> TierHistory:
    """The recorded tiers of members."""
    default_tiers = {schedule.loyalty_program_id: schedule.default_tier_id for schedule in schedules}
    return TierHistory(member_tiers.find_periods(db, organization_id, member_ids), default_tiers)
