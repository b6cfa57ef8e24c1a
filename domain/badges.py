"""Badges: the amounts that members hold, from 0 to the badge's `max_amount`, and every change of them.

`BadgeBalances` holds the balances of the members of one unit of work: it decides on changes and collects those to be
stored.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from domain.fields import Internal, Key, Personal
from domain.idempotency import ResultsByKey
from domain.members import MemberInactive
from domain.problems import Conflict, NotFound

Place = tuple[int, int]
"""A member's id and a badge's id."""


@dataclass(frozen=True, slots=True)
class Badge:
    """Something that members are given; no member can hold more than `max_amount` of it."""

    organization_id: int
    badge_id: int
    badge_key: Key
    name: str
    description: str | None
    picture_url: str | None
    max_amount: int
    active: bool
    tags: tuple[str, ...]
    custom_attributes: Mapping[str, Any]
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class MemberBadge(Badge):
    """A badge and how much of it a member holds."""

    assigned_balance: int


@dataclass(frozen=True, slots=True)
class BadgeBalance:
    """How much of a badge a member holds."""

    badge_id: int
    badge_key: str
    member_id: int
    loyalty_member_id: str
    assigned_balance: int


@dataclass(frozen=True, slots=True)
class BadgeTracking:
    """One change of a member's badge balance; `amount_assigned` is the amount added, negative if taken away.

    `updated_total_assigned` is the balance after the change. A reversal and the tracking that it reverts refer to each
    other; `missing` is the amount that the reversal could not unassign yet, negative if it could not assign it.
    """

    organization_id: int
    badge_tracking_id: int
    badge_tracking_key: Key
    badge_id: int
    badge_key: str
    member_id: int
    amount_assigned: int
    updated_total_assigned: int
    system_unique_key: str
    request_digest: Personal[Internal[bytes]]
    custom_attributes: Personal[Mapping[str, Any]]
    external_id: Personal[str | None]
    # The event whose campaigns or cancellation made the tracking; null for one by request.
    loyalty_event_id: int | None
    reverted_badge_tracking_id: int | None
    reversal_badge_tracking_id: int | None
    missing: int
    created_at: datetime


class UnknownBadge(NotFound, title="There is no such badge"):
    """The organization does not have the badge that the request or an effect names."""


class BadgeInactive(Conflict, title="The badge is not active"):
    """An inactive badge cannot be assigned or unassigned; earlier trackings can still be reverted."""


class BadgeLimit(Conflict, title="The member would hold more of the badge than allowed"):
    """The member would hold more of the badge than its `max_amount`."""


class InsufficientBadges(Conflict, title="The member holds too few of the badge"):
    """The member holds less of the badge than is to be taken away."""


class BadgeTrackingReverted(Conflict, title="The badge tracking has already been reverted"):
    """A tracking can be reverted only once."""


class BadgeTrackingNotRevertible(Conflict, title="The badge tracking cannot be reverted"):
    """A tracking that reverts another one cannot be reverted."""


@dataclass(frozen=True, slots=True)
class BadgeGrant:
    """A command to give a member `amount` of a badge, or to take it away.

    Without a `system_unique_key` it is always executed.
    """

    member_id: int
    badge: Badge
    amount: int
    system_unique_key: str | None = None
    request_digest: bytes = b""
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    external_id: str | None = None
    loyalty_event_id: int | None = None


@dataclass(frozen=True, slots=True)
class BadgeChanges:
    """Changes to be stored: balances, new trackings, and stored ones with another reversal or missing amount."""

    balances: Mapping[Place, int]
    trackings: tuple[BadgeTracking, ...]
    changed_trackings: tuple[BadgeTracking, ...]

    def __bool__(self) -> bool:
        """True if there are any: each change comes with a new tracking."""
        return bool(self.trackings)


class BadgeBalances:
    """Badge balances of the members of one unit of work at the moment `at`.

    A missing entry in `balances` is a balance of zero. `new_name` returns the id and the key of the next tracking, each
    id greater than those before. Nothing is assigned to, or unassigned from, members who are `inactive`.

    A reversal of an assignment unassigns at most the member's balance; the rest is its missing amount. The revert of an
    earlier unassignment first settles that missing amount, and returns only the rest to the member. A reversal of an
    unassignment cannot exceed the maximum; in the same way, the revert of an earlier assignment settles what it lacks.
    """

    def __init__(
        self,
        balances: Mapping[Place, int],
        at: datetime,
        new_name: Callable[[], tuple[int, str]],
        inactive: Collection[int] = (),
    ) -> None:
        self._balances = dict(balances)
        self._at = at
        self._new_name = new_name
        self._inactive = frozenset(inactive)
        self._trackings: dict[int, BadgeTracking] = {}
        self._ids_by_key: ResultsByKey[int] = ResultsByKey()
        self._new: list[int] = []
        self._news: list[BadgeTracking] = []
        self._touched: set[Place] = set()
        self._changed: set[int] = set()

    def register(self, trackings: Iterable[BadgeTracking]) -> None:
        """Register stored trackings, to recognize their keys and to revert them."""
        for tracking in trackings:
            if tracking.badge_tracking_id not in self._trackings:
                self._trackings[tracking.badge_tracking_id] = tracking
                self._add_key(tracking)

    def balance(self, member_id: int, badge_id: int) -> int:
        """How much of the badge the member holds."""
        return self._balances.get((member_id, badge_id), 0)

    def assign(self, grant: BadgeGrant) -> BadgeTracking:
        """Assign a badge; for a key that was used, return the tracking that it made.

        Raises KeyReused, MemberInactive, BadgeInactive or BadgeLimit.
        """
        return self._tracking_by_key(grant) or self._grant(grant, grant.amount)

    def unassign(self, grant: BadgeGrant) -> BadgeTracking:
        """Take a badge away, as `assign`; raises KeyReused, MemberInactive, BadgeInactive or InsufficientBadges."""
        return self._tracking_by_key(grant) or self._grant(grant, -grant.amount)

    def revert(self, badge_tracking_id: int, badge: Badge, loyalty_event_id: int | None = None) -> BadgeTracking:
        """Revert a registered tracking, less what it repays of later reversals; the badge need not be active.

        Raises BadgeTrackingReverted, BadgeTrackingNotRevertible, BadgeLimit or InsufficientBadges.
        """
        tracking = self._trackings[badge_tracking_id]
        if tracking.reverted_badge_tracking_id is not None:
            raise BadgeTrackingNotRevertible("A tracking that reverted another one cannot be reverted.")
        if tracking.reversal_badge_tracking_id is not None:
            raise BadgeTrackingReverted(f"The badge tracking {tracking.badge_tracking_key} has already been reverted.")
        repayments = self._repayments_by(tracking)
        amount = -tracking.amount_assigned - sum(repayments.values())
        self._check_change(tracking.member_id, badge, amount)
        reversal = self._revert(tracking, amount, repayments, loyalty_event_id)
        if amount:
            self._news.append(reversal)
        return reversal

    def reverse(self, badge_tracking_id: int, badge: Badge, loyalty_event_id: int) -> BadgeTracking:
        """Revert a tracking as far as possible: take what the member still holds, or give up to the maximum."""
        tracking = self._trackings[badge_tracking_id]
        balance = self.balance(tracking.member_id, badge.badge_id)
        repayments = self._repayments_by(tracking)
        target = -tracking.amount_assigned - sum(repayments.values())
        amount = max(target, -balance) if target < 0 else min(target, max(badge.max_amount - balance, 0))
        return self._revert(tracking, amount, repayments, loyalty_event_id, missing_amount=amount - target)

    def unreverted(self, loyalty_event_id: int) -> list[BadgeTracking]:
        """Trackings of an event that are not reverted yet, newest first."""
        trackings = [
            tracking
            for tracking in self._trackings.values()
            if tracking.loyalty_event_id == loyalty_event_id
            and tracking.reversal_badge_tracking_id is None
            and tracking.reverted_badge_tracking_id is None
        ]
        return sorted(trackings, key=lambda tracking: tracking.badge_tracking_id, reverse=True)

    def take_news(self) -> list[BadgeTracking]:
        """Trackings assigned, unassigned and reverted since the last call; without those of `reverse`."""
        news, self._news = self._news, []
        return news

    def drain(self) -> BadgeChanges:
        """Changes since the last call, which count as stored from now on."""
        changes = BadgeChanges(
            balances={place: self._balances[place] for place in sorted(self._touched)},
            trackings=tuple(self._trackings[tracking_id] for tracking_id in self._new),
            changed_trackings=tuple(self._trackings[tracking_id] for tracking_id in sorted(self._changed)),
        )
        self._new, self._touched, self._changed = [], set(), set()
        return changes

    def _tracking_by_key(self, grant: BadgeGrant) -> BadgeTracking | None:
        """The tracking that the request's key has made, if any; raises KeyReused for another request."""
        tracking_id = self._ids_by_key.find(grant.system_unique_key, grant.request_digest)
        return None if tracking_id is None else self._trackings[tracking_id]

    def _add_key(self, tracking: BadgeTracking) -> None:
        self._ids_by_key.add(tracking.system_unique_key, tracking.request_digest, tracking.badge_tracking_id)

    def _grant(self, grant: BadgeGrant, amount: int) -> BadgeTracking:
        if grant.member_id in self._inactive:
            raise MemberInactive("The member is not active.")
        if not grant.badge.active:
            raise BadgeInactive(f"The badge {grant.badge.name} is not active.")
        self._check_change(grant.member_id, grant.badge, amount)
        tracking = self._track(
            amount,
            organization_id=grant.badge.organization_id,
            badge_id=grant.badge.badge_id,
            badge_key=grant.badge.badge_key,
            member_id=grant.member_id,
            system_unique_key=grant.system_unique_key,
            request_digest=grant.request_digest,
            custom_attributes=grant.custom_attributes,
            external_id=grant.external_id,
            loyalty_event_id=grant.loyalty_event_id,
            reverted_badge_tracking_id=None,
        )
        self._news.append(tracking)
        return tracking

    def _check_change(self, member_id: int, badge: Badge, amount: int) -> None:
        """Refuse a decrease below 0 or an increase above the maximum, which may have been lowered since."""
        balance = self.balance(member_id, badge.badge_id)
        if amount > 0 and balance + amount > badge.max_amount:
            raise BadgeLimit(f"The member holds {balance} of at most {badge.max_amount} of the badge {badge.name}.")
        if balance + amount < 0:
            raise InsufficientBadges(
                f"The member holds {balance} of the badge {badge.name}, {-amount} are to be taken away."
            )

    def _repayments_by(self, tracking: BadgeTracking) -> dict[int, int]:
        """How much reverting the tracking repays of the missing amounts of later reversals, by their ids."""
        amount, repayments = -tracking.amount_assigned, {}
        for later_id in sorted(self._trackings):
            later = self._trackings[later_id]
            is_same_place = (later.member_id, later.badge_id) == (tracking.member_id, tracking.badge_id)
            if is_same_place and later_id > tracking.badge_tracking_id and later.missing * amount > 0:
                repayment = min(later.missing, amount, key=abs)
                repayments[later_id] = repayment
                amount -= repayment
        return repayments

    def _revert(
        self,
        tracking: BadgeTracking,
        amount: int,
        repayments: Mapping[int, int],
        loyalty_event_id: int | None,
        missing_amount: int = 0,
    ) -> BadgeTracking:
        """Add the reversal of a tracking, which changes the balance by `amount`, and the later ones that it repays."""
        for later_id, repayment in repayments.items():
            later = self._trackings[later_id]
            self._change(replace(later, missing=later.missing - repayment))
        reversal = self._track(
            amount,
            organization_id=tracking.organization_id,
            badge_id=tracking.badge_id,
            badge_key=tracking.badge_key,
            member_id=tracking.member_id,
            system_unique_key=None,
            request_digest=b"",
            custom_attributes={},
            external_id=None,
            loyalty_event_id=loyalty_event_id,
            reverted_badge_tracking_id=tracking.badge_tracking_id,
            missing_amount=missing_amount,
        )
        self._change(replace(tracking, reversal_badge_tracking_id=reversal.badge_tracking_id))
        return reversal

    def _change(self, tracking: BadgeTracking) -> None:
        """Replace a tracking, which is stored again unless it is new."""
        self._trackings[tracking.badge_tracking_id] = tracking
        if tracking.badge_tracking_id not in self._new:
            self._changed.add(tracking.badge_tracking_id)

    def _track(
        self, amount: int, *, system_unique_key: str | None, missing_amount: int = 0, **values: Any
    ) -> BadgeTracking:
        place = values["member_id"], values["badge_id"]
        total = self._balances.get(place, 0) + amount
        name, key = self._new_name()
        tracking = BadgeTracking(
            badge_tracking_id=name,
            badge_tracking_key=key,
            system_unique_key=system_unique_key or key,
            amount_assigned=amount,
            updated_total_assigned=total,
            reversal_badge_tracking_id=None,
            missing=missing_amount,
            created_at=self._at,
            **values,
        )
        self._balances[place] = total
        self._touched.add(place)
        self._trackings[name] = tracking
        self._add_key(tracking)
        self._new.append(name)
        return tracking
