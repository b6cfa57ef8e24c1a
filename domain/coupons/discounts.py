"""The discount that a coupon of a book gives on an order."""

from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

from domain.coupons.books import BookTerms
from domain.currencies import EXACT, finest_digits

AMOUNT, PERCENTAGE = "amount", "percentage"

_ZERO = Decimal(0)


def discount_of(
    book: BookTerms, total: Decimal | None, currency: str | None, remaining: Decimal | None = None
) -> Decimal | None:
    """The discount on an order of `total`; None if it is not known.

    A book gives its `discountAmount`, an amount or a percentage by its `discountType`, but at most `maxDiscountPerUse`
    and the total. The discount is rounded half away from zero, and a maximum down, to the digits of the `currency`, or
    to those of the total if these are more. A value coupon gives its `remaining` value, which is not rounded; None is a
    new one, which gives its whole value.
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
    unit = Decimal(1).scaleb(-finest_digits(currency, total or _ZERO))
    limits = [limit for limit in (book.max_discount_per_use, total) if limit is not None]
    rounded_limits = [limit.quantize(unit, ROUND_FLOOR, EXACT) for limit in limits]
    return min([discount.quantize(unit, ROUND_HALF_UP, EXACT), *rounded_limits])
