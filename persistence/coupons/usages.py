"""Coupon usages: assignments, uses and reversals."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import distinct_on

from domain.coupons.usages import CouponUsage
from domain.members import Member
from persistence.connections import defer
from persistence.coupons.member_coupons import NO_TAGS, BookTags, tagged, usable_lots
from persistence.paging import Page, Paged, paged_columns, sorting_of
from persistence.rows import add_all, fields_of, given, record, records
from persistence.tables.coupon_usages import coupon_lots
from persistence.tables.coupon_usages import coupon_usages as table
from persistence.tables.coupons import coupon_books, coupons

ORDER = {
    "couponUsageId": table.c.coupon_usage_id,
    "couponBookId": table.c.coupon_book_id,
    "couponId": table.c.coupon_id,
    "amountUsed": table.c.amount_used,
    "amountAssigned": table.c.amount_assigned,
    "amountDiscounted": table.c.amount_discounted,
    "externalId": table.c.external_id,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}

# The code and the book's key are kept with the coupon and the book alone.
_ELSEWHERE = {"code": coupons.c.code, "coupon_book_key": coupon_books.c.coupon_book_key}
_COLUMNS = tuple(_ELSEWHERE[name] if name in _ELSEWHERE else table.c[name] for name in fields_of(CouponUsage))
_FIELDS = tuple(name for name in fields_of(CouponUsage) if name not in _ELSEWHERE)
# Both are always there; outer joins are left out of a count that does not ask for them.
_JOINED = table.outerjoin(
    coupons,
    (coupons.c.organization_id == table.c.organization_id) & (coupons.c.coupon_id == table.c.coupon_id),
).outerjoin(
    coupon_books,
    (coupon_books.c.organization_id == table.c.organization_id)
    & (coupon_books.c.coupon_book_id == table.c.coupon_book_id),
)

_LINK = """
UPDATE coupon_usages u SET reversal_usage_id = x.reversal_usage_id, updated_at = x.updated_at
FROM (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(
        coupon_usage_id bigint, reversal_usage_id bigint, updated_at timestamptz
    ) LIMIT %s
) AS x
WHERE u.organization_id = %s AND u.coupon_usage_id = x.coupon_usage_id
"""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Filters of a list of usages; None leaves out a condition. Moments: from inclusive, to exclusive."""

    codes: Collection[str] | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    unused_only: bool = False
    coupon_book_key: str | None = None
    tags: BookTags = NO_TAGS


def find(db: Connection, organization_id: int, coupon_usage_id: int) -> CouponUsage | None:
    """The usage with this id."""
    return _find(db, organization_id, table.c.coupon_usage_id == coupon_usage_id)


def find_by_key(db: Connection, organization_id: int, coupon_usage_key: str) -> CouponUsage | None:
    """The usage with this key."""
    return _find(db, organization_id, table.c.coupon_usage_key == coupon_usage_key)


def find_all(db: Connection, organization_id: int, usage_ids: Collection[int]) -> list[CouponUsage]:
    """The existing usages among these."""
    return _select(db, organization_id, table.c.coupon_usage_id.in_(usage_ids))


def find_all_by_key(db: Connection, organization_id: int, keys: Collection[str]) -> list[CouponUsage]:
    """The existing usages among these, by their own keys."""
    return _select(db, organization_id, table.c.coupon_usage_key.in_(keys))


def find_by_request_keys(db: Connection, organization_id: int, keys: Collection[str]) -> list[CouponUsage]:
    """The usages made under these systemUniqueKeys."""
    return _select(db, organization_id, table.c.system_unique_key.in_(keys)) if keys else []


