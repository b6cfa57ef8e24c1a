"""Badges: how many of a badge a member holds, from 0 to the badge's `max_amount`, and every change of this balance.

`BadgeBalances` has the balances of the members of one unit of work: it decides which changes are allowed, and collects
the changes to be stored.
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
"""The key of a balance: a member's id and a badge's id."""


@dataclass(frozen=True, slots=True)
class Badge:
    """A badge of the organization; a member can hold at most `max_amount` of it."""

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
    other. Only a reversal has a `missing` amount, which it could not take away yet or, if negative, could not give.
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
    # The event whose campaigns or cancellation created the tracking; None if a request did.
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
    """The member holds less of the badge than the amount to take away."""


class BadgeTrackingReverted(Conflict, title="The badge tracking has already been reverted"):
    """A tracking can be reverted only once."""


class BadgeTrackingNotRevertible(Conflict, title="The badge tracking cannot be reverted"):
    """A tracking that reverts another one cannot be reverted."""


@dataclass(frozen=True, slots=True)
class BadgeGrant:
    """A command to give a member `amount` of a badge, or to take it away.

    Without a `system_unique_key`, a repeated command is executed again.
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
    """Changes to be stored: balances by place, new trackings, and changed stored trackings.

    A stored tracking changes if it is reverted, or if its missing amount is repaid.
    """

    balances: Mapping[Place, int]
    trackings: tuple[BadgeTracking, ...]
    changed_trackings: tuple[BadgeTracking, ...]

    def __bool__(self) -> bool:
        """True if there are changes. Every change adds a tracking."""
        return bool(self.trackings)


