"""Coupons, which are the codes of books, on the wire (integration 2.2)."""

from dataclasses import dataclass

from handlers.messages.base import Body, Exact, Instant, Plain, Shape, WireSchema


class _Coupon(WireSchema):
    coupon_id = Plain()
    coupon_book_id = Plain()
    code = Plain()
    total_assigned = Exact()
    total_usages = Exact()
    custom_attributes = Plain()
    expired_at = Instant()
    created_at = Instant()
    updated_at = Instant()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCodes:
    """The codes to add to a book."""

    codes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """The new code of a coupon."""

    code: str


COUPON = Shape(_Coupon)
CODES = Body(NewCodes)
CODE = Body(CodeChange)
