"""The codes of coupon books."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from domain.coupons.books import Coupon, CouponBook, code_taken
from persistence.connections import fetch_rows
from persistence.counts import RowCount
from persistence.keysets import Section, Sorting
from persistence.paging import Page, Paged, page_of, sorting_of
from persistence.records import Records
from persistence.rows import AnyRow, AnySelect, fields_of
from persistence.tables.coupons import coupons as table

COUPONS = Records(table, Coupon)
_FIELDS = ", ".join(f"coupon.{name}" for name in fields_of(Coupon))

# The count of the book is raised first: this locks the book, so that concurrent additions get different positions.
_ADD = f"""
WITH given AS (
    SELECT code, ordinality FROM unnest(%s::text[]) WITH ORDINALITY AS x(code, ordinality)
), book AS (
    UPDATE coupon_books SET coupon_count = coupon_count + (SELECT count(*) FROM given)
    WHERE organization_id = %s AND coupon_book_id = %s
    RETURNING organization_id, coupon_book_id, coupon_count - (SELECT count(*) FROM given) AS before
), coupon AS (
    INSERT INTO coupons (organization_id, coupon_book_id, position, code, created_at, updated_at)
    SELECT book.organization_id, book.coupon_book_id, book.before + given.ordinality, given.code, %s, %s
    FROM book, given ORDER BY given.ordinality
    RETURNING *
)
SELECT {_FIELDS} FROM coupon ORDER BY coupon.position
"""

_TAKEN = """
SELECT given.code FROM unnest(%s::text[]) WITH ORDINALITY AS given(code, ordinality)
JOIN coupons ON coupons.organization_id = %s AND coupons.coupon_book_id = %s AND coupons.code = given.code
ORDER BY given.ordinality
"""


def find_by_code(db: Connection, book: CouponBook, code: str | None) -> Coupon | None:
    """The coupon of the book with this code; the only coupon of a codeless book has the code None."""
    return COUPONS.find_by(db, book.organization_id, coupon_book_id=book.coupon_book_id, code=code)


def find_taken_codes(db: Connection, book: CouponBook, codes: Sequence[str]) -> list[str]:
    """The codes of this list that the book already has, in the order of the list."""
    values = (list(codes), book.organization_id, book.coupon_book_id)
    return [code for (code,) in fetch_rows(db, _TAKEN, values)]


def add_codes(db: Connection, book: CouponBook, codes: Sequence[str | None], now: datetime) -> list[Coupon]:
    """Insert coupons with these codes, which the book must not have yet, and raise its count, by one statement."""
    values = (list(codes), book.organization_id, book.coupon_book_id, now, now)
    return [Coupon(*row) for row in db.exec_driver_sql(_ADD, values).all()]


def store_code(db: Connection, coupon: Coupon, code: str, now: datetime) -> Coupon:
    """Give a coupon another code; raises CodeTaken if another coupon of the book has the code."""
    refusals = {"uq_coupons_organization_id_coupon_book_id_code": code_taken(code)}
    return COUPONS.store(db, coupon, {"code": code}, now, refusals)


def find_page_of_book(db: Connection, book: CouponBook, page: Page) -> Paged[Coupon]:
    """A page of the book's coupons, without an order the latest first; the last page takes no longer than the first."""
    conditions = [table.c.organization_id == book.organization_id, table.c.coupon_book_id == book.coupon_book_id]
    sorting = sorting_of(page.order, COUPONS.order_columns, COUPONS.id) if page.order else Sorting(table.c.position)
    statement: AnySelect = select(*COUPONS.columns, *sorting.columns).where(*conditions)

    def read(section: Section) -> Sequence[AnyRow]:
        if page.order is None and page.after is None:
            # Positions are counted from 1 without gaps, so the positions on a page can be computed.
            latest_position = book.coupon_count - page.page * page.limit
            on_page = table.c.position.between(latest_position - section.limit + 1, latest_position)
            section = Section([on_page], section.ordering, section.limit)
        return db.execute(section.restrict(statement)).all()

    return page_of(Coupon, page, sorting, read, lambda: RowCount(book.coupon_count))
