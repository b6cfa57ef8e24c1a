"""Coupon lots: each assignment of a coupon to a member has an amount, an expiry and data of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Personal

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class CouponLot:
    """The amount that one assignment of a coupon gave a member.

    `coupon_lot_id` is the id of the assignment. `amount` is the assigned amount less what was reversed; `amount_owed`
    is the used part of a reversed assignment, which is taken as soon as its use is reverted. `custom_attributes` are
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
    custom_attributes: Personal[Mapping[str, Any]]
    expired_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def left(self) -> Decimal:
        """The amount that can still be used, unless the lot has expired; zero if more is used than assigned."""
        return max(ZERO, self.amount - self.amount_used)

    def has_expired(self, at: datetime) -> bool:
        """True if the lot has expired at `at`."""
        return self.expired_at is not None and self.expired_at <= at

    def used(self, amount: Decimal, at: datetime) -> CouponLot:
        """The lot after a use of `amount`."""
        return replace(self, amount_used=self.amount_used + amount, updated_at=at)

    def taken_back(self, amount: Decimal, at: datetime, *, owed: Decimal = ZERO) -> CouponLot:
        """The lot after a reversal of `amount` of the assignment; `owed` is taken when its use is reverted."""
        return replace(self, amount=self.amount - amount, amount_owed=owed, updated_at=at)

    def given_back(self, amount: Decimal, at: datetime) -> CouponLot:
        """The lot after the reversal of a use of `amount`, from which the owed amount is taken at once."""
        due = min(amount, self.amount_owed)
        return replace(
            self,
            amount=self.amount - due,
            amount_used=self.amount_used - amount,
            amount_owed=self.amount_owed - due,
            updated_at=at,
        )


def order_of_use(lot: CouponLot) -> tuple[Any, ...]:
    """The sort key of the order of use: soonest to expire first, never last; of equals the oldest first."""
    # Ids of a dry run are negative and fall; stored lots are older than those.
    age = (lot.created_at, lot.coupon_lot_id < 0, abs(lot.coupon_lot_id))
    return (lot.expired_at is None, lot.expired_at or lot.created_at, *age)


def last_expiry(lots: Collection[CouponLot]) -> datetime | None:
    """The expiry of the lot that expires last; None if a lot never expires."""
    moments = [lot.expired_at for lot in lots]
    return None if None in moments else max((moment for moment in moments if moment is not None), default=None)
