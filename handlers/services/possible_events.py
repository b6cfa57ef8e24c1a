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


def possible_types(
    *,
    moves_tiers: bool,
    has_badges: bool,
    has_missions: bool,
    has_notices: bool,
    heard_types: Collection[str],
    considered_types: Collection[str],
) -> frozenset[str]:
    """The types of derived events that can occur; `considered_types` are the types that any record uses.

    `heard_types` are the types that triggers name.
    """
    possible: set[str] = set(COUPON_EVENTS)
    if moves_tiers:
        possible |= {TIER_SET, TIER_REMOVED}
    if has_badges:
        possible |= {BADGE_ASSIGNED, BADGE_UNASSIGNED}
    # Every movement causes one, so they are reported only if a record names them.
    if TRANSACTION_CREATED in considered_types:
        possible.add(TRANSACTION_CREATED)
    if has_missions:
        possible.add(MISSION_ACHIEVED)
    if has_notices or POINTS_EXPIRED in {*heard_types, *considered_types}:
        possible.add(POINTS_EXPIRED)
    if has_notices:
        possible.add(POINTS_EXPIRING)
    # Without a record that names the type they are stored, but lead to nothing.
    possible |= {POINTS_AVAILABLE, POINTS_CANCELLED} & set(considered_types)
    return frozenset(possible)
