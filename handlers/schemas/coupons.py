"""Coupons, which are the codes of books, on the wire (integration 2.2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from domain.coupons.books import Coupon
from handlers.messages.base import Body, Shape, exact_number
from handlers.schemas.coupon_books import BOOK
from handlers.schemas.coupon_usages import USAGE
from handlers.services.coupons.member_books import MemberBook


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCodes:
    """The codes to add to a book."""

    codes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """The new code of a coupon."""

    code: str


COUPON = Shape(Coupon, without=("organization_id",))
CODES = Body(NewCodes)
CODE = Body(CodeChange)


def _member_book(shape: Shape) -> Callable[[MemberBook], dict[str, Any]]:
    """The book with the member's own sums instead of all members', and the exclusions."""

    def answer(seen: MemberBook) -> dict[str, Any]:
        return {
            **shape.dump(seen.book),
            "totalAssigned": exact_number(seen.amounts.assigned),
            "totalUsages": exact_number(seen.amounts.used),
            "eligible": seen.is_eligible,
            "exclusionReasons": [{"code": exclusion.slug, "detail": exclusion.detail} for exclusion in seen.exclusions],
            **({} if seen.last_usage is None else {"lastUsage": USAGE(seen.last_usage)}),
        }

    return answer


MEMBER_BOOK = {surface: _member_book(shape) for surface, shape in BOOK.items()}
