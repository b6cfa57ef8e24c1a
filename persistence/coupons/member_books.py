"""Data for a list of the books that a member can use: candidates, the member's amounts of them, and free codes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, or_

from domain.coupons.books import PUBLISHED, BookTerms
from domain.members import Member
from persistence.connections import fetch_rows
from persistence.coupons.books import BOOKS, TERMS, filters_of
from persistence.coupons.usages import USES_OF_VALUE
from persistence.filters import conditions_of, has_any_or_none
from persistence.paging import sorting_of
from persistence.tables.coupons import coupon_books as table

_AMOUNTS = """
SELECT h.coupon_book_id, sum(h.amount_assigned), sum(h.amount_used),
    (SELECT sum(l.amount - l.amount_used) FROM coupon_lots l
    WHERE l.organization_id = %s AND l.member_id = h.member_id AND l.coupon_book_id = h.coupon_book_id
        AND l.amount > l.amount_used AND (l.expired_at IS NULL OR l.expired_at > %s))
FROM member_coupons h
WHERE h.organization_id = %s AND h.member_id = %s AND h.coupon_book_id = ANY(%s)
GROUP BY h.organization_id, h.member_id, h.coupon_book_id
"""

_OFFERED_BOOKS = f"""
SELECT coupon_book_id FROM coupon_books WHERE organization_id = %s AND publishing_status = '{PUBLISHED}'
    AND (valid_from_date IS NULL OR valid_from_date <= %s) AND (valid_to_date IS NULL OR valid_to_date >= %s)
ORDER BY ranking_index NULLS LAST, coupon_book_id LIMIT %s
"""

_BOOKS_WITH_FREE_CODES = f"""
SELECT x.coupon_book_id FROM unnest(%s::bigint[]) AS x(coupon_book_id)
WHERE EXISTS (
    SELECT FROM coupons c WHERE c.organization_id = %s AND c.coupon_book_id = x.coupon_book_id AND c.total_assigned = 0
        AND c.total_usages = 0 AND (c.locked_until IS NULL OR c.locked_until <= %s)
        AND NOT EXISTS ({USES_OF_VALUE}))
"""


@dataclass(frozen=True, slots=True)
class Amounts:
    """A member's assigned and used amounts of a book, and the amount that is left and has not expired."""

    assigned: Decimal = Decimal(0)
    used: Decimal = Decimal(0)
    unused: Decimal = Decimal(0)


def find_candidates(
    db: Connection,
    organization_id: int,
    query: Mapping[str, Any],
    *conditions: Any,
    tier_keys: Collection[str],
    audience_keys: Collection[str],
    now: datetime,
) -> list[BookTerms]:
    """The terms of the books that match the query, in its order, without books that a member cannot use at `now`.

    Left out are books that are not published, not valid at `now`, or only for other tiers or audiences. The later check
    of exclusions would exclude them, too, but only after reading them.
    """
    begin, end = table.c.valid_from_date, table.c.valid_to_date
    return TERMS.find_where(
        db,
        organization_id,
        *conditions_of(BOOKS.filters, filters_of(query)),
        *conditions,
        table.c.publishing_status == PUBLISHED,
        or_(begin.is_(None), begin <= now),
        or_(end.is_(None), end >= now),
        has_any_or_none(table.c.tier_keys)(tier_keys),
        has_any_or_none(table.c.audience_keys)(audience_keys),
        order=sorting_of(query.get("order"), BOOKS.order_columns, BOOKS.id).ordering,
    )


def find_offered_books(db: Connection, organization_id: int, now: datetime, limit: int) -> list[int]:
    """The ids of the books that are published and within their dates at `now`: the first ones by `rankingIndex`."""
    return [book_id for (book_id,) in fetch_rows(db, _OFFERED_BOOKS, (organization_id, now, now, limit))]


def find_amounts(db: Connection, member: Member, book_ids: Collection[int], at: datetime) -> dict[int, Amounts]:
    """The member's amounts of the books, by book id; one statement."""
    values = (member.organization_id, at, member.organization_id, member.member_id, list(book_ids))
    return {
        book_id: Amounts(assigned, used_amount, unused or Decimal(0))
        for book_id, assigned, used_amount, unused in db.exec_driver_sql(_AMOUNTS, values)
    }


def find_books_with_free_codes(
    db: Connection, organization_id: int, book_ids: Collection[int], at: datetime
) -> set[int]:
    """The ids of the books that have a free code, among these books of the type `list`; one statement."""
    values = (list(book_ids), organization_id, at, organization_id)
    return set(db.exec_driver_sql(_BOOKS_WITH_FREE_CODES, values).scalars())
