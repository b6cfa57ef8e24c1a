"""Coupon books."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from domain.coupons.books import CouponBook
from persistence.rows import columns_of, record
from persistence.tables.coupons import coupon_books as table

_COLUMNS = columns_of(table, CouponBook)


def find(db: Connection, organization_id: int, coupon_book_id: int) -> CouponBook | None:
    """The book with this id."""
    return _find(db, organization_id, table.c.coupon_book_id == coupon_book_id)


def find_by_key(db: Connection, organization_id: int, coupon_book_key: str) -> CouponBook | None:
    """The book with this key."""
    return _find(db, organization_id, table.c.coupon_book_key == coupon_book_key)


def lock(db: Connection, book: CouponBook) -> CouponBook:
    """The book as it is now, for this transaction alone to change it or to add codes to it."""
    statement = select(*_COLUMNS).where(*_address(book)).with_for_update(key_share=True)
    return CouponBook(*db.execute(statement).one())


def _find(db: Connection, organization_id: int, condition: Any) -> CouponBook | None:
    row = db.execute(select(*_COLUMNS).where(table.c.organization_id == organization_id, condition)).one_or_none()
    return record(CouponBook, row)


def _address(book: CouponBook) -> tuple[Any, Any]:
    return table.c.organization_id == book.organization_id, table.c.coupon_book_id == book.coupon_book_id
