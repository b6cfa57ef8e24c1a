"""Coupon usages: assignments, uses and reversals."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import distinct_on

from domain.coupons.usages import CouponUsage
from domain.members import Member
from persistence.connections import fetch_rows
from persistence.coupons.member_coupons import usable_lots
from persistence.filters import equals, has_all, has_any, is_any_of, is_at_or_after, is_before, is_same
from persistence.paging import Paged
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import Statement, additions, as_rows, fields_of, next_ids_sql, recordset_of, update_by_id
from persistence.tables.coupons import coupon_books, coupon_lots, coupons
from persistence.tables.coupons import coupon_usages as table

# Columns of the coupon and of the book, which always exist. The joins are outer joins only because PostgreSQL skips
# these in a count that uses none of their columns.
_JOINED_COLUMNS = {"code": coupons.c.code, "coupon_book_key": coupon_books.c.coupon_book_key}
USAGES = Records(
    table,
    CouponUsage,
    source=table.outerjoin(coupons, is_same(coupons, table, "coupon_id")).outerjoin(
        coupon_books, is_same(coupon_books, table, "coupon_book_id")
    ),
    columns=_JOINED_COLUMNS,
    filters={
        "codes": is_any_of(coupons.c.code),
        "fromCreatedAt": is_at_or_after(table.c.created_at),
        "toCreatedAt": is_before(table.c.created_at),
        "couponBookKey": equals(coupon_books.c.coupon_book_key),
        "couponBookTags": has_all(coupon_books.c.tags),
        "couponBookTagsAny": has_any(coupon_books.c.tags),
    },
)
# The used amount is no criterion: it is 0 for the use of a value coupon that leaves a part of its value.
_IS_USE = (table.c.amount_assigned == 0, table.c.reverted_usage_id.is_(None))
_TAKES_VALUE = """u.remaining_value IS NOT NULL AND u.amount_assigned = 0 AND u.reverted_usage_id IS NULL
    AND u.reversal_usage_id IS NULL"""
# The unreverted uses of a coupon `c` that took a part of its value. OFFSET keeps the planner from reading the uses of
# all coupons instead.
USES_OF_VALUE = f"""SELECT FROM coupon_usages u
WHERE u.organization_id = %s AND u.coupon_id = c.coupon_id AND {_TAKES_VALUE} OFFSET 0"""
_FIELDS = tuple(name for name in fields_of(CouponUsage) if name not in _JOINED_COLUMNS)

_LINK = update_by_id(table, "coupon_usage_id", "reversal_usage_id", "updated_at")

_VALUE_USERS = f"""
SELECT DISTINCT u.coupon_id, u.member_id FROM coupon_usages u
WHERE u.organization_id = %s AND u.coupon_id = ANY(%s) AND {_TAKES_VALUE}
"""

_LOOK_UP = Prepared(f"""
SELECT ARRAY(SELECT system_unique_key FROM coupon_usages WHERE organization_id = %s AND system_unique_key = ANY(%s)),
    {next_ids_sql("coupon_usages")}, {next_ids_sql("events")}
""")


class ExistingKeysAndNewIds(NamedTuple):
    """The keys that usages already have, and reserved ids of new usages and of their events."""

    keys: Sequence[str]
    usage_ids: Sequence[int]
    event_ids: Sequence[int]


def find_keys_and_reserve_ids(
    db: Connection, organization_id: int, keys: Collection[str], count: int
) -> ExistingKeysAndNewIds:
    """Find which of these keys usages already have; reserve `count` usage ids and `count` event ids; one statement."""
    [row] = fetch_rows(db, _LOOK_UP, (organization_id, list(keys), count, count))
    return ExistingKeysAndNewIds(*row)


def find_uses_of_coupon(
    db: Connection, organization_id: int, member_id: int, coupon_id: int, limit: int
) -> list[CouponUsage]:
    """The member's last `limit` unreverted uses of a coupon, newest first."""
    conditions = _is_unreverted_use(organization_id, member_id, coupon_id)
    return USAGES.find_where(db, organization_id, *conditions, order=[USAGES.id.desc()], limit=limit)


def count_uses_of_coupon(db: Connection, organization_id: int, member_id: int, coupon_id: int) -> int:
    """Count the member's unreverted uses of a coupon."""
    conditions = _is_unreverted_use(organization_id, member_id, coupon_id)
    return int(db.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())


def _is_unreverted_use(organization_id: int, member_id: int, coupon_id: int) -> tuple[ColumnElement[bool], ...]:
    """The conditions for an unreverted use of the coupon by the member."""
    return (
        table.c.organization_id == organization_id,
        table.c.member_id == member_id,
        table.c.coupon_id == coupon_id,
        *_IS_USE,
        table.c.reversal_usage_id.is_(None),
    )


def find_value_users(db: Connection, organization_id: int, coupon_ids: Collection[int]) -> list[tuple[int, int]]:
    """The coupons among these that have unreverted uses of their value, each with each member who used them."""
    rows = fetch_rows(db, _VALUE_USERS, (organization_id, list(coupon_ids)))
    return [(coupon_id, member_id) for coupon_id, member_id in rows]


def find_last_uses(db: Connection, member: Member, book_ids: Collection[int]) -> dict[int, CouponUsage]:
    """The member's last unreverted use of each book, by book id; one statement."""
    statement = (
        select(*USAGES.columns)
        .select_from(USAGES.source)
        .ext(distinct_on(table.c.coupon_book_id))
        .where(
            is_same(table, member, "member_id"),
            table.c.coupon_book_id.in_(book_ids),
            *_IS_USE,
            table.c.reversal_usage_id.is_(None),
        )
        .order_by(table.c.coupon_book_id, table.c.created_at.desc(), table.c.coupon_usage_id.desc())
    )
    return {usage.coupon_book_id: usage for usage in [CouponUsage(*row) for row in db.execute(statement)]}


def find_page(db: Connection, member: Member, query: Mapping[str, Any], now: datetime) -> Paged[CouponUsage]:
    """A page of a member's usages; with `unusedOnly`, only of assignments with an amount that can be used at `now`."""
    filters = {name: value for name, value in query.items() if name != "unusedOnly"}
    conditions = [table.c.member_id == member.member_id]
    if query.get("unusedOnly"):
        own_lot = coupon_lots.c.coupon_lot_id == table.c.coupon_usage_id
        usable = usable_lots(member.organization_id, now)
        conditions += [table.c.amount_assigned > 0, usable.where(own_lot).exists()]
    return USAGES.find_page(db, member.organization_id, filters, *conditions)


def additions_of(usages: Collection[CouponUsage]) -> list[Statement]:
    """The statements that insert usages, under the reserved ids that they have."""
    return additions(table, as_rows(usages, _FIELDS))


def links_of(organization_id: int, usages: Collection[CouponUsage]) -> list[Statement]:
    """The statement that stores links from usages to their reversals; none without usages."""
    rows = as_rows(usages, ("coupon_usage_id", "reversal_usage_id", "updated_at"))
    return [(_LINK, (*recordset_of(rows), organization_id))] if rows else []
