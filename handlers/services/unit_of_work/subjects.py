"""The subjects of a unit of work, each of which has a participant."""

import weakref
from functools import cached_property

from handlers.services.unit_of_work.participants.badges import BadgeWork
from handlers.services.unit_of_work.participants.coupons import CouponWork
from handlers.services.unit_of_work.participants.missions import MissionWork
from handlers.services.unit_of_work.participants.outbox import OutboxWork
from handlers.services.unit_of_work.participants.payments import PaymentWork
from handlers.services.unit_of_work.participants.referrals import ReferralWork
from handlers.services.unit_of_work.participants.tiers import TierWork
from handlers.services.unit_of_work.reversals import Participant

# The participants in the order of flushing and reversing, see `persistence.locks`.
SUBJECTS = ("tiers", "badges", "coupons", "missions", "referrals", "payments", "outbox")


class Subjects:
    """The participants of a unit of work, each loaded when it is first used.

    The participants get a weak reference, so that what a unit has read is freed as soon as the unit is done.
    """

    # The keys of points payments among the orders of the events.
    _payment_keys: frozenset[str] = frozenset()

    @cached_property
    def tiers(self) -> TierWork:
        """The tiers that effects and requests set."""
        return TierWork(weakref.proxy(self))

    @cached_property
    def badges(self) -> BadgeWork:
        """The badges of the members."""
        return BadgeWork(weakref.proxy(self))

    @cached_property
    def coupons(self) -> CouponWork:
        """The coupons of the members."""
        return CouponWork(weakref.proxy(self))

    @cached_property
    def missions(self) -> MissionWork:
        """The missions of the members."""
        return MissionWork(weakref.proxy(self))

    @cached_property
    def referrals(self) -> ReferralWork:
        """The referral codes that may be used."""
        return ReferralWork(weakref.proxy(self))

    @cached_property
    def payments(self) -> PaymentWork:
        """The payments with points of the orders."""
        return PaymentWork(weakref.proxy(self), self._payment_keys)

    @cached_property
    def outbox(self) -> OutboxWork:
        """The notifications of campaigns."""
        return OutboxWork(weakref.proxy(self))

    def all_participants(self) -> list[Participant]:
        """All participants, in the order of reversing."""
        return [getattr(self, name) for name in SUBJECTS]
