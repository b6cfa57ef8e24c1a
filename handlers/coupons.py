"""Coupons of all books (integration 4.2, item 9)."""

from collections.abc import Mapping
from typing import Any

from domain.coupons.books import Coupon
from handlers.call import Call
from handlers.messages.lists import listed_by_cursor
from handlers.operation import operation
from handlers.schemas.coupons import COUPON
from persistence.coupons import code_lists, codes
from persistence.coupons.books import BOOKS
from persistence.coupons.code_lists import CouponFilter
from persistence.members import MEMBERS
from persistence.paging import Page, Paged


@operation("listCoupons", response=listed_by_cursor(COUPON))
def list_coupons(call: Call, query: Mapping[str, Any]) -> Paged[Coupon]:
    """A page of the coupons that match all filters; no coupons for an unknown book or member."""
    organization_id = call.organization.organization_id
    book = member = None
    if "couponBookKey" in query:
        book = BOOKS.find_by(call.db, organization_id, coupon_book_key=query["couponBookKey"])
    if "loyaltyMemberId" in query:
        member = MEMBERS.find_by(call.db, organization_id, loyalty_member_id=query["loyaltyMemberId"])
    if (book is None and "couponBookKey" in query) or (member is None and "loyaltyMemberId" in query):
        return Paged.empty(query)
    filters = CouponFilter(query.get("code"), book, member, query.get("expired"))
    if book is not None and filters == CouponFilter(book=book):
        return codes.find_page_of_book(call.db, book, Page.of(query))
    return code_lists.find_page(call.db, organization_id, Page.of(query), filters, call.now)
