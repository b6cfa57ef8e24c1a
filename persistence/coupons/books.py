"""Coupon books: found, locked, added and changed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, or_, select

from domain.coupons.books import CouponBook
from domain.scalars import is_key
from persistence.rows import add, change, columns_of, records
from persistence.tables.coupons import coupon_books as table

COLUMNS = columns_of(table, CouponBook)


def find(db: Connection, organization_id: int, coupon_book_id: int) -> CouponBook | None:
    """The book with this id."""
    return _find(db, organization_id, table.c.coupon_book_id == coupon_book_id)


def find_by_key(db: Connection, organization_id: int, coupon_book_key: str) -> CouponBook | None:
    """The book with this key."""
    return _find(db, organization_id, table.c.coupon_book_key == coupon_book_key)


def find_all(db: Connection, organization_id: int, coupon_book_ids: Collection[int]) -> list[CouponBook]:
    """The existing books among these, in no certain order; one statement."""
    return _find_all(db, organization_id, table.c.coupon_book_id.in_(list(coupon_book_ids)))


def find_all_by_key(db: Connection, organization_id: int, keys: Collection[str]) -> list[CouponBook]:
    """The existing books among these, in no certain order."""
    return _find_all(db, organization_id, table.c.coupon_book_key.in_(list(keys)))


def find_all_named(db: Connection, organization_id: int, names: Collection[str]) -> list[CouponBook]:
    """The books with these keys or names, which several may have, by id."""
    keys = [name.lower() for name in names if is_key(name.lower())]
    named = or_(table.c.coupon_book_key.in_(keys), table.c.name.in_(list(names)))
    return sorted(_find_all(db, organization_id, named), key=lambda book: book.coupon_book_id)


def known_keys(db: Connection, organization_id: int, keys: Collection[str]) -> set[str]:
    """The given keys that belong to books; one statement."""
    wanted = table.c.coupon_book_key.in_(list(keys))
    return set(
        db.execute(select(table.c.coupon_book_key).where(table.c.organization_id == organization_id, wanted)).scalars()
    )


def lock(db: Connection, book: CouponBook) -> CouponBook:
    """The book as it is now, locked for this transaction to change it or to add codes; see `locks`."""
    statement = select(*COLUMNS).where(
        table.c.organization_id == book.organization_id, table.c.coupon_book_id == book.coupon_book_id
    )
    return CouponBook(*db.execute(statement.with_for_update()).one())


def add_book(db: Connection, organization_id: int, **values: Any) -> CouponBook:
    """Insert a book, which holds no codes yet."""
    return add(db, table, CouponBook, {"organization_id": organization_id, **values})


def change_book(db: Connection, book: CouponBook, /, **values: Any) -> CouponBook:
    """Change a book."""
    address = {"organization_id": book.organization_id, "coupon_book_id": book.coupon_book_id}
    return change(db, table, CouponBook, address, values)


def _find(db: Connection, organization_id: int, condition: Any) -> CouponBook | None:
    found = _find_all(db, organization_id, condition)
    return found[0] if found else None


def _find_all(db: Connection, organization_id: int, condition: Any) -> list[CouponBook]:
    return records(
        CouponBook, db.execute(select(*COLUMNS).where(table.c.organization_id == organization_id, condition))
    )
