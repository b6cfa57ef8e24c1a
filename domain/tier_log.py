"""Requests and effects that set tiers of members, and their reversal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from domain.fields import Internal, Personal
from domain.tiers import FLOOR, HeldTier, MemberProgram, TierAssignments, TierFloor


@dataclass(frozen=True, slots=True)
class TierTracking:
    """A request or effect that sets a member's tier, or lets the points decide it again.

    `answered_tier_id` is the resulting tier. A tracking by an event also has the tier before it, `previous_...`, and
    the event that reversed it, if any.
    """

    organization_id: int
    member_tier_tracking_id: int
    member_id: int
    loyalty_program_id: int
    loyalty_tier_id: int | None
    answered_tier_id: int | None
    expires_at: datetime | None
    system_unique_key: str
    request_digest: Personal[Internal[bytes]]
    external_id: Personal[str | None]
    description: Personal[str | None]
    tags: Personal[tuple[str, ...]]
    loyalty_event_id: int | None
    previous_tier_id: int | None
    previous_is_manual: bool
    previous_expires_at: datetime | None
    reversal_loyalty_event_id: int | None
    created_at: datetime
    # None if the points decide the tier again; requests of older versions set fixed tiers.
    tier_hold: str | None = None
    previous_floor_tier_id: int | None = None
    previous_floor_expires_at: datetime | None = None

    @property
    def member_program(self) -> MemberProgram:
        """The member and the program of the tier."""
        return self.member_id, self.loyalty_program_id

    @property
    def previous(self) -> HeldTier | None:
        """The stored tier before it was set."""
        if self.previous_tier_id is None:
            return None
        floor_id = self.previous_floor_tier_id
        floor = None if floor_id is None else TierFloor(floor_id, self.previous_floor_expires_at)
        return HeldTier(self.previous_tier_id, self.previous_is_manual, self.previous_expires_at, floor)

    def is_in_effect(self, tier: HeldTier | None) -> bool:
        """True if the member's `tier` is still as this tracking has set it."""
        if tier is None or self.loyalty_tier_id is None:
            return False
        if self.tier_hold == FLOOR:
            return tier.floor == TierFloor(self.loyalty_tier_id, self.expires_at)
        return tier == HeldTier(self.loyalty_tier_id, is_manual=True, expires_at=self.expires_at)

    def with_previous(self, previous: HeldTier | None) -> TierTracking:
        """The same tracking with `previous` as the tier that it replaced, which its reversal restores."""
        if previous is None:
            return replace(
                self,
                previous_tier_id=None,
                previous_is_manual=False,
                previous_expires_at=None,
                previous_floor_tier_id=None,
                previous_floor_expires_at=None,
            )
        floor = previous.floor
        return replace(
            self,
            previous_tier_id=previous.loyalty_tier_id,
            previous_is_manual=previous.is_manual,
            previous_expires_at=previous.expires_at,
            previous_floor_tier_id=None if floor is None else floor.loyalty_tier_id,
            previous_floor_expires_at=None if floor is None else floor.expires_at,
        )


class TierLog:
    """The tier trackings of the members and programs that one unit of work changes."""

    def __init__(self) -> None:
        # Stored and new trackings, by id.
        self._trackings: dict[int, TierTracking] = {}
        # The changes that are not stored yet: new trackings, and changed stored trackings.
        self._new_ids: list[int] = []
        self._changed_ids: set[int] = set()

    def put_trackings(self, trackings: Iterable[TierTracking]) -> None:
        """Register stored trackings that may be reversed, and all later trackings of the same member and program."""
        for tracking in trackings:
            self._trackings.setdefault(tracking.member_tier_tracking_id, tracking)

    def add(self, tracking: TierTracking) -> None:
        """Add a tier set by an event in this unit of work."""
        self._trackings[tracking.member_tier_tracking_id] = tracking
        self._new_ids.append(tracking.member_tier_tracking_id)

    def unreverted_trackings(self, loyalty_event_id: int) -> list[TierTracking]:
        """The unreversed trackings of the event, newest first."""
        return [tracking for tracking in self._newest_first() if tracking.loyalty_event_id == loyalty_event_id]

    def reverse(self, member_tier_tracking_id: int, tier_assignments: TierAssignments, loyalty_event_id: int) -> bool:
        """Restore the tier before a tracking; return False if the tier has been set or moved again since.

        If an event has set it again, the reversal of that next tracking will restore the tier before both, so that the
        order of reversals does not matter.
        """
        tracking = self._trackings[member_tier_tracking_id]
        later_trackings = [
            later
            for later in self._newest_first()
            if later.member_program == tracking.member_program
            and later.member_tier_tracking_id > member_tier_tracking_id
        ]
        next_tracking = later_trackings[-1] if later_trackings else None
        is_current = next_tracking is None and tracking.is_in_effect(
            tier_assignments.stored_tier(tracking.member_program)
        )
        if is_current:
            tier_assignments.put(tracking.member_program, tracking.previous)
        elif (
            next_tracking is not None
            and next_tracking.loyalty_event_id is not None
            and tracking.is_in_effect(next_tracking.previous)
        ):
            self._store(next_tracking.with_previous(tracking.previous))
        self._store(replace(tracking, reversal_loyalty_event_id=loyalty_event_id))
        return is_current

    def take_changes(self) -> tuple[list[TierTracking], list[TierTracking]]:
        """Return the new and the changed trackings since the last call, which count as stored from now on."""
        new_trackings = [self._trackings[tracking_id] for tracking_id in self._new_ids]
        changed_trackings = [self._trackings[tracking_id] for tracking_id in sorted(self._changed_ids)]
        self._new_ids, self._changed_ids = [], set()
        return new_trackings, changed_trackings

    def _newest_first(self) -> list[TierTracking]:
        """The unreversed trackings, newest first."""
        trackings = [self._trackings[tracking_id] for tracking_id in sorted(self._trackings, reverse=True)]
        return [tracking for tracking in trackings if tracking.reversal_loyalty_event_id is None]

    def _store(self, tracking: TierTracking) -> None:
        """Store a changed tracking; mark it as changed unless it is new."""
        tracking_id = tracking.member_tier_tracking_id
        self._trackings[tracking_id] = tracking
        if tracking_id not in self._new_ids:
            self._changed_ids.add(tracking_id)
