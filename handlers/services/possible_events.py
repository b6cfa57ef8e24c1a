"""The types of derived events that can occur in an organization."""

from collections.abc import Collection

from domain.event_types import (
    BADGE_ASSIGNED,
    BADGE_UNASSIGNED,
    COUPON_EVENTS,
    MISSION_ACHIEVED,
    POINTS_AVAILABLE,
    POINTS_CANCELLED,
    POINTS_EXPIRED,
    POINTS_EXPIRING,
    TIER_REMOVED,
    TIER_SET,
    TRANSACTION_CREATED,
)


def possible_derived_types(
    *,
    moves_tiers: bool,
    has_badges: bool,
    has_missions: bool,
    has_notices: bool,
    trigger_types: Collection[str],
    considered_types: Collection[str],
) -> frozenset[str]:
    """The types of derived events that can occur.

    `trigger_types` are the types that triggers name; `considered_types` are the types that campaigns, missions,
    referral programs or expiration policies use.
    """
    possible_types: set[str] = set(COUPON_EVENTS)
    if moves_tiers:
        possible_types |= {TIER_SET, TIER_REMOVED}
    if has_badges:
        possible_types |= {BADGE_ASSIGNED, BADGE_UNASSIGNED}
    # Every movement would cause such an event, so they are reported only if a record uses the type.
    if TRANSACTION_CREATED in considered_types:
        possible_types.add(TRANSACTION_CREATED)
    if has_missions:
        possible_types.add(MISSION_ACHIEVED)
    if has_notices or POINTS_EXPIRED in {*trigger_types, *considered_types}:
        possible_types.add(POINTS_EXPIRED)
    if has_notices:
        possible_types.add(POINTS_EXPIRING)
    # These events are always reported. If no record uses their type, they can cause nothing.
    possible_types |= {POINTS_AVAILABLE, POINTS_CANCELLED} & set(considered_types)
    return frozenset(possible_types)
