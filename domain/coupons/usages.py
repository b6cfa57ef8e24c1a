"""Coupon usages: assignments of coupons to members, uses, and reversals of both (integration 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.problems import Conflict


@dataclass(frozen=True, slots=True)
class CouponUsage:
    """An assignment (`amount_assigned` above zero), a use (`amount_used`), or the reversal of one, which is below zero.

    `updated_total_*` is what the member had of the coupon afterwards. Reversals are linked both ways. `coupon_lot_id`
    is the lot that the usage moved, an assignment's own id; `code` is null for a coupon of a codeless book.
    """

    organization_id: int
    coupon_usage_id: int
    coupon_usage_key: str
    coupon_id: int
    code: str | None
    coupon_book_id: int
    coupon_book_key: str
    coupon_book_version_id: int | None
    coupon_lot_id: int | None
    member_id: int
    system_unique_key: str
    request_digest: bytes | None
    custom_attributes: Mapping[str, Any]
    amount_used: Decimal
    amount_assigned: Decimal
    updated_total_usages: Decimal
    updated_total_assigned: Decimal
    reversal_usage_id: int | None
    reverted_usage_id: int | None
    amount_discounted: Decimal | None
    ledger_transaction_id: int | None
    external_id: str | None
    description: str | None
    tags: list[str]
    loyalty_event_id: int | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_use(self) -> bool:
        """True for a use, False for an assignment or a reversal."""
        return self.amount_used > 0


@dataclass(frozen=True, slots=True)
class MemberCoupon:
    """What a member has of a coupon: the sums of the usages that stand. `member_coupon_id` is 0 until it is stored.

    `expired_at` and `custom_attributes` are those of the lot that was moved last when nothing was left; while something
    is left, the lots say.
    """

    organization_id: int
    member_coupon_id: int
    member_id: int
    coupon_id: int
    coupon_book_id: int
    amount_assigned: Decimal
    amount_used: Decimal
    custom_attributes: Mapping[str, Any]
    expired_at: datetime | None
    created_at: datetime
    updated_at: datetime


class CouponNotAssigned(Conflict):
    """A use needs an assignment of which something is left, or `autoAssign`."""

    slug = "coupon-not-assigned"
    title = "The member has no such coupon left to use"


class CouponExpired(Conflict):
    """The expiredAt of all that the member has left of the coupon has passed."""

    slug = "coupon-expired"
    title = "The coupon has expired"


class CodeHeld(Conflict):
    """Each code of a list, and each generated one, belongs to one member."""

    slug = "coupon-code-held"
    title = "The code belongs to another member"


class UsageReverted(Conflict):
    """A usage is reverted once."""

    slug = "coupon-usage-reverted"
    title = "The coupon usage is reverted already"


class UsageNotRevertible(Conflict):
    """Reversals stand."""

    slug = "coupon-usage-not-revertible"
    title = "A reversal cannot be reverted"


class AssignmentUsed(Conflict):
    """Something of the assignment's lot is used."""

    slug = "coupon-assignment-used"
    title = "The assignment is used, at least in part"


class NothingToRevert(Conflict):
    """The member has no use of the code that stands."""

    slug = "coupon-nothing-to-revert"
    title = "No use of the code is left to revert"
