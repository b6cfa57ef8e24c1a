"""Coupon books of members (integration 4.2; administration "Coupon books and codes" 12 and 13)."""

from collections.abc import Mapping
from typing import Any

from domain.members import Member
from domain.programs import LoyaltyProgram
from handlers.call import Call
from handlers.messages.base import listed
from handlers.operation import operation
from handlers.schemas.coupon_books import book_filter
from handlers.schemas.member_coupons import MEMBER_BOOK
from handlers.services.coupons.member_books import MemberBook, member_books_page, with_last_usages
from persistence.paging import Page, Paged


@operation("listMemberCouponBooks", answer={surface: listed(shape) for surface, shape in MEMBER_BOOK.items()})
def list_member_coupon_books(
    call: Call, member: Member, query: Mapping[str, Any], program: LoyaltyProgram | None = None
) -> Paged[MemberBook]:
    """A page of the books that the member could use now; a dry run has all books, with their exclusions."""
    ours = {} if program is None else {"loyalty_program_id": program.loyalty_program_id, "or_no_program": True}
    in_stock = True if query.get("withStockOnly") else None
    if "outOfStock" in query:
        in_stock = not query["outOfStock"]
    filters = book_filter(query, **ours)
    page = member_books_page(
        call, member, Page.of(query), filters, in_stock=in_stock, explain=query.get("dryRun", False)
    )
    return with_last_usages(call, member, page) if query.get("includeLastUsage") else page
