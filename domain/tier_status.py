"""A member's tier status in a loyalty program: the tier, and the points for it, to the next and to keep it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from domain.tiers import HeldTier, KnownTier, MemberTier, Points, Step, TierSchedule

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class NextTier:
    """The tier above the present one, and the points missing to it."""

    loyalty_tier_id: int
    loyalty_tier_key: str
    name: str
    missing_points: Decimal


@dataclass(frozen=True, slots=True)
class TierStatus:
    """A member's tier status in a program; `points` are those that count now.

    `tier_hold` is that of a tier that was set, and `is_manual` is true while it decides the tier, and not the points.
    `points_to_keep` are missing at `expires_at` to keep the tier, and `projected_tier` follows if nothing is earned
    until then; both are None for a tier that does not end.
    """

    loyalty_program_id: int
    loyalty_program_key: str
    tier: KnownTier | None
    is_manual: bool
    tier_hold: str | None
    since: datetime | None
    expires_at: datetime | None
    points: Decimal
    next_tier: NextTier | None
    points_to_keep: Decimal | None
    projected_tier: KnownTier | None


def tier_status(
    schedule: TierSchedule, tiers: Mapping[int, KnownTier], member_tier: MemberTier | None, points: Points, at: datetime
) -> TierStatus:
    """The tier status of a member who holds this tier, if any; `tiers` are those of the organization, by id."""
    counted_points = schedule.counted_points(points, at)
    least = _least_of(schedule, member_tier)
    to_keep, projected = None, None
    held_tier = None if member_tier is None else member_tier.held_tier
    hold = None if held_tier is None else held_tier.hold(at)
    if held_tier is not None and held_tier.expires_at is not None:
        then = schedule.counted_points(points, held_tier.expires_at)
        to_keep = None if least is None else max(ZERO, least - then)
        place = schedule.place_of(points, held_tier.expires_at, held_tier.floor)
        projected = None if place is None else tiers.get(place.loyalty_tier_id)
    return TierStatus(
        loyalty_program_id=schedule.loyalty_program_id,
        loyalty_program_key=schedule.loyalty_program_key,
        tier=None if member_tier is None else tiers.get(member_tier.loyalty_tier_id),
        is_manual=held_tier is not None and hold is not None and _is_held(schedule, held_tier, counted_points),
        tier_hold=hold,
        since=None if member_tier is None else member_tier.created_at,
        expires_at=None if held_tier is None else held_tier.expires_at,
        points=counted_points,
        next_tier=_next_tier(
            schedule, tiers, counted_points, counted_points if least is None else max(least, counted_points)
        ),
        points_to_keep=to_keep,
        projected_tier=projected,
    )


def _is_held(schedule: TierSchedule, tier: HeldTier, counted_points: Decimal) -> bool:
    """True if the tier hold decides the tier: one by these points may have reached a floor merely by time."""
    return tier.is_fixed or tier.loyalty_tier_id != schedule.tier_at(counted_points)


def _least_of(schedule: TierSchedule, tier: MemberTier | None) -> Decimal | None:
    """The points that the member's tier requires; None if it does not depend on points."""
    if tier is not None:
        for step in schedule.steps:
            if step.loyalty_tier_id == tier.loyalty_tier_id:
                return step.min_required_points
    return None


def _next_tier(
    schedule: TierSchedule, tiers: Mapping[int, KnownTier], counted_points: Decimal, reached_points: Decimal
) -> NextTier | None:
    if schedule.ledger_account_id is None:
        return None
    above = [step for step in schedule.steps if step.min_required_points > reached_points]
    if not above:
        return None
    next_step = min(above, key=_order)
    tier = tiers.get(next_step.loyalty_tier_id)
    if tier is None:
        return None
    return NextTier(
        tier.loyalty_tier_id, tier.loyalty_tier_key, tier.name, next_step.min_required_points - counted_points
    )


def _order(step: Step) -> tuple[Decimal, int, int]:
    """The sort key of tiers: by points, and among equals the order in which they rank."""
    return step.min_required_points, -step.tier_order, step.loyalty_tier_id
