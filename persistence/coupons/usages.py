"""Coupon usages: assignments, uses and reversals."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import distinct_on

from domain.coupons.usages import CouponUsage
from domain.members import Member
from persistence.connections import Prepared, query
from persistence.coupons.member_coupons import TAG_FILTERS, usable_lots
from persistence.filters import before_moment, equals, from_moment, is_any_of, is_same
from persistence.paging import Paged
from persistence.records import Records
from persistence.rows import Statement, additions, as_rows, fields_of, next_ids, recordset_of, update_by_id
from persistence.tables.coupons import coupon_books, coupon_lots, coupons
from persistence.tables.coupons import coupon_usages as table

# The code and the book's key are stored only with the coupon and the book. Both are always there; outer joins are left
# out of a count that does not ask for them.
_ELSEWHERE = {"code": coupons.c.code, "coupon_book_key": coupon_books.c.coupon_book_key}
USAGES = Records(
    table,
    CouponUsage,
    source=table.outerjoin(coupons, is_same(coupons, table, "coupon_id")).outerjoin(
        coupon_books, is_same(coupon_books, table, "coupon_book_id")
    ),
    columns=_ELSEWHERE,
    filters={
        "codes": is_any_of(coupons.c.code),
        "fromCreatedAt": from_moment(table.c.created_at),
        "toCreatedAt": before_moment(table.c.created_at),
        "couponBookKey": equals(coupon_books.c.coupon_book_key),
        **TAG_FILTERS,
    },
)
# One that leaves something of a value coupon uses none up.
_IS_USE = (table.c.amount_assigned == 0, table.c.reverted_usage_id.is_(None))
_FIELDS = tuple(name for name in fields_of(CouponUsage) if name not in _ELSEWHERE)

_LINK = update_by_id(table, "coupon_usage_id", "reversal_usage_id", "updated_at")

_LOOK_UP = Prepared(f"""
SELECT ARRAY(SELECT system_unique_key FROM coupon_usages WHERE organization_id = %s AND system_unique_key = ANY(%s)),
    {next_ids("coupon_usages")}, {next_ids("events")}
""")


def look_up(
    db: Connection, organization_id: int, keys: Collection[str], count: int
) -> tuple[Sequence[str], Sequence[int], Sequence[int]]:
    """The keys under which there are usages, and so many ids for new usages and for their events, in one statement."""
    [known_keys_and_ids] = query(db, _LOOK_UP, (organization_id, list(keys), count, count))
    return known_keys_and_ids


def find_uses_of_coupon(
    db: Connection, organization_id: int, member_id: int, coupon_id: int, limit: int
) -> list[CouponUsage]:
    """The member's last unreverted uses of a coupon, newest first."""
    uses = _active_uses(organization_id, member_id, coupon_id)
    return USAGES.find_where(db, organization_id, *uses, order=[USAGES.id.desc()], limit=limit)


def count_uses_of_coupon(db: Connection, organization_id: int, member_id: int, coupon_id: int) -> int:
    """The number of the member's unreverted uses of a coupon."""
    conditions = _active_uses(organization_id, member_id, coupon_id)
    return int(db.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())


def _active_uses(organization_id: int, member_id: int, coupon_id: int) -> tuple[ColumnElement[bool], ...]:
    return (
        table.c.organization_id == organization_id,
        table.c.member_id == member_id,
        table.c.coupon_id == coupon_id,
        *_IS_USE,
        table.c.reversal_usage_id.is_(None),
    )


def last_uses(db: Connection, member: Member, book_ids: Collection[int]) -> dict[int, CouponUsage]:
    """The member's last use of each book that was not reverted, by book id; one statement."""
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
    """A page of a member's usages; with `unusedOnly`, of assignments that have something usable at `now`."""
    filters = {name: value for name, value in query.items() if name != "unusedOnly"}
    conditions = [table.c.member_id == member.member_id]
    if query.get("unusedOnly"):
        own_lot = coupon_lots.c.coupon_lot_id == table.c.coupon_usage_id
        conditions += [table.c.amount_assigned > 0, usable_lots(table.c.organization_id, now).where(own_lot).exists()]
    return USAGES.find_page(db, member.organization_id, filters, *conditions)


def additions_of(usages: Collection[CouponUsage]) -> list[Statement]:
    """The statement that inserts usages, whose ids were reserved."""
    return additions(table, as_rows(usages, _FIELDS))


def links_of(organization_id: int, usages: Collection[CouponUsage]) -> list[Statement]:
    """The statement that stores links from usages to their reversals."""
    rows = as_rows(usages, ("coupon_usage_id", "reversal_usage_id", "updated_at"))
    return [(_LINK, (*recordset_of(rows), organization_id))] if rows else []
