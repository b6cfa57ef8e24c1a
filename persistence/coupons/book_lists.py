"""Lists of coupon books: one query for any combination of filters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, cast, func, or_, select

from domain.coupons.books import CouponBook
from persistence.coupons.books import COLUMNS
from persistence.paging import Page, Paged, ordering, paged
from persistence.rows import records
from persistence.tables.coupons import coupon_books as table

ORDER_COLUMNS = {
    name: table.c[column]
    for name, column in {
        "couponBookId": "coupon_book_id",
        "externalId": "external_id",
        "name": "name",
        "publishingStatus": "publishing_status",
        "type": "type",
        "rankingIndex": "ranking_index",
        "discountAmount": "discount_amount",
        "validFromDate": "valid_from_date",
        "validToDate": "valid_to_date",
        "totalAssigned": "total_assigned",
        "totalUsages": "total_usages",
        "createdAt": "created_at",
        "updatedAt": "updated_at",
    }.items()
}

EFFECTIVE, EXACT = "effective", "exact"


@dataclass(frozen=True, slots=True)
class BookFilter:
    """Filters of a list of coupon books; None or an empty value leaves out a condition.

    Books match `tags` with all of them and other lists with any. Those that name no location, payment method, channel
    or day are for all of them, and match; `channels_match` EXACT leaves out those without a channel.
    """

    search: str | None = None
    tags: Collection[str] = ()
    tags_any: Collection[str] = ()
    statuses: Collection[str] = ()
    locale: str | None = None
    audience_keys: Collection[str] = ()
    tier_keys: Collection[str] = ()
    tiers: Collection[int] = ()
    categories: Collection[str] = ()
    product_categories: Collection[str] = ()
    locations: Collection[str] = ()
    payment_methods: Collection[str] = ()
    channels: Collection[str] = ()
    channels_match: str = EFFECTIVE
    days_of_week: Collection[int] = ()
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    valid_from_min: datetime | None = None
    valid_to_max: datetime | None = None
    loyalty_program_id: int | None = None
    loyalty_program_key: str | None = None
    or_no_program: bool = False
    external_id: str | None = None
    external_key: str | None = None
    type: str | None = None
    coupon_book_id: int | None = None
    coupon_book_key: str | None = None
    coupon_book_keys: Collection[str] | None = None


def find_page(db: Connection, organization_id: int, page: Page, wanted: BookFilter) -> Paged[CouponBook]:
    """A page of the books that meet every condition."""
    conditions = conditions_of(organization_id, wanted)
    return paged(db, CouponBook, table, conditions, page, table.c.coupon_book_id, ORDER_COLUMNS)


def find_matching(
    db: Connection, organization_id: int, order: str | None, wanted: BookFilter, *more: Any
) -> list[CouponBook]:
    """All books that meet every condition, in order."""
    conditions = [*conditions_of(organization_id, wanted), *more]
    return records(
        CouponBook,
        db.execute(
            select(*COLUMNS).where(*conditions).order_by(*ordering(order, ORDER_COLUMNS, table.c.coupon_book_id))
        ),
    )


def conditions_of(organization_id: int, wanted: BookFilter) -> list[Any]:
    """The conditions of a filter, of one organization."""
    found = [table.c.organization_id == organization_id]
    for name in ("loyalty_program_key", "external_id", "external_key", "type", "coupon_book_id", "coupon_book_key"):
        value = getattr(wanted, name)
        if value is not None:
            found.append(table.c[name] == value)
    if wanted.coupon_book_keys is not None:
        found.append(table.c.coupon_book_key.in_(list(wanted.coupon_book_keys)))
    if wanted.loyalty_program_id is not None:
        own = table.c.loyalty_program_id == wanted.loyalty_program_id
        found.append(or_(own, table.c.loyalty_program_id.is_(None)) if wanted.or_no_program else own)
    if wanted.search is not None:
        columns = (table.c.name, table.c.description, table.c.external_id)
        found.append(or_(*(column.icontains(wanted.search, autoescape=True) for column in columns)))
    if wanted.statuses:
        found.append(table.c.publishing_status.in_(list(wanted.statuses)))
    if wanted.locale is not None:
        found.append(or_(table.c.locale == wanted.locale, table.c.locale.is_(None)))
    return found + _about_lists(wanted) + _about_validity(wanted)


def _about_lists(wanted: BookFilter) -> list[Any]:
    found: list[Any] = []
    if wanted.tags:
        found.append(table.c.tags.bool_op("@>")(_array("tags", wanted.tags)))
    if wanted.tags_any:
        found.append(_any_of("tags", wanted.tags_any))
    for name in ("audience_keys", "tier_keys", "tiers", "categories", "product_categories"):
        if getattr(wanted, name):
            found.append(_any_of(name, getattr(wanted, name)))
    for name in ("locations", "payment_methods", "channels", "days_of_week"):
        values = getattr(wanted, name)
        if values and name == "channels" and wanted.channels_match == EXACT:
            found.append(_any_of(name, values))
        elif values:
            found.append(or_(_any_of(name, values), func.cardinality(table.c[name]) == 0))
    return found


def _about_validity(wanted: BookFilter) -> list[Any]:
    begin, end = table.c.valid_from_date, table.c.valid_to_date
    found = []
    if wanted.valid_from is not None:
        found.append(or_(end.is_(None), end >= wanted.valid_from))
    if wanted.valid_to is not None:
        found.append(or_(begin.is_(None), begin <= wanted.valid_to))
    if wanted.valid_from_min is not None:
        found.append(begin >= wanted.valid_from_min)
    if wanted.valid_to_max is not None:
        found.append(end <= wanted.valid_to_max)
    return found


def _any_of(name: str, values: Collection[Any]) -> Any:
    return table.c[name].bool_op("&&")(_array(name, values))


def _array(name: str, values: Collection[Any]) -> Any:
    return cast(list(values), table.c[name].type)
