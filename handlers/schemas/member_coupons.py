"""The coupon books of a member on the wire."""

from collections.abc import Callable
from typing import Any

from domain.coupons.books import CouponBook
from handlers.messages.base import Shape
from handlers.messages.json_text import exact_number
from handlers.schemas.coupon_books import BOOK
from handlers.schemas.coupon_usages import USAGE
from handlers.services.coupons.member_books import MemberBook


def _member_book(shape: Shape) -> Callable[[MemberBook[CouponBook]], dict[str, Any]]:
    """A function that renders a book, with the member's sums instead of those of all members, and the exclusions."""

    def response(member_book: MemberBook[CouponBook]) -> dict[str, Any]:
        return {
            **shape.dump(member_book.book),
            "totalAssigned": exact_number(member_book.amounts.assigned),
            "totalUsages": exact_number(member_book.amounts.used),
            "eligible": member_book.is_eligible,
            "exclusionReasons": [
                {"code": exclusion.slug, "detail": exclusion.detail} for exclusion in member_book.exclusions
            ],
            **({} if member_book.last_usage is None else {"lastUsage": USAGE(member_book.last_usage)}),
        }

    return response


MEMBER_BOOK = {surface: _member_book(shape) for surface, shape in BOOK.items()}
