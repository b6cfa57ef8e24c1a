"""Lists of coupon books: one query for any combination of filters."""

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


def find_page(db: Connection, organization_id: int, page: Page, filters: BookFilter) -> Paged[CouponBook]:
    """A page of the books that meet every condition."""
    conditions = conditions_of(organization_id, filters)
    return paged(db, CouponBook, table, conditions, page, table.c.coupon_book_id, ORDER_COLUMNS)


def find_matching(
    db: Connection, organization_id: int, order: str | None, filters: BookFilter, *more: Any
) -> list[CouponBook]:
    """All books that meet every condition, in order."""
    conditions = [*conditions_of(organization_id, filters), *more]
    return records(
        CouponBook,
        db.execute(
            select(*COLUMNS).where(*conditions).order_by(*ordering(order, ORDER_COLUMNS, table.c.coupon_book_id))
        ),
    )


def conditions_of(organization_id: int, filters: BookFilter) -> list[Any]:
    """The conditions of a filter, of one organization."""
    conditions = [table.c.organization_id == organization_id]
    for name in ("loyalty_program_key", "external_id", "external_key", "type", "coupon_book_id", "coupon_book_key"):
        value = getattr(filters, name)
        if value is not None:
            conditions.append(table.c[name] == value)
    if filters.coupon_book_keys is not None:
        conditions.append(table.c.coupon_book_key.in_(list(filters.coupon_book_keys)))
    if filters.loyalty_program_id is not None:
        own = table.c.loyalty_program_id == filters.loyalty_program_id
        conditions.append(or_(own, table.c.loyalty_program_id.is_(None)) if filters.or_no_program else own)
    if filters.search is not None:
        columns = (table.c.name, table.c.description, table.c.external_id)
        conditions.append(or_(*(column.icontains(filters.search, autoescape=True) for column in columns)))
    if filters.statuses:
        conditions.append(table.c.publishing_status.in_(list(filters.statuses)))
    if filters.locale is not None:
        conditions.append(or_(table.c.locale == filters.locale, table.c.locale.is_(None)))
    return conditions + _about_lists(filters) + _about_validity(filters)


def _about_lists(filters: BookFilter) -> list[Any]:
    conditions: list[Any] = []
    if filters.tags:
        conditions.append(table.c.tags.bool_op("@>")(_array("tags", filters.tags)))
    if filters.tags_any:
        conditions.append(_any_of("tags", filters.tags_any))
    for name in ("audience_keys", "tier_keys", "tiers", "categories", "product_categories"):
        if getattr(filters, name):
            conditions.append(_any_of(name, getattr(filters, name)))
    for name in ("locations", "payment_methods", "channels", "days_of_week"):
        values = getattr(filters, name)
        if values and name == "channels" and filters.channels_match == EXACT:
            conditions.append(_any_of(name, values))
        elif values:
            conditions.append(or_(_any_of(name, values), func.cardinality(table.c[name]) == 0))
    return conditions


def _about_validity(filters: BookFilter) -> list[Any]:
    begin, end = table.c.valid_from_date, table.c.valid_to_date
    conditions = []
    if filters.valid_from is not None:
        conditions.append(or_(end.is_(None), end >= filters.valid_from))
    if filters.valid_to is not None:
        conditions.append(or_(begin.is_(None), begin <= filters.valid_to))
    if filters.valid_from_min is not None:
        conditions.append(begin >= filters.valid_from_min)
    if filters.valid_to_max is not None:
        conditions.append(end <= filters.valid_to_max)
    return conditions


def _any_of(name: str, values: Collection[Any]) -> Any:
    return table.c[name].bool_op("&&")(_array(name, values))


def _array(name: str, values: Collection[Any]) -> Any:
    return cast(list(values), table.c[name].type)
