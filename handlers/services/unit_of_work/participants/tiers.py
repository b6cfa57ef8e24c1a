"""Tiers in a unit of work: set by requests and effects regardless of points, and restored by reversals.

`TierAssignments` has the tiers of the members; points change them, too. This module adds the effect `set-tier`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from domain.campaigns.context import EventFacts
from domain.campaigns.outcomes import BadParameter
from domain.programs import LoyaltyProgram, LoyaltyTier, TierInactive, UnknownTier
from domain.reversals import ReversedPart
from domain.tier_log import TierLog, TierTracking
from domain.tiers import ConfiguredTier, HeldTier, TierHold, TierSchedule
from handlers.messages.reversals import reversed_tier
from handlers.services.unit_of_work.derived_events import DerivedEvent, tier_event
from handlers.services.unit_of_work.reversals import Reversal
from persistence import member_tiers
from persistence.rows import IdAllocator

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork

# How many ids are reserved when the first one is needed; enough for most units.
_FIRST_IDS = 8
# The first id in a dry run, above all stored ids.
_FIRST_DRY_RUN_ID = 2**62


class TierWork:
    """Tiers that requests and effects set; stored trackings are loaded only if there is something to reverse."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._organization_id = unit.organization_id
        self._assignments = unit.tier_assignments
        self._log = TierLog()
        self._has_loaded_revertible = False
        self._tier_events: list[DerivedEvent] = []
        self._next_id = self._id_source()

    def assign(
        self,
        member_id: int,
        program: LoyaltyProgram,
        tier: LoyaltyTier | None,
        hold: TierHold | None,
        *,
        external_id: str | None = None,
        tags: Sequence[str] = (),
    ) -> tuple[int | None, int | None]:
        """Set a member's tier by a hold; without a tier, let it depend on the points again.

        Returns the ids of the tiers before and after, None for no tier. No event reports a tier that depends on points
        and stays the same. The event has `external_id` and `tags`.
        """
        unit, program_id = self._unit, program.loyalty_program_id
        keys = dict(unit.configuration.tier_keys)
        schedule = self._schedule(program_id)
        points = partial(unit.tier_points, unit.members[member_id].wallet_id)
        if hold is not None and tier is not None:
            keys[tier.loyalty_tier_id] = tier.loyalty_tier_key
            new_tier = hold.held_tier(schedule, points, unit.now)
        elif schedule is not None:
            new_tier = schedule.held_tier_of(points, unit.now)
        else:
            # The tiers of an inactive program do not depend on points.
            new_tier = None if program.default_tier_id is None else HeldTier(program.default_tier_id)
        used_schedule = schedule or without_points(program_id, program.loyalty_program_key)
        previous_tier = self._put(member_id, used_schedule, new_tier, keys, external_id, tags)
        return _tier_id(previous_tier), _tier_id(new_tier)

    def hold(self, member_id: int, tier: ConfiguredTier, hold: TierHold) -> HeldTier | None:
        """Set a member's tier by a hold; return the previous tier, None for no tier."""
        unit, program_id = self._unit, tier.loyalty_program_id
        schedule = self._schedule(program_id)
        new_tier = hold.held_tier(schedule, partial(unit.tier_points, unit.members[member_id].wallet_id), unit.now)
        used_schedule = schedule or without_points(program_id, tier.loyalty_program_key)
        return self._put(member_id, used_schedule, new_tier, unit.configuration.tier_keys)

    def take_derived(self) -> list[DerivedEvent]:
        """Return a `member-tier-set` or `member-tier-removed` for every tier that changed since the last call."""
        tier_events, self._tier_events = self._tier_events, []
        return tier_events

    def reverse(self, event_id: int, reversal: Reversal) -> list[ReversedPart]:
        """Restore the previous tiers of the event's changes, except tiers that have changed since.

        A restored tier that depends on points moves at once if the points have changed meanwhile, and events report
        that.
        """
        unit = self._unit
        if not self._has_loaded_revertible and unit.reversals:
            self._has_loaded_revertible = True
            event_ids = unit.reversals.event_ids
            self._log.put_trackings(member_tiers.find_trackings_since(unit.db, self._organization_id, event_ids))
        return [self._reverse_tracking(tracking, reversal) for tracking in self._log.unreverted_trackings(event_id)]

    def flush(self) -> None:
        """Store the trackings, with two statements at most; the unit stores the tiers themselves."""
        new_trackings, changed_trackings = self._log.take_changes()
        member_tiers.store_trackings(self._unit.db, self._organization_id, new_trackings, changed_trackings)

    def set_by_effect(self, event: EventFacts, params: Mapping[str, Any]) -> None:
        """Execute the effect `set-tier`."""
        tier = self._tier_of_effect(params)
        expires_at = params["expiresAt"]
        if expires_at is not None and expires_at <= self._unit.now:
            raise BadParameter("expiresAt evaluated to a moment in the past.")
        if not tier.active:
            raise TierInactive(f"The tier {tier.name} is not active.")
        hold = TierHold(tier.loyalty_tier_id, expires_at, params["tierHold"])
        previous_tier = self.hold(event.member_id, tier, hold)
        self._log.add(self._tracking(event, tier, params).with_previous(previous_tier))

    def _put(
        self,
        member_id: int,
        schedule: TierSchedule,
        new_tier: HeldTier | None,
        keys: Mapping[int, str],
        external_id: str | None = None,
        tags: Sequence[str] = (),
    ) -> HeldTier | None:
        """Set a member's tier; report it unless it depends on points and stays the same.

        Returns the previous tier, None for no tier.
        """
        member_program = member_id, schedule.loyalty_program_id
        previous_tier = self._assignments.stored_tier(member_program)
        self._assignments.put(member_program, new_tier)
        before, after = _tier_id(previous_tier), _tier_id(new_tier)
        if after != before or (new_tier is not None and new_tier.is_manual):
            event = tier_event(member_id, schedule, keys, before, new_tier)
            self._tier_events.append(replace(event, external_id=external_id, tags=tuple(tags)))
        return previous_tier

    def _tier_of_effect(self, params: Mapping[str, Any]) -> ConfiguredTier:
        """The tier that the parameters of an effect name by keys; raises UnknownTier."""
        program_key, tier_key = params["loyaltyProgramKey"], params["loyaltyTierKey"]
        tier = self._unit.configuration.tiers.get(tier_key.lower())
        if tier is None or tier.loyalty_program_key != program_key.lower():
            raise UnknownTier(f"The loyalty program {program_key} has no tier {tier_key}.")
        return tier

    def _schedule(self, program_id: int) -> TierSchedule | None:
        """The schedule of a program; None for an inactive one."""
        schedules = self._unit.configuration.tier_schedules
        return next((schedule for schedule in schedules if schedule.loyalty_program_id == program_id), None)

    def _tracking(self, event: EventFacts, tier: ConfiguredTier, params: Mapping[str, Any]) -> TierTracking:
        """The record of a tier that an effect sets."""
        return TierTracking(
            organization_id=self._organization_id,
            member_tier_tracking_id=self._next_id(),
            member_id=event.member_id,
            loyalty_program_id=tier.loyalty_program_id,
            loyalty_tier_id=tier.loyalty_tier_id,
            answered_tier_id=_tier_id(self._assignments.stored_tier((event.member_id, tier.loyalty_program_id))),
            expires_at=params["expiresAt"],
            system_unique_key=self._unit.new_key(),
            request_digest=b"",
            external_id=None,
            description=None,
            tags=(),
            loyalty_event_id=event.loyalty_event_id,
            previous_tier_id=None,
            previous_is_manual=False,
            previous_expires_at=None,
            reversal_loyalty_event_id=None,
            created_at=self._unit.now,
            tier_hold=params["tierHold"],
        )

    def _reverse_tracking(self, tracking: TierTracking, reversal: Reversal) -> ReversedPart:
        """Reverse a tracking: restore the tier before it, unless the tier has changed since.

        If the restored tier depends on points, the member then moves to the tier of the current points.
        """
        tracking_id = tracking.member_tier_tracking_id
        is_restored = self._log.reverse(tracking_id, self._assignments, reversal.loyalty_event_id)
        if is_restored and (tracking.previous is None or not tracking.previous.is_fixed):
            self._move_to_tier_of_points(tracking)
        current_tier = self._assignments.stored_tier(tracking.member_program)
        return reversed_tier(tracking, _tier_id(current_tier), is_restored)

    def _move_to_tier_of_points(self, tracking: TierTracking) -> None:
        """Move a member to the tier of the current points in the tracking's program."""
        configuration = self._unit.configuration
        member = self._unit.members[tracking.member_id]
        accounts = {
            schedule.ledger_account_id
            for schedule in configuration.tier_schedules
            if schedule.loyalty_program_id == tracking.loyalty_program_id and schedule.ledger_account_id is not None
        }
        points = partial(self._unit.tier_points, member.wallet_id)
        if tracking.previous is None and not any(
            points(account).balance or points(account).earned for account in accounts
        ):
            # A member who never had points in the program has no tier of it.
            return
        keys = configuration.tier_keys
        for move in self._assignments.move_by_points(member.member_id, accounts, points):
            self._tier_events.append(tier_event(member.member_id, move.schedule, keys, move.tier_id_before, move.tier))

    def _id_source(self) -> Callable[[], int]:
        """A function that returns the id of a new tracking; a dry run reserves no ids."""
        if self._unit.is_dry_run:
            return count(_FIRST_DRY_RUN_ID).__next__
        return IdAllocator(self._unit.db, "member_tier_trackings", _FIRST_IDS).take


def without_points(program_id: int, program_key: str) -> TierSchedule:
    """The schedule of an inactive program, whose tiers do not depend on points."""
    return TierSchedule(
        program_id,
        loyalty_program_key=program_key,
        ledger_account_id=None,
        default_tier_id=None,
        steps=(),
        moves_members=False,
    )


def _tier_id(held_tier: HeldTier | None) -> int | None:
    return None if held_tier is None else held_tier.loyalty_tier_id
