"""Coupon usages: what was assigned, used and reverted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from domain.coupons.usages import CouponUsage
from domain.members import Member
from persistence.coupons.member_coupons import NO_TAGS, BookTags, of_books
from persistence.paging import Page, Paged, paged
from persistence.rows import add_all, as_json, columns_of, fields_of, record, records
from persistence.tables.coupon_usages import coupon_usages as table
from persistence.tables.coupon_usages import member_coupons
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

_COLUMNS = columns_of(table, CouponUsage)
_FIELDS = fields_of(CouponUsage)

_LAST_USES = f"""
SELECT DISTINCT ON (coupon_book_id) {", ".join(_FIELDS)} FROM coupon_usages
WHERE organization_id = %s AND member_id = %s AND coupon_book_id = ANY(%s) AND amount_used > 0
    AND reversal_usage_id IS NULL
ORDER BY coupon_book_id, created_at DESC, coupon_usage_id DESC
"""

_LINK = """
UPDATE coupon_usages u SET reversal_usage_id = x.reversal_usage_id, updated_at = x.updated_at
FROM jsonb_to_recordset(%s::jsonb) AS x(coupon_usage_id bigint, reversal_usage_id bigint, updated_at timestamptz)
WHERE u.organization_id = %s AND u.coupon_usage_id = x.coupon_usage_id
"""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """What the usages of a list have in common; None leaves out a condition. Moments: from inclusive, to exclusive."""

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
    """Those of the usages that exist."""
    return _select(db, organization_id, table.c.coupon_usage_id.in_(usage_ids))


def find_by_request_keys(db: Connection, organization_id: int, keys: Collection[str]) -> list[CouponUsage]:
    """What was made under these systemUniqueKeys."""
    return _select(db, organization_id, table.c.system_unique_key.in_(keys)) if keys else []


def find_of_events(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[CouponUsage]:
    """What these events made, as far as it is not reverted."""
    return _select(db, organization_id, table.c.loyalty_event_id.in_(event_ids), table.c.reversal_usage_id.is_(None))


def find_uses_of_coupon(
    db: Connection, organization_id: int, member_id: int, coupon_id: int, limit: int
) -> list[CouponUsage]:
    """The member's last uses of a coupon that stand, the newest first."""
    statement = (
        select(*_COLUMNS)
        .where(
            table.c.organization_id == organization_id,
            table.c.member_id == member_id,
            table.c.coupon_id == coupon_id,
            table.c.amount_used > 0,
            table.c.reversal_usage_id.is_(None),
        )
        .order_by(table.c.coupon_usage_id.desc())
        .limit(limit)
    )
    return records(CouponUsage, db.execute(statement).all())


def last_uses(db: Connection, member: Member, book_ids: Collection[int]) -> dict[int, CouponUsage]:
    """The member's last use of each book that was not reverted, by book id; one statement."""
    values = (member.organization_id, member.member_id, list(book_ids))
    found = [CouponUsage(*row) for row in db.exec_driver_sql(_LAST_USES, values)]
    return {usage.coupon_book_id: usage for usage in found}


def find_page(db: Connection, member: Member, page: Page, wanted: UsageFilter) -> Paged[CouponUsage]:
    """A page of a member's usages that meet every condition."""
    conditions = [
        table.c.organization_id == member.organization_id,
        table.c.member_id == member.member_id,
        *_conditions(wanted),
    ]
    return paged(db, CouponUsage, table, conditions, page, table.c.coupon_usage_id, ORDER)


def _conditions(wanted: UsageFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.created_from is not None:
        found.append(table.c.created_at >= wanted.created_from)
    if wanted.created_to is not None:
        found.append(table.c.created_at < wanted.created_to)
    if wanted.codes is not None:
        found.append(
            select(1)
            .where(
                coupons.c.organization_id == table.c.organization_id,
                coupons.c.coupon_id == table.c.coupon_id,
                coupons.c.code.in_(wanted.codes),
            )
            .exists()
        )
    if wanted.unused_only:
        found.append(table.c.amount_assigned > 0)
        found.append(
            select(1)
            .where(
                member_coupons.c.organization_id == table.c.organization_id,
                member_coupons.c.member_id == table.c.member_id,
                member_coupons.c.coupon_id == table.c.coupon_id,
                member_coupons.c.amount_assigned > member_coupons.c.amount_used,
            )
            .exists()
        )
    return [*found, *of_books(table, wanted.tags, coupon_books.c.coupon_book_key, wanted.coupon_book_key)]


def add_usages(db: Connection, usages: Collection[CouponUsage]) -> None:
    """Insert usages, whose ids were reserved."""
    add_all(db, table, _FIELDS, [_row(usage) for usage in usages])


def link_reverted(db: Connection, organization_id: int, usages: Collection[CouponUsage]) -> None:
    """Note on stored usages what reverts them."""
    rows = [
        {
            "coupon_usage_id": usage.coupon_usage_id,
            "reversal_usage_id": usage.reversal_usage_id,
            "updated_at": usage.updated_at,
        }
        for usage in usages
    ]
    if rows:
        db.exec_driver_sql(_LINK, (as_json(rows), organization_id))


def _row(usage: CouponUsage) -> dict[str, Any]:
    row = {name: getattr(usage, name) for name in _FIELDS}
    digest = usage.request_digest
    return {**row, "request_digest": None if digest is None else "\\x" + digest.hex()}


def _find(db: Connection, organization_id: int, condition: Any) -> CouponUsage | None:
    row = db.execute(select(*_COLUMNS).where(table.c.organization_id == organization_id, condition)).one_or_none()
    return record(CouponUsage, row)


def _select(db: Connection, organization_id: int, *conditions: Any) -> list[CouponUsage]:
    rows = db.execute(select(*_COLUMNS).where(table.c.organization_id == organization_id, *conditions))
    return records(CouponUsage, rows.all())
