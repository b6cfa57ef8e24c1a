"""Coupon books: found, locked, added and changed."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, or_, select

from domain.coupons.books import CouponBook
from domain.scalars import is_key
from persistence.connections import Prepared, query
from persistence.rows import add, change, columns_of, fields_of, records
from persistence.tables.coupons import coupon_books as table

COLUMNS = columns_of(table, CouponBook)

_OF_ORGANIZATION = f"SELECT {', '.join(fields_of(CouponBook))} FROM coupon_books WHERE organization_id = %s"
BY_KEY = Prepared(f"{_OF_ORGANIZATION} AND coupon_book_key = ANY(%s::uuid[]) ORDER BY coupon_book_id")
BY_ID = Prepared(f"{_OF_ORGANIZATION} AND coupon_book_id = ANY(%s::bigint[]) ORDER BY coupon_book_id")


def find(db: Connection, organization_id: int, coupon_book_id: int) -> CouponBook | None:
    """The book with this id."""
    existing = find_all(db, organization_id, [coupon_book_id])
    return existing[0] if existing else None


def find_by_key(db: Connection, organization_id: int, coupon_book_key: str) -> CouponBook | None:
    """The book with this key."""
    existing = find_all_by_key(db, organization_id, [coupon_book_key])
    return existing[0] if existing else None


def find_all(db: Connection, organization_id: int, coupon_book_ids: Collection[int]) -> list[CouponBook]:
    """The existing books among these, by id; one statement."""
    return records(CouponBook, query(db, BY_ID, (organization_id, list(coupon_book_ids))))


def find_all_by_key(db: Connection, organization_id: int, keys: Collection[str]) -> list[CouponBook]:
    """The existing books among these, by id."""
    return records(CouponBook, query(db, BY_KEY, (organization_id, list(keys))))


def find_all_named(db: Connection, organization_id: int, names: Collection[str]) -> list[CouponBook]:
    """The books with these keys or names, which several may have, by id."""
    keys = [name.lower() for name in names if is_key(name.lower())]
    named = or_(table.c.coupon_book_key.in_(keys), table.c.name.in_(list(names)))
    statement = (
        select(*COLUMNS).where(table.c.organization_id == organization_id, named).order_by(table.c.coupon_book_id)
    )
    return records(CouponBook, db.execute(statement).all())


def known_keys(db: Connection, organization_id: int, keys: Collection[str]) -> set[str]:
    """The given keys that belong to books; one statement."""
    is_listed = table.c.coupon_book_key.in_(list(keys))
    return set(
        db.execute(
            select(table.c.coupon_book_key).where(table.c.organization_id == organization_id, is_listed)
        ).scalars()
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
