"""Lists of a member's coupons look up the rows of the member, whatever the planner expects of the organization."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from domain.members import Member
from persistence.coupons import code_lists, member_coupons, usages
from persistence.coupons.code_lists import CouponFilter
from persistence.paging import Page
from tests.builders.coupon_shop import CouponShop
from tests.builders.statements import analyze_coupons, rows_of_plans

pytestmark = pytest.mark.undistributed

COUPONS_OF_MEMBER = 100
# Each coupon is looked up once. In a table that has not many more rows, a lookup may read all of them.
MAX_ROWS = COUPONS_OF_MEMBER**2
# By the name of the installation: the codes of its large book, and its other books.
SIZES = {"small": (0, 0), "large": (5_000, 60)}


@pytest.fixture(scope="module", params=SIZES)
def shop_and_member(request: pytest.FixtureRequest, engine: Engine) -> tuple[CouponShop, Member]:
    """An organization whose last book has `COUPONS_OF_MEMBER` coupons, all of one member, and the member."""
    codes, books = SIZES[request.param]
    shop = CouponShop.new(engine)
    if codes:
        large_book = shop.book("list")
        shop.add_codes(large_book, [f"L-{n}" for n in range(codes)])
        shop.assign(shop.member(), large_book, count=10 * COUPONS_OF_MEMBER)
    for _ in range(books):
        shop.book()
    book, member = shop.book("list"), shop.member()
    shop.add_codes(book, [f"C-{n:03}" for n in range(COUPONS_OF_MEMBER)])
    shop.assign(member, book, count=COUPONS_OF_MEMBER)
    return shop, member


@pytest.mark.slow
@pytest.mark.parametrize("expired", [True, False])
@pytest.mark.parametrize("order", [None, "code,asc", "code,desc", "expiredAt,asc", "createdAt,desc"])
def test_the_codes_of_a_member_are_looked_up_once(db, shop_and_member, order, expired):
    shop, member = shop_and_member
    analyze_coupons(db)
    filters = CouponFilter(member=member, expired=expired)
    pages = []
    rows = rows_of_plans(
        db,
        lambda: pages.append(code_lists.find_page(db, shop.id, Page(page=0, limit=25, order=order), filters, shop.now)),
    )
    # No coupon has expired.
    assert pages[0].total_count == (0 if expired else COUPONS_OF_MEMBER)
    assert rows <= MAX_ROWS


@pytest.mark.parametrize("query", [{}, {"order": "code,asc"}, {"couponBookTags": ["none"]}, {"page": 3}])
def test_the_coupons_of_a_member_are_joined_only_with_their_books(db, shop_and_member, query):
    shop, member = shop_and_member
    analyze_coupons(db)
    pages = []
    rows = rows_of_plans(db, lambda: pages.append(member_coupons.find_page(db, member, query, None, shop.now)))
    # No book has a tag.
    assert pages[0].total_count == (0 if "couponBookTags" in query else COUPONS_OF_MEMBER)
    assert rows <= MAX_ROWS


def test_the_totals_of_a_member_are_joined_only_with_the_books_of_its_coupons(db, shop_and_member):
    shop, member = shop_and_member
    analyze_coupons(db)
    sums = []
    program_id = shop.defaults.loyalty_program_id
    rows = rows_of_plans(db, lambda: sums.append(member_coupons.find_totals(db, member, program_id, {})))
    # The amounts that are used and assigned.
    assert sums == [(0, COUPONS_OF_MEMBER)]
    assert rows <= MAX_ROWS


def test_the_lots_of_unused_coupons_are_looked_up(db, shop_and_member):
    shop, member = shop_and_member
    # Without statistics, the planner expects few lots.
    db.execute(text("DELETE FROM pg_statistic"))
    pages = []

    def find_pages():
        pages.append(usages.find_page(db, member, {"unusedOnly": True, "page": 1}, shop.now))
        pages.append(member_coupons.find_page(db, member, {"notUsedOnly": True}, None, shop.now))

    rows = rows_of_plans(db, find_pages)
    assert [page.total_count for page in pages] == [COUPONS_OF_MEMBER, COUPONS_OF_MEMBER]
    assert rows <= MAX_ROWS
