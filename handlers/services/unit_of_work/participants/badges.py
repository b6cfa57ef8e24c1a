"""The desk of badges: what members hold of them in one unit of work, by request and by campaign effects alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import count
from typing import Any, Self

from domain.badges import Badge, BadgeTracking, Grant, Shelf, UnknownBadge
from domain.campaigns.effects import ASSIGN_BADGE, UNASSIGN_BADGE
from domain.campaigns.facts import EventFacts, Executor, Performed
from domain.campaigns.outcomes import NothingToDo
from domain.reversals import Undone
from handlers.messages.derived_events import badge_payload
from handlers.messages.reversals import undone_badge
from handlers.services.unit_of_work.derived_events import BADGE_ASSIGNED, BADGE_UNASSIGNED, OwnEvent
from handlers.services.unit_of_work.scope import Opening, Reversal
from persistence import badges
from persistence.rows import IdStock

# Enough for what most units do: ids are taken from the database when first needed, then in doubling numbers.
_FIRST_IDS = 8


class BadgeDesk:
    """The badges of the members of a unit of work; balances are loaded for all of them when first asked for."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._organization_id = opening.organization.organization_id
        self._badges = {badge.badge_id: badge for badge in opening.configuration.badges.values()}
        self._loaded: Shelf | None = None
        self._knows_undoable = False
        self.executors: Mapping[str, Executor] = {
            ASSIGN_BADGE: self._assign_badge,
            UNASSIGN_BADGE: self._unassign_badge,
        }

    @classmethod
    def open(cls, opening: Opening) -> Self:
        """The desk, at no statement: an organization without badges never needs one."""
        return cls(opening)

    def variables(self, member_id: int) -> Mapping[str, Decimal]:
        """`badges`: what the member holds of every badge, by its key."""
        if not self._badges:
            return {}
        return {badge.badge_key: Decimal(self._shelf.balance(member_id, id_)) for id_, badge in self._badges.items()}

    def assign(self, grant: Grant) -> BadgeTracking:
        """Give a member a badge, once for each key, as `Shelf.assign`."""
        self._recall(grant)
        return self._shelf.assign(grant)

    def unassign(self, grant: Grant) -> BadgeTracking:
        """Take a badge from a member, once for each key, as `Shelf.unassign`."""
        self._recall(grant)
        return self._shelf.unassign(grant)

    def revert(self, badge_tracking_id: int, badge: Badge) -> BadgeTracking:
        """Undo a stored tracking of a member of this unit, as `Shelf.revert`."""
        stored = badges.find_tracking(self._opening.db, self._organization_id, badge_tracking_id)
        self._shelf.know([] if stored is None else [stored])
        return self._shelf.revert(badge_tracking_id, badge)

    def follow(self) -> list[OwnEvent]:
        """A `badge-assigned` or `badge-unassigned` for every change since the last look."""
        if self._loaded is None:
            return []
        return [
            OwnEvent(
                tracking.member_id,
                BADGE_ASSIGNED if tracking.amount_assigned > 0 else BADGE_UNASSIGNED,
                badge_payload(tracking, self._opening.is_rehearsal),
            )
            for tracking in self._loaded.news()
        ]

    def undo(self, event_id: int, by: Reversal) -> list[Undone]:
        """Take back what the event assigned and unassigned, as far as balances allow; nothing of it is reported."""
        if not self._badges:
            return []
        if not self._knows_undoable:
            self._knows_undoable = True
            found = badges.find_trackings_of_events(self._opening.db, self._organization_id, self._opening.undoable)
            self._shelf.know(found)
        return [
            undone_badge(tracking, self._shelf.take_back(tracking.badge_tracking_id, badge, by.loyalty_event_id))
            for tracking in self._shelf.standing(event_id)
            if (badge := self._badges.get(tracking.badge_id)) is not None
        ]

    def write(self) -> None:
        """Store what has changed since the last time: at most three statements."""
        if self._loaded is not None:
            badges.store(self._opening.db, self._organization_id, self._loaded.drain(), self._opening.now)

    @property
    def _shelf(self) -> Shelf:
        if self._loaded is None:
            opening = self._opening
            held = badges.balances_of(opening.db, self._organization_id, opening.members)
            inactive = [member_id for member_id, member in opening.members.items() if not member.active]
            self._loaded = Shelf(held, opening.now, self._namer(), inactive)
        return self._loaded

    def _namer(self) -> Callable[[], tuple[int, str]]:
        """Ids and keys of new trackings; those of a rehearsal are of no table."""
        new_key = self._opening.new_key
        if self._opening.is_rehearsal:
            numbers = count(-1, -1)
            return lambda: (next(numbers), new_key())
        stock = IdStock(self._opening.db, "badge_trackings", _FIRST_IDS)
        return lambda: (stock.take(), new_key())

    def _recall(self, grant: Grant) -> None:
        """Look up what was done before under the key of a request."""
        if grant.system_unique_key is not None:
            self._shelf.know(badges.find_tracked(self._opening.db, self._organization_id, grant.system_unique_key))

    def _assign_badge(self, event: EventFacts, params: Mapping[str, Any]) -> Performed:
        return Performed(Decimal(abs(self._shelf.assign(self._granted(event, params)).amount_assigned)))

    def _unassign_badge(self, event: EventFacts, params: Mapping[str, Any]) -> Performed:
        return Performed(Decimal(abs(self._shelf.unassign(self._granted(event, params)).amount_assigned)))

    def _granted(self, event: EventFacts, params: Mapping[str, Any]) -> Grant:
        """What an effect asks for; its amount is rounded down to whole badges, as points are to their account's."""
        badge = self._opening.configuration.badges.get(params["badgeKey"].lower())
        if badge is None:
            raise UnknownBadge(f"There is no badge with the key {params['badgeKey']}.")
        amount = int(params["amount"])
        if not amount:
            raise NothingToDo("The amount comes to no badge at all.")
        return Grant(event.member_id, badge, amount, loyalty_event_id=event.loyalty_event_id)
