"""The results of a simulation in the form of the response."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

CAMPAIGN, TIER, MISSION, COUPON_BOOK = "campaign", "tier", "mission", "coupon-book"
ORDER_TOTAL, POINTS, COUNT = "orderTotal", "points", "count"


@dataclass(frozen=True, slots=True)
class AccountEarning:
    """The change of a member's points in an account; `discarded` are the points that limits cut.

    `pending` points are not available yet; the first of them will be at `available_at`, None if an event decides.
    """

    ledger_account_key: str
    available: Decimal
    pending: Decimal
    available_at: datetime | None
    expires_at: datetime | None
    discarded: Decimal


@dataclass(frozen=True, slots=True)
class SimulatedDiscount:
    """An amount that an effect takes off the total; `allocation` has its parts by item, as in the effect."""

    campaign_key: str
    action_id: int
    amount: Decimal
    allocation: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class CouponEarning:
    """Coupons that are assigned."""

    coupon_book_key: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class BadgeEarning:
    """Badges that are assigned."""

    badge_key: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class TierChange:
    """A change of the tier in a program, by the keys of tiers; None for no tier."""

    loyalty_program_key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Earnings:
    """The gains of the member by the event; missions and effects are as in the results of tracking."""

    accounts: Sequence[AccountEarning]
    discounts: Sequence[SimulatedDiscount]
    discount_total: Decimal
    coupons: Sequence[CouponEarning]
    badges: Sequence[BadgeEarning]
    missions: Sequence[Mapping[str, Any]]
    tiers: Sequence[TierChange]
    effects: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A reason why a coupon cannot be used: the slug of the refusal, and its text."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class PresentedCode:
    """A code that the customer presents; `missing_total` is what the order lacks, if that is the only exclusion."""

    code: str
    coupon_book_key: str | None
    usable: bool
    discount: Decimal | None
    exclusion_reasons: Sequence[Exclusion]
    missing_total: Decimal | None


@dataclass(frozen=True, slots=True)
class Redemption:
    """A book that the member could redeem, or the reasons why not."""

    coupon_book_key: str
    name: str
    usable: bool
    cost: Decimal | None
    missing_points: Decimal | None
    affordable_after_order: bool
    discount: Decimal | None
    exclusion_reasons: Sequence[Exclusion]


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The amount that is missing for a reward: money of the order, points or a count."""

    kind: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Gift:
    """An effect as a reward, with its parameters by id."""

    effect_id: str
    params: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class NextReward:
    """A reward within reach: of a campaign, a tier, a mission or a coupon book, which `key` names."""

    kind: str
    key: str
    name: str
    missing: Shortfall
    gives: Sequence[Gift]


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation at a moment.

    `redeem_complete` and `next_complete` are False if the search for coupon books, or for rewards, was cut short.
    """

    at: datetime
    earn: Earnings | None = field(metadata={"omit_none": True})
    coupons: Sequence[PresentedCode]
    redeem: Sequence[Redemption]
    redeem_complete: bool
    next: Sequence[NextReward]
    next_complete: bool
    explain: Sequence[Mapping[str, Any]]
    errors: Sequence[Mapping[str, Any]]
