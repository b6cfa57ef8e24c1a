"""The discount that a coupon of a book gives on an order."""

from decimal import ROUND_HALF_UP, Decimal

from domain.coupons.books import CouponBook
from domain.currencies import EXACT

AMOUNT, PERCENTAGE = "amount", "percentage"

_HUNDREDTH = Decimal("0.01")


def discount_of(book: CouponBook, total: Decimal | None, remaining: Decimal | None = None) -> Decimal | None:
    """The discount on an order of `total`, rounded half away from zero to hundredths; None if it is not known.

    A book gives its `discountAmount`, an amount or a percentage by its `discountType`, but at most `maxDiscountPerUse`
    and the total. A value coupon gives its `remaining` value; None is a new one, which gives its whole value.
    """
    if book.is_value_coupon and book.face_value is not None:
        limits = [limit for limit in (book.max_discount_per_use, total) if limit is not None]
        return min([book.face_value if remaining is None else remaining, *limits])
    if book.discount_amount is None:
        return None
    if book.discount_type == AMOUNT:
        discount = book.discount_amount
    elif book.discount_type == PERCENTAGE and total is not None:
        discount = EXACT.divide(EXACT.multiply(total, book.discount_amount), Decimal(100))
    else:
        return None
    limits = [limit for limit in (book.max_discount_per_use, total) if limit is not None]
    return min([discount, *limits]).quantize(_HUNDREDTH, ROUND_HALF_UP, EXACT)
