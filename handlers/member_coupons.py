"""Coupon books of members (integration 4.2; administration "Coupon books and codes" 12 and 13)."""

from collections.abc import Mapping
from typing import Any

from domain.coupons.books import CouponBook
from domain.members import Member
from domain.programs import LoyaltyProgram
from handlers.call import Call
from handlers.messages.lists import listed
from handlers.operation import operation
from handlers.schemas.member_coupons import MEMBER_BOOK
from handlers.services.coupons.member_books import MemberBook, member_books_page, with_last_usages
from persistence.coupons import books
from persistence.paging import Paged

# Parameters that are no filters of the query for books.
_NO_FILTERS = frozenset({"dryRun", "withStockOnly", "outOfStock", "includeLastUsage"})


@operation("listMemberCouponBooks", response={surface: listed(shape) for surface, shape in MEMBER_BOOK.items()})
def list_member_coupon_books(
    call: Call, member: Member, query: Mapping[str, Any], program: LoyaltyProgram | None = None
) -> Paged[MemberBook[CouponBook]]:
    """A page of the books that the member could use now; with `dryRun` of all books, with their exclusions."""
    conditions = [] if program is None else [books.is_of_program_or_none(program.loyalty_program_id)]
    in_stock = True if query.get("withStockOnly") else None
    # If a query has both parameters, `outOfStock` decides.
    if "outOfStock" in query:
        in_stock = not query["outOfStock"]
    filters = {name: value for name, value in query.items() if name not in _NO_FILTERS}
    explain = query.get("dryRun", False)
    page = member_books_page(call, member, filters, *conditions, in_stock=in_stock, explain=explain)
    return with_last_usages(call, member, page) if query.get("includeLastUsage") else page
