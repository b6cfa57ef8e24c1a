"""Coupon lots: each assignment of a coupon to a member has an amount, an expiry and data of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class CouponLot:
    """What one assignment gave a member of a coupon.

    `coupon_lot_id` is the id of the assignment. `amount` is what was assigned and is not taken back; `amount_owed` is
    the part of it that a reversal found used, and that is taken as soon as the use is reverted. `custom_attributes` are
    the assignment's `couponData`; nothing of a lot can be used from `expired_at` on.
    """

    organization_id: int
    coupon_lot_id: int
    member_id: int
    coupon_id: int
    coupon_book_id: int
    amount: Decimal
    amount_used: Decimal
    amount_owed: Decimal
    custom_attributes: Mapping[str, Any]
    expired_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def left(self) -> Decimal:
        """How much can still be used, unless it has expired; zero where more is used than is assigned."""
        return max(ZERO, self.amount - self.amount_used)

    def has_expired(self, at: datetime) -> bool:
        """True if nothing of the lot can be used at `at`."""
        return self.expired_at is not None and self.expired_at <= at

    def used(self, amount: Decimal, at: datetime) -> CouponLot:
        """The lot after a use of `amount`."""
        return replace(self, amount_used=self.amount_used + amount, updated_at=at)

    def taken_back(self, amount: Decimal, at: datetime, *, owed: Decimal = ZERO) -> CouponLot:
        """The lot after `amount` of the assignment was taken back; `owed` is to be taken when it comes back."""
        return replace(self, amount=self.amount - amount, amount_owed=owed, updated_at=at)

    def given_back(self, amount: Decimal, at: datetime) -> CouponLot:
        """The lot after the revert of a use of `amount`, of which what is owed is taken at once."""
        due = min(amount, self.amount_owed)
        return replace(
            self,
            amount=self.amount - due,
            amount_used=self.amount_used - amount,
            amount_owed=self.amount_owed - due,
            updated_at=at,
        )


def order_of_use(lot: CouponLot) -> tuple[Any, ...]:
    """What to sort by so that what expires soonest comes first, of equals the oldest, and what never expires last."""
    # The ids of a dry run are negative and fall; what is stored is older than that.
    age = (lot.created_at, lot.coupon_lot_id < 0, abs(lot.coupon_lot_id))
    return (lot.expired_at is None, lot.expired_at or lot.created_at, *age)


def last_expiry(lots: Collection[CouponLot]) -> datetime | None:
    """When the last of the lots expires; None where one of them never does."""
    moments = [lot.expired_at for lot in lots]
    return None if None in moments else max((moment for moment in moments if moment is not None), default=None)
