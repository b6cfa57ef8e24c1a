"""Coupon books."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, func, or_, select

from domain.coupons.books import ARCHIVED, BookTerms, CouponBook
from domain.scalars import is_key
from persistence.connections import fetch_rows
from persistence.filters import (
    contains,
    has_all,
    has_any,
    has_any_or_none,
    is_any_of,
    is_at_or_after,
    is_at_or_before,
    is_null_or_at_or_after,
    is_null_or_at_or_before,
    lower,
)
from persistence.paging import Paged
from persistence.records import Records
from persistence.rows import bytes_of_texts, compile_statement
from persistence.tables.coupons import coupon_books as table


def _on_any_day(days: Collection[int]) -> Any:
    """The condition that a book is open on one of the days, by its days of the week and its hours, if it has any."""
    schedule = table.c.day_of_week_schedule
    by_hours = (schedule.contains({"schedule": [{"day": day}]}) for day in days)
    return and_(has_any_or_none(table.c.days_of_week)(days), or_(schedule.is_(None), *by_hours))


# Books that name no location, payment method, channel or day are for all of them.
BOOKS = Records(
    table,
    CouponBook,
    equal=("loyaltyProgramId", "loyaltyProgramKey", "externalId", "type", "couponBookId", "couponBookKey"),
    filters={
        "search": contains(table.c.name, table.c.description, table.c.external_id),
        "status": is_any_of(table.c.publishing_status),
        "locale": lambda locale: or_(table.c.locale == locale, table.c.locale.is_(None)),
        "couponBookKeys": is_any_of(table.c.coupon_book_key),
        "tags": has_all(table.c.tags),
        "tagsAny": has_any(table.c.tags),
        "audiences": lower(has_any(table.c.audience_keys)),
        "tierKeys": lower(has_any(table.c.tier_keys)),
        "tiers": has_any(table.c.tiers),
        "categories": has_any(table.c.categories),
        "productCategories": has_any(table.c.product_categories),
        "locations": has_any_or_none(table.c.locations),
        "paymentMethods": has_any_or_none(table.c.payment_methods),
        "channels": has_any_or_none(table.c.channels),
        "channelsExactly": has_any(table.c.channels),
        "daysOfWeek": _on_any_day,
        "validFromDate": is_null_or_at_or_after(table.c.valid_to_date),
        "validToDate": is_null_or_at_or_before(table.c.valid_from_date),
        "validFromDateMin": is_at_or_after(table.c.valid_from_date),
        "validToDateMax": is_at_or_before(table.c.valid_to_date),
    },
    locks_references=True,
)

TERMS = Records(table, BookTerms)
"""The terms of books: what decides about coupons, without the fields that only describe a book and may be long."""

_SIZE_OF_TERMS = compile_statement(
    select(func.count(), func.coalesce(func.sum(bytes_of_texts(TERMS.columns)), 0)).where(
        table.c.organization_id == bindparam("organization_id"), table.c.publishing_status != ARCHIVED
    )
)


class SizeOfTerms(NamedTuple):
    """The number of books that are not archived, and the bytes of the texts, lists and JSON values in their terms."""

    book_count: int
    byte_count: int


def size_of_terms(db: Connection, organization_id: int) -> SizeOfTerms:
    """The size of the terms of all books that are not archived."""
    [(book_count, byte_count)] = fetch_rows(db, _SIZE_OF_TERMS, {"organization_id": organization_id})
    return SizeOfTerms(book_count, int(byte_count))


def filters_of(query: Mapping[str, Any]) -> dict[str, Any]:
    """The filters of a query; if its `channelsMatch` is `exact`, books without channels do not match `channels`."""
    filters = dict(query)
    if filters.pop("channelsMatch", None) == "exact" and "channels" in filters:
        filters["channelsExactly"] = filters.pop("channels")
    return filters


def is_of_program_or_none(loyalty_program_id: int, books: Any = table) -> Any:
    """The condition that a book of `books` is of the program or of none."""
    return or_(books.c.loyalty_program_id == loyalty_program_id, books.c.loyalty_program_id.is_(None))


def find_page(db: Connection, organization_id: int, query: Mapping[str, Any], *conditions: Any) -> Paged[CouponBook]:
    """A page of the books that meet every condition."""
    return BOOKS.find_page(db, organization_id, filters_of(query), *conditions)


def find_whole(db: Connection, organization_id: int, ids: Collection[int]) -> dict[int, CouponBook]:
    """The whole books with these ids, by id."""
    books = BOOKS.find_all(db, organization_id, coupon_book_id=ids) if ids else []
    return {book.coupon_book_id: book for book in books}


def find_all_named(db: Connection, organization_id: int, names: Collection[str]) -> list[CouponBook]:
    """The books with one of these keys or names, in the order of their ids; several books may share a name."""
    keys = [name.lower() for name in names if is_key(name.lower())]
    is_named = or_(table.c.coupon_book_key.in_(keys), table.c.name.in_(list(names)))
    return BOOKS.find_where(db, organization_id, is_named, order=[BOOKS.id])
