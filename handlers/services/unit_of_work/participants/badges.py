"""Badges in a unit of work: assigned and unassigned by requests and campaign effects alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from domain.badges import Badge, BadgeBalances, BadgeGrant, BadgeTracking, UnknownBadge
from domain.campaigns.context import EventFacts, ExecutorResult
from domain.campaigns.outcomes import NothingToDo
from domain.event_types import BADGE_ASSIGNED, BADGE_UNASSIGNED
from domain.reversals import ReversedPart
from handlers.messages.derived_events import badge_payload
from handlers.messages.reversals import reversed_badge
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.reversals import Reversal
from persistence import badges
from persistence.badges import TRACKINGS
from persistence.rows import IdAllocator

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork

# How many ids are reserved when the first one is needed; enough for most units.
_FIRST_IDS = 8
# The first id in a dry run, above all stored ids.
_FIRST_DRY_RUN_ID = 2**62


class BadgeWork:
    """The badges of the members of a unit; the first use of a balance loads the balances of all members."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._organization_id = unit.organization_id
        self._badges = {badge.badge_id: badge for badge in unit.configuration.badges.values()}
        self._loaded_balances: BadgeBalances | None = None
        # The balances of a hypothetical member, see `assume`.
        self._hypothetical_balances: Mapping[tuple[int, int], int] = {}
        self._has_loaded_for_reversal = False
        self._ids_to_reserve = _FIRST_IDS

    def balances_by_key(self, member_id: int) -> Mapping[str, Decimal]:
        """The member's balance of every badge, by the key of the badge: the variable `badges` of expressions."""
        return {
            badge.badge_key: Decimal(self._balances.balance(member_id, badge_id))
            for badge_id, badge in self._badges.items()
        }

    def assume(self, member_id: int, amounts: Mapping[int, int]) -> None:
        """Use these balances, by badge id, for a hypothetical member."""
        self._hypothetical_balances = {(member_id, badge_id): amount for badge_id, amount in amounts.items()}

    def load_trackings(self, system_unique_keys: Collection[str]) -> None:
        """Load the trackings of earlier requests with these keys, so that a repeated request returns its result."""
        if system_unique_keys:
            trackings = TRACKINGS.find_all(self._unit.db, self._organization_id, system_unique_key=system_unique_keys)
            self._balances.put_trackings(trackings)

    def expect_changes(self, count: int) -> None:
        """Prepare for `count` changes, so that one statement reserves their ids."""
        self._ids_to_reserve = max(count, _FIRST_IDS)

    def assign(self, grant: BadgeGrant) -> BadgeTracking:
        """Assign a badge by `BadgeBalances.assign`; first call `load_trackings` with the key of the grant."""
        return self._balances.assign(grant)

    def remaining(self, member_id: int, badge: Badge) -> int:
        """How much more of the badge the member can hold."""
        return self._balances.remaining(member_id, badge)

    def unassign(self, grant: BadgeGrant) -> BadgeTracking:
        """Unassign a badge by `BadgeBalances.unassign`; first call `load_trackings` with the key of the grant."""
        return self._balances.unassign(grant)

    def revert(self, badge_tracking_id: int, badge: Badge) -> BadgeTracking:
        """Revert a stored tracking of a member of this unit by `BadgeBalances.revert`."""
        unit = self._unit
        ids = [badge_tracking_id]
        trackings = badges.find_for_reversal(unit.db, self._organization_id, unit.members, badge_tracking_ids=ids)
        self._balances.put_trackings(trackings)
        return self._balances.revert(badge_tracking_id, badge)

    def take_derived(self) -> list[DerivedEvent]:
        """Return a `badge-assigned` or `badge-unassigned` event for every change that was not returned yet."""
        if self._loaded_balances is None:
            return []
        return [
            DerivedEvent(
                tracking.member_id,
                BADGE_ASSIGNED if tracking.amount_assigned > 0 else BADGE_UNASSIGNED,
                badge_payload(tracking, self._unit.is_dry_run),
            )
            for tracking in self._loaded_balances.take_new_trackings()
        ]

    def reverse(self, event_id: int, reversal: Reversal) -> list[ReversedPart]:
        """Reverse the trackings of an event, as far as balances allow; no derived event reports the reversals."""
        if not self._badges:
            return []
        if not self._has_loaded_for_reversal:
            self._has_loaded_for_reversal = True
            unit = self._unit
            event_ids = unit.reversals.event_ids if unit.reversals else frozenset()
            trackings = badges.find_for_reversal(unit.db, self._organization_id, unit.members, event_ids=event_ids)
            self._balances.put_trackings(trackings)
        reversed_badges = []
        for tracking in self._balances.unreverted_trackings(event_id):
            badge = self._badges.get(tracking.badge_id)
            if badge is not None:
                badge_reversal = self._balances.reverse(tracking.badge_tracking_id, badge, reversal.loyalty_event_id)
                reversed_badges.append(reversed_badge(tracking, badge_reversal))
        return reversed_badges

    def flush(self) -> None:
        """Store the changes since the last flush, with three statements at most."""
        if self._loaded_balances is not None:
            badges.store(self._unit.db, self._organization_id, self._loaded_balances.take_changes(), self._unit.now)

    @property
    def _balances(self) -> BadgeBalances:
        """The balances of all members of the unit, loaded at the first use."""
        if self._loaded_balances is None:
            unit = self._unit
            balances = {
                **badges.find_balances(unit.db, self._organization_id, unit.members),
                **self._hypothetical_balances,
            }
            inactive_ids = [member_id for member_id, member in unit.members.items() if not member.active]
            self._loaded_balances = BadgeBalances(balances, unit.now, self._id_and_key_source(), inactive_ids)
        return self._loaded_balances

    def _id_and_key_source(self) -> Callable[[], tuple[int, str]]:
        """A function that returns the id and the key of a new tracking; a dry run reserves no ids."""
        new_key = self._unit.new_key
        if self._unit.is_dry_run:
            ids = count(_FIRST_DRY_RUN_ID)
            return lambda: (next(ids), new_key())
        allocator = IdAllocator(self._unit.db, "badge_trackings", self._ids_to_reserve)
        return lambda: (allocator.take(), new_key())

    def assign_by_effect(self, event: EventFacts, params: Mapping[str, Any]) -> ExecutorResult:
        """Execute the effect `assign-badge`."""
        tracking = self._balances.assign(self._grant_of(event, params))
        return ExecutorResult(amount=Decimal(tracking.amount_assigned))

    def unassign_by_effect(self, event: EventFacts, params: Mapping[str, Any]) -> ExecutorResult:
        """Execute the effect `unassign-badge`."""
        tracking = self._balances.unassign(self._grant_of(event, params))
        return ExecutorResult(amount=Decimal(-tracking.amount_assigned))

    def _grant_of(self, event: EventFacts, params: Mapping[str, Any]) -> BadgeGrant:
        """The grant of an effect; its amount is rounded down to whole badges."""
        badge = self._unit.configuration.badges.get(params["badgeKey"].lower())
        if badge is None:
            raise UnknownBadge(f"There is no badge with the key {params['badgeKey']}.")
        amount = int(params["amount"])
        if not amount:
            raise NothingToDo("The amount rounds down to zero badges.")
        return BadgeGrant(event.member_id, badge, amount, loyalty_event_id=event.loyalty_event_id)
