"""The desk of tiers: what campaigns set whatever the points, and what cancelling takes back of it.

Where members stand is kept by `Standings`, which points move too; this desk adds the effect `set-tier`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from domain.campaigns.effects import SET_TIER
from domain.campaigns.facts import EventFacts, Executor
from domain.campaigns.outcomes import BadParameter
from domain.programs import UnknownTier
from domain.reversals import Undone
from domain.tiers import HeldTier, KnownTier, Ladder, TierInactive, TierLog, TierTracking
from handlers.messages.derived_events import tier_payload
from handlers.messages.reversals import undone_tier
from handlers.services.unit_of_work.derived_events import TIER_REMOVED, TIER_SET, OwnEvent
from handlers.services.unit_of_work.scope import Opening, Reversal
from persistence import member_tiers
from persistence.rows import IdStock

# Enough for what most units do: ids are taken from the database when first needed, then in doubling numbers.
_FIRST_IDS = 8
# A rehearsal's own numbers come after all that is stored.
_REHEARSED = 2**62


class TierDesk:
    """Tiers that effects set in a unit of work; nothing is loaded unless there is something to take back."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._organization_id = opening.organization.organization_id
        self._standings = opening.standings
        self._log = TierLog()
        self._knows_undoable = False
        self._news: list[OwnEvent] = []
        self._next_id = self._numbers()
        self.executors: Mapping[str, Executor] = {SET_TIER: self._set_tier}

    def follow(self) -> list[OwnEvent]:
        """A `member-tier-set` for every tier that was set since the last look."""
        news, self._news = self._news, []
        return news

    def undo(self, event_id: int, by: Reversal) -> list[Undone]:
        """Give back the tiers that the event changed, unless they were set or moved on since.

        A tier that went by points goes by them again at once, and that is reported if they have moved meanwhile.
        """
        if not self._knows_undoable and self._opening.undoable:
            self._knows_undoable = True
            opening = self._opening
            self._log.know(member_tiers.find_trackings_since(opening.db, self._organization_id, opening.undoable))
        return [self._take_back(tracking, by) for tracking in self._log.standing(event_id)]

    def write(self) -> None:
        """Store what has changed since the last time, but for the places themselves: at most two statements."""
        new, changed = self._log.drain()
        member_tiers.store_trackings(self._opening.db, self._organization_id, new, changed)

    def _set_tier(self, event: EventFacts, params: Mapping[str, Any]) -> None:
        tier = self._named(params)
        expires_at = params["expiresAt"]
        if expires_at is not None and expires_at <= self._opening.now:
            raise BadParameter("expiresAt came to a moment that is not in the future.")
        if not tier.active:
            raise TierInactive(f"The tier {tier.name} is not active.")
        place = event.member_id, tier.loyalty_program_id
        before = self._standings.held(place)
        self._standings.put(place, HeldTier(tier.loyalty_tier_id, True, expires_at))
        self._log.add(self._tracking(event, tier, params).after(before))
        payload = tier_payload(
            self._ladder(tier),
            self._opening.configuration.tier_keys,
            None if before is None else before.loyalty_tier_id,
            tier.loyalty_tier_id,
            is_manual=True,
            expires_at=expires_at,
        )
        self._news.append(OwnEvent(event.member_id, TIER_SET, payload))

    def _named(self, params: Mapping[str, Any]) -> KnownTier:
        program_key, tier_key = params["loyaltyProgramKey"], params["loyaltyTierKey"]
        tier = self._opening.configuration.tiers.get(tier_key.lower())
        if tier is None or tier.loyalty_program_key != program_key.lower():
            raise UnknownTier(f"The loyalty program {program_key} has no tier {tier_key}.")
        return tier

    def _ladder(self, tier: KnownTier) -> Ladder:
        program_id = tier.loyalty_program_id
        for ladder in self._opening.configuration.ladders:
            if ladder.loyalty_program_id == program_id:
                return ladder
        # The tiers of an inactive program do not go by points.
        return Ladder(program_id, tier.loyalty_program_key, None, None, (), False)

    def _tracking(self, event: EventFacts, tier: KnownTier, params: Mapping[str, Any]) -> TierTracking:
        return TierTracking(
            organization_id=self._organization_id,
            member_tier_tracking_id=self._next_id(),
            member_id=event.member_id,
            loyalty_program_id=tier.loyalty_program_id,
            loyalty_tier_id=tier.loyalty_tier_id,
            answered_tier_id=tier.loyalty_tier_id,
            expires_at=params["expiresAt"],
            system_unique_key=self._opening.new_key(),
            request_digest=b"",
            external_id=None,
            description=None,
            tags=(),
            loyalty_event_id=event.loyalty_event_id,
            previous_tier_id=None,
            previous_is_manual=False,
            previous_expires_at=None,
            reversal_loyalty_event_id=None,
            created_at=self._opening.now,
        )

    def _take_back(self, tracking: TierTracking, by: Reversal) -> Undone:
        name = tracking.member_tier_tracking_id
        is_restored = self._log.take_back(name, self._standings, by.loyalty_event_id)
        if is_restored and (tracking.previous is None or not tracking.previous.is_manual):
            self._settle(tracking)
        held = self._standings.held(tracking.place)
        return undone_tier(tracking, None if held is None else held.loyalty_tier_id, is_restored)

    def _settle(self, tracking: TierTracking) -> None:
        """Put a member whose tier goes by points again where they belong now."""
        configuration, member = self._opening.configuration, self._opening.members[tracking.member_id]
        accounts = {
            ladder.ledger_account_id
            for ladder in configuration.ladders
            if ladder.loyalty_program_id == tracking.loyalty_program_id and ladder.ledger_account_id is not None
        }
        points = self._opening.tier_points.of(member.wallet_id)
        if tracking.previous is None and not any(points(each).balance or points(each).earned for each in accounts):
            # A member who never had points in the program has no tier of it.
            return
        for move in self._standings.settle(member.member_id, accounts, points):
            keys, ends = configuration.tier_keys, move.expires_at
            payload = tier_payload(move.ladder, keys, move.before, move.after, expires_at=ends)
            event_type = TIER_REMOVED if move.after is None else TIER_SET
            self._news.append(OwnEvent(member.member_id, event_type, payload))

    def _numbers(self) -> Callable[[], int]:
        if self._opening.is_rehearsal:
            return count(_REHEARSED).__next__
        return IdStock(self._opening.db, "member_tier_trackings", _FIRST_IDS).take
