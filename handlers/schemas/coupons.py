"""Coupons, which are the codes of books, on the wire (integration 2.2)."""

from __future__ import annotations

from handlers.messages.base import Exact, Instant, Plain, Shape, WireSchema


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


class _Codes(WireSchema):
    codes = Plain()


class _Code(WireSchema):
    code = Plain()


COUPON = Shape(_Coupon)
CODES = Shape(_Codes)
CODE = Shape(_Code)
