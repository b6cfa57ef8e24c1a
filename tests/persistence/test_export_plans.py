"""The statements of exports join only the rows of a page, whatever the planner expects of the organization."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from persistence.exported_rows import ExportRange, find_next_rows
from tests.builders.coupon_shop import CouponShop
from tests.builders.statements import analyze_coupons, rows_of_plans

pytestmark = pytest.mark.undistributed

COUPONS_OF_MEMBER = 500
BOOKS = 60
PAGE = 5


@pytest.fixture(scope="module")
def shop(engine: Engine) -> CouponShop:
    """An organization with `BOOKS` books, one of which has `COUPONS_OF_MEMBER` coupons, all of one member."""
    shop = CouponShop.new(engine)
    for _ in range(BOOKS - 1):
        shop.book()
    book, member = shop.book("list"), shop.member()
    shop.add_codes(book, [f"C-{n:03}" for n in range(COUPONS_OF_MEMBER)])
    shop.assign(member, book, count=COUPONS_OF_MEMBER)
    return shop


@pytest.mark.parametrize("kind", ["coupons", "coupon-codes", "coupon-usages"])
def test_a_page_joins_only_its_rows(db, shop, kind):
    analyze_coupons(db)
    pages = []
    export_range = ExportRange(shop.id)
    rows = rows_of_plans(db, lambda: pages.append([*find_next_rows(db, kind, export_range, after=0, limit=PAGE)]))
    assert len(pages[0]) == PAGE
    # In a table of few rows, the page may be found by reading all of them, but without joining all with all books.
    assert rows <= COUPONS_OF_MEMBER * BOOKS / 4
