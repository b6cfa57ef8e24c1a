"""Coupon usages: assignments of coupons to members, uses, and reversals of both (integration 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.coupons.books import Coupon
from domain.currencies import EXACT
from domain.fields import Internal, Key, Personal
from domain.problems import Conflict


@dataclass(frozen=True, slots=True)
class CouponUsage:
    """An assignment (`amount_assigned` above zero), a use (`amount_used`), or a reversal, with negative amounts.

    The `updated_total_*` fields are the member's totals of the coupon after it. A usage and its reversal refer to each
    other. `coupon_lot_id` is the lot of the usage, for an assignment its own id; `code` is None for a coupon of a
    codeless book. `remaining_value` is what is left of the value of its lot, for value coupons.
    """

    organization_id: int
    coupon_usage_id: int
    coupon_usage_key: Key
    coupon_id: int
    code: str | None
    coupon_book_id: int
    coupon_book_key: str
    coupon_book_version_id: int | None
    coupon_lot_id: int | None
    member_id: int
    system_unique_key: str
    # None if the server itself caused the usage.
    request_digest: Personal[Internal[bytes | None]]
    custom_attributes: Personal[Mapping[str, Any]]
    amount_used: Decimal
    amount_assigned: Decimal
    # The member's used and assigned totals of the coupon after this usage.
    updated_total_usages: Decimal
    updated_total_assigned: Decimal
    reversal_usage_id: int | None
    reverted_usage_id: int | None
    amount_discounted: Decimal | None
    remaining_value: Decimal | None
    ledger_transaction_id: int | None
    external_id: Personal[str | None]
    description: Personal[str | None]
    tags: Personal[list[str]]
    loyalty_event_id: int | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_use(self) -> bool:
        """True for a use, False for an assignment or a reversal."""
        # Not decided by `amount_used`: a use that leaves a part of a value coupon's value has 0.
        return self.reverted_usage_id is None and not self.amount_assigned

    @property
    def negated_discount(self) -> Decimal | None:
        """The discount that a reversal of the usage records, zero or below; None if the usage has none."""
        return None if self.amount_discounted is None else EXACT.minus(self.amount_discounted)


@dataclass(frozen=True, slots=True)
class MemberCoupon:
    """A member's sums of a coupon over its unreverted usages; `member_coupon_id` is 0 until it is stored.

    `expired_at` and `custom_attributes` are copied from the lot that changed last. They count only if no lot has an
    amount left; if a lot has one, the fields of the lots count.
    """

    organization_id: int
    member_coupon_id: int
    member_id: int
    coupon_id: int
    coupon_book_id: int
    amount_assigned: Decimal
    amount_used: Decimal
    custom_attributes: Personal[Mapping[str, Any]]
    expired_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of_nothing(cls, member_id: int, coupon: Coupon, at: datetime) -> MemberCoupon:
        """The sums of a member who has not been assigned the coupon: all zero."""
        return cls(
            organization_id=coupon.organization_id,
            member_coupon_id=0,
            member_id=member_id,
            coupon_id=coupon.coupon_id,
            coupon_book_id=coupon.coupon_book_id,
            amount_assigned=Decimal(0),
            amount_used=Decimal(0),
            custom_attributes={},
            expired_at=None,
            created_at=at,
            updated_at=at,
        )


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Totals of a member and a book: assigned less reversals; used and discounted in the current periods."""

    assigned: Decimal = Decimal(0)
    used: Decimal = Decimal(0)
    discounted: Decimal = Decimal(0)


class CouponNotAssigned(Conflict, title="The member has no such coupon left to use"):
    """A use needs an assignment with an amount left, or `autoAssign`."""


class CouponExpired(Conflict, title="The coupon has expired"):
    """All that the member has left of the coupon has expired."""


class CodeHeld(Conflict, slug="coupon-code-held", title="The code belongs to another member"):
    """A code of a list, or a generated one, can belong to only one member."""


class UsageReverted(Conflict, slug="coupon-usage-reverted", title="The coupon usage has already been reverted"):
    """A usage can be reverted only once."""


class UsageNotRevertible(Conflict, slug="coupon-usage-not-revertible", title="A reversal cannot be reverted"):
    """A reversal cannot be reverted."""


class ValueExceeded(Conflict, slug="coupon-value-exceeded", title="The coupon has less value left than the discount"):
    """A use cannot take more than the remaining value of the coupon."""


class AssignmentUsed(Conflict, slug="coupon-assignment-used", title="The assignment is used, at least in part"):
    """The assignment's lot has been used, at least in part."""


class NothingToRevert(Conflict, slug="coupon-nothing-to-revert", title="No use of the code is left to revert"):
    """The member has no unreverted use of the code."""