def find_of_events(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[CouponUsage]:
    """The unreverted usages made by these events."""
    return _select(db, organization_id, table.c.loyalty_event_id.in_(event_ids), table.c.reversal_usage_id.is_(None))


def find_uses_of_coupon(
    db: Connection, organization_id: int, member_id: int, coupon_id: int, limit: int
) -> list[CouponUsage]:
    """The member's last unreverted uses of a coupon, newest first."""
    statement = (
        select(*_COLUMNS)
        .select_from(_JOINED)
        .where(*_standing_uses(organization_id, member_id, coupon_id))
        .order_by(table.c.coupon_usage_id.desc())
        .limit(limit)
    )
    return records(CouponUsage, db.execute(statement).all())


def count_uses_of_coupon(db: Connection, organization_id: int, member_id: int, coupon_id: int) -> int:
    """The number of the member's unreverted uses of a coupon."""
    standing = _standing_uses(organization_id, member_id, coupon_id)
    return int(db.execute(select(func.count()).select_from(table).where(*standing)).scalar_one())


def _standing_uses(organization_id: int, member_id: int, coupon_id: int) -> tuple[ColumnElement[bool], ...]:
    return (
        table.c.organization_id == organization_id,
        table.c.member_id == member_id,
        table.c.coupon_id == coupon_id,
        table.c.amount_used > 0,
        table.c.reversal_usage_id.is_(None),
    )


def last_uses(db: Connection, member: Member, book_ids: Collection[int]) -> dict[int, CouponUsage]:
    """The member's last use of each book that was not reverted, by book id; one statement."""
    statement = (
        select(*_COLUMNS)
        .select_from(_JOINED)
        .ext(distinct_on(table.c.coupon_book_id))
        .where(
            table.c.organization_id == member.organization_id,
            table.c.member_id == member.member_id,
            table.c.coupon_book_id.in_(book_ids),
            table.c.amount_used > 0,
            table.c.reversal_usage_id.is_(None),
        )
        .order_by(table.c.coupon_book_id, table.c.created_at.desc(), table.c.coupon_usage_id.desc())
    )
    return {usage.coupon_book_id: usage for usage in records(CouponUsage, db.execute(statement))}


def find_page(db: Connection, member: Member, page: Page, filters: UsageFilter, at: datetime) -> Paged[CouponUsage]:
    """A page of a member's usages that meet every condition at `at`."""
    conditions = [
        table.c.organization_id == member.organization_id,
        table.c.member_id == member.member_id,
        *_conditions(filters, at),
    ]
    sorting = sorting_of(page.order, ORDER, table.c.coupon_usage_id)
    return paged_columns(db, CouponUsage, _COLUMNS, _JOINED, conditions, page, sorting)


def _conditions(filters: UsageFilter, at: datetime) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.created_from is not None:
        conditions.append(table.c.created_at >= filters.created_from)
    if filters.created_to is not None:
        conditions.append(table.c.created_at < filters.created_to)
    if filters.codes is not None:
        conditions.append(coupons.c.code.in_(filters.codes))
    if filters.unused_only:
        own_lot = coupon_lots.c.coupon_lot_id == table.c.coupon_usage_id
        conditions += [table.c.amount_assigned > 0, usable_lots(table.c.organization_id, at).where(own_lot).exists()]
    if filters.coupon_book_key is not None:
        conditions.append(coupon_books.c.coupon_book_key == filters.coupon_book_key)
    return [*conditions, *tagged(filters.tags)]


def add_usages(db: Connection, usages: Collection[CouponUsage]) -> None:
    """Insert usages, whose ids were reserved."""
    add_all(db, table, _FIELDS, [_row(usage) for usage in usages])


def link_reverted(db: Connection, organization_id: int, usages: Collection[CouponUsage]) -> None:
    """Store links from usages to their reversals."""
    rows = [
        {
            "coupon_usage_id": usage.coupon_usage_id,
            "reversal_usage_id": usage.reversal_usage_id,
            "updated_at": usage.updated_at,
        }
        for usage in usages
    ]
    if rows:
        defer(db, _LINK, (*given(rows), organization_id))


def _row(usage: CouponUsage) -> dict[str, Any]:
    row = {name: getattr(usage, name) for name in _FIELDS}
    digest = usage.request_digest
    return {**row, "request_digest": None if digest is None else "\\x" + digest.hex()}


def _find(db: Connection, organization_id: int, condition: Any) -> CouponUsage | None:
    statement = select(*_COLUMNS).select_from(_JOINED).where(table.c.organization_id == organization_id, condition)
    return record(CouponUsage, db.execute(statement).one_or_none())


def _select(db: Connection, organization_id: int, *conditions: Any) -> list[CouponUsage]:
    statement = select(*_COLUMNS).select_from(_JOINED).where(table.c.organization_id == organization_id, *conditions)
    return records(CouponUsage, db.execute(statement).all())
