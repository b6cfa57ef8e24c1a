"""Commands about coupons: to assign, to use and to lock one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.coupons.books import Coupon
from domain.hours import Occasion
from domain.problems import FieldFault, InvalidRequest

ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Command to assign `amount` of `coupon`, or of the next coupon of the book if it is None.

    The assignment becomes a lot that expires at `expires_at`; None means never. `order_total` is the total of the order
    that the coupon is for, if it is known, and `occasion` the occasion of the event that causes the assignment. A value
    coupon has its whole value, unless `remaining_value` is set.
    """

    amount: Decimal = ONE
    coupon: Coupon | None = None
    expires_at: datetime | None = None
    coupon_data: Mapping[str, Any] | None = None
    order_total: Decimal | None = None
    occasion: Occasion | None = None
    remaining_value: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """Command to use `amount` of `coupon`, or of any coupons of the book if it is None, in the order of expiry.

    `bypass_restrictions` ignores the expiry of lots and the limits per period. `auto_assign` assigns missing coupons
    first; with `from_stock` a coupon is assigned first even if the member has one. `order_total` and `occasion` are the
    same as in an assignment.
    """

    amount: Decimal = ONE
    coupon: Coupon | None = None
    amount_discounted: Decimal | None = None
    bypass_restrictions: bool = False
    auto_assign: bool = False
    from_stock: bool = False
    order_total: Decimal | None = None
    occasion: Occasion | None = None

    def refuse_without_value(self) -> None:
        """Refuse a use of a value coupon that takes nothing from the value."""
        if not self.amount_discounted:
            fault = "amountDiscounted is not above 0: it is how much of the value the use takes"
            raise InvalidRequest([FieldFault(fault, pointer="/amountDiscounted")])


@dataclass(frozen=True, slots=True)
class Lock:
    """Command to lock `coupon`, or any of the book; `auto_assign` locks one of the stock if the member has none."""

    expires_at: datetime
    system_unique_key: str
    request_digest: bytes
    coupon: Coupon | None = None
    auto_assign: bool = False
