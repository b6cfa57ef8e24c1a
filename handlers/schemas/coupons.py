"""Coupons, which are the codes of books, on the wire (integration 2.2)."""

from dataclasses import dataclass

from domain.coupons.books import Coupon
from handlers.messages.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCodes:
    """The codes to add to a book."""

    codes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """The new code of a coupon."""

    code: str


COUPON = Shape(Coupon, without=("organization_id",))
