"""Coupon books by assigned and used amounts."""

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection

from persistence.reports.figures import COUPON_BOOKS, FigureQuery, select_by_subject

MAX_BOOKS = 1_000


class BookFigures(NamedTuple):
    """A coupon book with its amounts assigned, used and discounted in a range, less reversals."""

    coupon_book_id: int
    coupon_book_key: str
    name: str
    type: str
    assigned: Decimal
    usages: Decimal
    discount_amount: Decimal


class Discounts(NamedTuple):
    """The value of assigned coupons, and the value of used coupons, by their discounts."""

    assigned: Decimal
    used: Decimal


# The amounts of the figures `f` of a book; see `persistence.tables.reports`.
_ASSIGNED, _USED, _DISCOUNTED, _USED_WITHOUT_DISCOUNT = "f.a", "f.b", "f.c", "f.d"
_COLUMNS = f"""b.coupon_book_id, CAST(b.coupon_book_key AS text), b.name, b.type, coalesce({_ASSIGNED}, 0),
    coalesce({_USED}, 0), coalesce({_DISCOUNTED}, 0)"""


_BOOK_OF = "JOIN coupon_books b ON b.organization_id = :organization_id AND b.coupon_book_id = f.subject"


def find_top(
    db: Connection, organization_id: int, begin: datetime, end: datetime, limit: int, by_usage: bool
) -> list[BookFigures]:
    """The books with the most assignments, or with `by_usage` the most uses; books with neither are left out."""
    query = FigureQuery(organization_id, COUPON_BOOKS)
    order = f"{_USED} DESC, {_ASSIGNED} DESC" if by_usage else f"{_ASSIGNED} DESC, {_USED} DESC"
    rows = query.execute(
        db,
        f"SELECT {_COLUMNS} FROM ({select_by_subject(query, begin, end)}) AS f {_BOOK_OF}"
        f" WHERE {_ASSIGNED} <> 0 OR {_USED} <> 0 ORDER BY {order}, b.coupon_book_id LIMIT {query.bind(limit)}",
    )
    return [BookFigures(*row) for row in rows]


def find_by_tag(
    db: Connection, organization_id: int, begin: datetime, end: datetime, tag: str | None
) -> list[BookFigures]:
    """The `MAX_BOOKS` most used books with a tag, or of all books if the tag is None; the most used first."""
    query = FigureQuery(organization_id, COUPON_BOOKS)
    with_tag = "" if tag is None else f" AND b.tags @> ARRAY[{query.bind(tag)}]"
    rows = query.execute(
        db,
        f"SELECT {_COLUMNS} FROM coupon_books b"
        f" LEFT JOIN ({select_by_subject(query, begin, end)}) AS f ON f.subject = b.coupon_book_id"
        f" WHERE b.organization_id = :organization_id{with_tag}"
        f" ORDER BY coalesce({_USED}, 0) DESC, coalesce({_ASSIGNED}, 0) DESC, b.coupon_book_id LIMIT {MAX_BOOKS}",
    )
    return [BookFigures(*row) for row in rows]


def find_discounts(
    db: Connection, organization_id: int, begin: datetime, end: datetime, discount_type: str | None
) -> Discounts:
    """The value of coupons assigned in a range, by `discountAmount` of their books; and of coupons used in the range.

    Uses have the discount that was reported, or if none was, the `discountAmount` of the book. `discount_type` is that
    of the books, None for all books.
    """
    query = FigureQuery(organization_id, COUPON_BOOKS)
    of_type = "" if discount_type is None else f" AND b.discount_type = {query.bind(discount_type)}"
    [row] = query.execute(
        db,
        f"SELECT coalesce(sum({_ASSIGNED} * coalesce(b.discount_amount, 0)), 0),"
        f" coalesce(sum({_DISCOUNTED} + {_USED_WITHOUT_DISCOUNT} * coalesce(b.discount_amount, 0)), 0)"
        f" FROM ({select_by_subject(query, begin, end)}) AS f {_BOOK_OF} WHERE true{of_type}",
    )
    return Discounts(*row)
