"""The codes of coupon books."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from domain.coupons.books import CouponBook
from domain.coupons.codes import Coupon
from persistence.rows import columns_of, record
from persistence.tables.coupons import coupons as table

_COLUMNS = columns_of(table, Coupon)


def find(db: Connection, organization_id: int, coupon_id: int) -> Coupon | None:
    """The coupon with this id."""
    return _find(db, organization_id, table.c.coupon_id == coupon_id)


def find_by_code(db: Connection, book: CouponBook, code: str | None) -> Coupon | None:
    """The coupon of the book with this code; None is the one coupon of a codeless book."""
    return _find(
        db,
        book.organization_id,
        table.c.coupon_book_id == book.coupon_book_id,
        table.c.code.is_(None) if code is None else table.c.code == code,
    )


def _find(db: Connection, organization_id: int, *conditions: Any) -> Coupon | None:
    row = db.execute(select(*_COLUMNS).where(table.c.organization_id == organization_id, *conditions)).one_or_none()
    return record(Coupon, row)
