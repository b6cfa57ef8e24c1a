"""Coupons: the codes of a book (integration 2.2)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.coupons.books import LIST, SINGLE, CouponBook
from domain.fields import Internal, Personal
from domain.problems import Conflict, NotFound


@dataclass(frozen=True, slots=True)
class Coupon:
    """A code of a book; the one coupon of a codeless book has none.

    `position` numbers the coupons of a book in the order in which they were added, from 1, without a gap.
    """

    organization_id: int
    coupon_id: int
    coupon_book_id: int
    position: Internal[int]
    code: str | None
    total_assigned: Decimal
    total_usages: Decimal
    custom_attributes: Personal[Mapping[str, Any]]
    expired_at: datetime | None
    created_at: datetime
    updated_at: datetime


class UnknownCoupon(NotFound):
    """The coupon book does not hold the code that a request names."""

    slug = "unknown-coupon"
    title = "The coupon does not exist"


class CodeTaken(Conflict):
    """The book has this code already, or one request names it twice."""

    slug = "coupon-code-taken"
    title = "The coupon book already has the code"


def code_taken(code: str) -> CodeTaken:
    """The refusal of a code that the book has."""
    return CodeTaken(f"The coupon book already has the code {code}.")


class CodesNotAccepted(Conflict):
    """Only books of the type `list` accept codes, and a book of the type `single` accepts its first one."""

    slug = "coupon-codes-not-accepted"
    title = "The coupon book does not take these codes"


def refuse_codes(book: CouponBook, codes: Sequence[str]) -> None:
    """Refuse codes that the locked book does not accept; raises CodesNotAccepted, or CodeTaken for a repeated one."""
    if book.type not in (SINGLE, LIST):
        raise CodesNotAccepted(f"A book of the type {book.type} takes no codes.")
    if book.type == SINGLE and book.coupon_count + len(codes) > 1:
        raise CodesNotAccepted("A book of the type single has one code.")
    if len(set(codes)) < len(codes):
        twice = next(code for code, count in Counter(codes).items() if count > 1)
        raise CodeTaken(f"The code {twice} is named twice.")