class BadgeBalances:
    """Badge balances of the members of one unit of work at the moment `at`.

    A missing entry in `balances` is a balance of zero. `new_id_and_key` returns the id and the key of the next
    tracking; the ids rise. Nothing is assigned to, or unassigned from, the members `inactive_member_ids`.

    The reversal of an assignment takes away at most the member's balance; the rest is its missing amount. A later
    revert of an earlier unassignment first repays that missing amount, and gives only the rest to the member.
    Likewise, the reversal of an unassignment cannot exceed the maximum, and a later revert of an earlier assignment
    repays its missing amount.
    """

    def __init__(
        self,
        balances: Mapping[Place, int],
        at: datetime,
        new_id_and_key: Callable[[], tuple[int, str]],
        inactive_member_ids: Collection[int] = (),
    ) -> None:
        self._balances = dict(balances)
        self._at = at
        self._new_id_and_key = new_id_and_key
        self._inactive_member_ids = frozenset(inactive_member_ids)
        # Stored and new trackings, by id.
        self._trackings: dict[int, BadgeTracking] = {}
        self._ids_by_key: ResultsByKey[int] = ResultsByKey()
        # The trackings that `take_new_trackings` returns next.
        self._new_trackings: list[BadgeTracking] = []
        # The changes that are not stored yet: new trackings, changed balances, and changed stored trackings.
        self._new_ids: list[int] = []
        self._changed_places: set[Place] = set()
        self._changed_ids: set[int] = set()

    def put_trackings(self, trackings: Iterable[BadgeTracking]) -> None:
        """Register stored trackings, to recognize their keys and to revert them."""
        for tracking in trackings:
            if tracking.badge_tracking_id not in self._trackings:
                self._trackings[tracking.badge_tracking_id] = tracking
                self._add_key(tracking)

    def balance(self, member_id: int, badge_id: int) -> int:
        """How much of the badge the member holds."""
        return self._balances.get((member_id, badge_id), 0)

    def remaining(self, member_id: int, badge: Badge) -> int:
        """How much more of the badge the member can hold; 0 for a member above a lowered maximum."""
        return max(badge.max_amount - self.balance(member_id, badge.badge_id), 0)

    def assign(self, grant: BadgeGrant) -> BadgeTracking:
        """Assign a badge; return its tracking, for a repeated request that of the first request.

        Raises KeyReused, MemberInactive, BadgeInactive or BadgeLimit.
        """
        return self._tracking_by_key(grant) or self._change_by(grant, grant.amount)

    def unassign(self, grant: BadgeGrant) -> BadgeTracking:
        """Take a badge away; return its tracking, for a repeated request that of the first request.

        Raises KeyReused, MemberInactive, BadgeInactive or InsufficientBadges.
        """
        return self._tracking_by_key(grant) or self._change_by(grant, -grant.amount)

    def revert(self, badge_tracking_id: int, badge: Badge, loyalty_event_id: int | None = None) -> BadgeTracking:
        """Revert a registered tracking; the badge may be inactive. Returns the reversal.

        The reverted amount first repays the missing amounts of later reversals; only the rest changes the balance.

        Raises BadgeTrackingReverted, BadgeTrackingNotRevertible, BadgeLimit or InsufficientBadges.
        """
        tracking = self._trackings[badge_tracking_id]
        if tracking.reverted_badge_tracking_id is not None:
            raise BadgeTrackingNotRevertible(
                f"The badge tracking {tracking.badge_tracking_key} reverted another one, so it cannot be reverted."
            )
        if tracking.reversal_badge_tracking_id is not None:
            raise BadgeTrackingReverted(f"The badge tracking {tracking.badge_tracking_key} has already been reverted.")
        repayments = self._repayments_of_revert(tracking)
        amount = -tracking.amount_assigned - sum(repayments.values())
        self._check_change(tracking.member_id, badge, amount)
        reversal = self._revert(tracking, amount, repayments, loyalty_event_id)
        # Nothing to report if the repayments leave the balance unchanged.
        if amount:
            self._new_trackings.append(reversal)
        return reversal

    def reverse(self, badge_tracking_id: int, badge: Badge, loyalty_event_id: int) -> BadgeTracking:
        """Revert a tracking of an event as far as the balance and the maximum of the badge allow.

        The reversal records the rest as its missing amount.
        """
        tracking = self._trackings[badge_tracking_id]
        balance, remaining = self.balance(tracking.member_id, badge.badge_id), self.remaining(tracking.member_id, badge)
        repayments = self._repayments_of_revert(tracking)
        full_amount = -tracking.amount_assigned - sum(repayments.values())
        amount = max(full_amount, -balance) if full_amount < 0 else min(full_amount, remaining)
        return self._revert(tracking, amount, repayments, loyalty_event_id, missing_amount=amount - full_amount)

    def unreverted_trackings(self, loyalty_event_id: int) -> list[BadgeTracking]:
        """The trackings of an event that are neither reverted nor reversals, newest first."""
        trackings = [
            tracking
            for tracking in self._trackings.values()
            if tracking.loyalty_event_id == loyalty_event_id
            and tracking.reversal_badge_tracking_id is None
            and tracking.reverted_badge_tracking_id is None
        ]
        return sorted(trackings, key=lambda tracking: tracking.badge_tracking_id, reverse=True)

    def take_new_trackings(self) -> list[BadgeTracking]:
        """Return the trackings that changed a balance since the last call, except trackings that `reverse` added."""
        new_trackings, self._new_trackings = self._new_trackings, []
        return new_trackings

    def take_changes(self) -> BadgeChanges:
        """Return the changes that this method has not returned yet; the caller stores them."""
        changes = BadgeChanges(
            balances={place: self._balances[place] for place in sorted(self._changed_places)},
            trackings=tuple(self._trackings[tracking_id] for tracking_id in self._new_ids),
            changed_trackings=tuple(self._trackings[tracking_id] for tracking_id in sorted(self._changed_ids)),
        )
        self._new_ids, self._changed_places, self._changed_ids = [], set(), set()
        return changes

    def _tracking_by_key(self, grant: BadgeGrant) -> BadgeTracking | None:
        """The tracking that an earlier request with this key returned, None if there is none; raises KeyReused."""
        tracking_id = self._ids_by_key.find(grant.system_unique_key, grant.request_digest)
        # The earlier response named no reversal, although the tracking may be reverted by now.
        return None if tracking_id is None else replace(self._trackings[tracking_id], reversal_badge_tracking_id=None)

    def _add_key(self, tracking: BadgeTracking) -> None:
        self._ids_by_key.add(tracking.system_unique_key, tracking.request_digest, tracking.badge_tracking_id)

    def _change_by(self, grant: BadgeGrant, amount: int) -> BadgeTracking:
        """Change the balance by `amount`, which is negative if the badge is taken away."""
        if grant.member_id in self._inactive_member_ids:
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
        self._new_trackings.append(tracking)
        return tracking

    def _check_change(self, member_id: int, badge: Badge, amount: int) -> None:
        """Refuse a decrease below 0 or an increase above the maximum; a balance above the maximum may decrease."""
        balance = self.balance(member_id, badge.badge_id)
        if amount > 0 and balance + amount > badge.max_amount:
            raise BadgeLimit(f"The member holds {balance} of at most {badge.max_amount} of the badge {badge.name}.")
        if balance + amount < 0:
            raise InsufficientBadges(
                f"The member holds {balance} of the badge {badge.name}; {-amount} cannot be taken away."
            )

    def _repayments_of_revert(self, tracking: BadgeTracking) -> dict[int, int]:
        """The parts of the reverted amount that repay missing amounts of later reversals, by the reversal's id.

        Only missing amounts with the sign of the reverted amount are repaid, the oldest first.
        """
        repayments: dict[int, int] = {}
        # What is left of the amount of the revert.
        amount = -tracking.amount_assigned
        for later_id in sorted(self._trackings):
            later = self._trackings[later_id]
            is_same_balance = (later.member_id, later.badge_id) == (tracking.member_id, tracking.badge_id)
            if is_same_balance and later_id > tracking.badge_tracking_id and later.missing * amount > 0:
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
        """Add the reversal of a tracking, which changes the balance by `amount`.

        `repayments` are subtracted from the missing amounts of later reversals, by the reversal's id.
        """
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
        """Replace a tracking; mark it as changed unless it is new."""
        self._trackings[tracking.badge_tracking_id] = tracking
        if tracking.badge_tracking_id not in self._new_ids:
            self._changed_ids.add(tracking.badge_tracking_id)

    def _track(
        self, amount: int, *, system_unique_key: str | None, missing_amount: int = 0, **values: Any
    ) -> BadgeTracking:
        """Add a new tracking and change the balance; without a `system_unique_key`, the tracking's own key is used."""
        place = values["member_id"], values["badge_id"]
        total = self._balances.get(place, 0) + amount
        tracking_id, key = self._new_id_and_key()
        tracking = BadgeTracking(
            badge_tracking_id=tracking_id,
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
        self._changed_places.add(place)
        self._trackings[tracking_id] = tracking
        self._add_key(tracking)
        self._new_ids.append(tracking_id)
        return tracking
