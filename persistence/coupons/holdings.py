"""Loads coupon data for a unit of work, with the locks that keep it exact.

A shared coupon is the only coupon of its book (of the type `single` or `codeless`), and any number of members can have
it. A personal coupon (of a book of the type `list` or `generated`) belongs to one member.

The lock of a member protects the member's amounts. Books get a shared lock, so that changes of their rules wait. A book
with limited stock is locked exclusively before a coupon of it is assigned. Each free code is locked before it is used.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection

from domain.coupons.books import BookTerms, Coupon
from domain.coupons.locks import CouponLock
from domain.coupons.lots import CouponLot, LotRange
from domain.coupons.state import Place
from domain.coupons.usages import MemberCoupon, UsageTotals
from persistence.connections import defer, fetch_rows
from persistence.coupons.usages import USES_OF_VALUE
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import (
    Statement,
    add_all,
    as_json,
    as_rows,
    columns_of,
    fields_of,
    recordset_of,
    update_by_id,
    upsert,
)
from persistence.tables.coupons import coupon_books, coupon_locks, coupon_lots, coupons, member_coupons

_COUPON_NAMES = [column.name for column in columns_of(coupons, Coupon)]
_COUPON_COLUMNS = ", ".join(f"c.{name}" for name in _COUPON_NAMES)
_MEMBER_COUPON_NAMES = [name for name in fields_of(MemberCoupon) if name != "member_coupon_id"]
_MEMBER_COUPON_COLUMNS = ", ".join(f"h.{column.name}" for column in columns_of(member_coupons, MemberCoupon))

# Each shared coupon, once for each of the members who has or had some of it, or once if there is no such member.
_SHARED_COUPONS = Prepared(f"""
SELECT {_COUPON_COLUMNS}, {_MEMBER_COUPON_COLUMNS}
FROM coupons c JOIN coupon_books b USING (organization_id, coupon_book_id)
LEFT JOIN member_coupons h ON h.organization_id = c.organization_id AND h.coupon_id = c.coupon_id
    AND h.organization_id = %s AND h.member_id = ANY(%s::bigint[])
WHERE c.organization_id = %s AND c.coupon_book_id = ANY(%s::bigint[]) AND b.type IN ('single', 'codeless')
ORDER BY c.position DESC
""")

LOTS = Records(coupon_lots, CouponLot)
_LOT_COLUMNS = ", ".join(f"l.{column.name}" for column in columns_of(coupon_lots, CouponLot))

# A personal coupon has one row for each lot with an amount left, or one row without a lot, as a shared coupon has.
# OFFSET keeps the planner from reading the lots of shared coupons.
_HELD_COUPONS = Prepared(f"""
SELECT {_MEMBER_COUPON_COLUMNS}, {_COUPON_COLUMNS}, {_LOT_COLUMNS}
FROM member_coupons h JOIN coupons c USING (organization_id, coupon_id)
JOIN coupon_books b ON b.organization_id = h.organization_id AND b.coupon_book_id = h.coupon_book_id
LEFT JOIN LATERAL (
    SELECT o.* FROM coupon_lots o
    WHERE b.type IN ('list', 'generated') AND o.organization_id = %s AND o.member_id = h.member_id
        AND o.coupon_id = h.coupon_id AND o.amount > o.amount_used
    OFFSET 0
) l ON true
WHERE h.organization_id = %s AND h.member_id = ANY(%s::bigint[]) AND h.coupon_id = ANY(%s::bigint[])
""")

# The indexes of lots with an amount left are in the order of use, so only the lots that are returned are read.
_NEXT_LOTS = f"""
SELECT {_LOT_COLUMNS}
FROM jsonb_to_recordset(%s::jsonb) AS p(member_id bigint, expired_at timestamptz, created_at timestamptz, lot_id bigint)
CROSS JOIN LATERAL (
    SELECT * FROM coupon_lots o
    WHERE o.organization_id = %s AND o.member_id = p.member_id AND o.{{id_column}} = %s
        AND o.amount > o.amount_used
        AND (coalesce(o.expired_at, 'infinity'::timestamptz), o.created_at, o.coupon_lot_id)
            > (p.expired_at, p.created_at, p.lot_id)
    ORDER BY coalesce(o.expired_at, 'infinity'::timestamptz), o.created_at, o.coupon_lot_id LIMIT %s
) l
"""

_NEXT_LOTS_OF_BOOK = Prepared(_NEXT_LOTS.format(id_column="coupon_book_id"))
_NEXT_LOTS_OF_COUPON = Prepared(_NEXT_LOTS.format(id_column="coupon_id"))

_ASSIGNED_AMOUNTS = Prepared("""
SELECT h.member_id, h.coupon_book_id, sum(h.amount_assigned) FROM member_coupons h
WHERE h.organization_id = %s AND h.member_id = ANY(%s::bigint[]) AND h.coupon_book_id = ANY(%s::bigint[])
GROUP BY h.member_id, h.coupon_book_id
""")

_USED_IN_PERIODS = """
SELECT u.member_id, u.coupon_book_id,
    count(*) FILTER (WHERE u.created_at >= x.uses_since)::numeric,
    coalesce(sum(u.amount_discounted) FILTER (WHERE u.created_at >= x.discounts_since), 0)
FROM jsonb_to_recordset(%s::jsonb) AS x(coupon_book_id bigint, uses_since timestamptz, discounts_since timestamptz)
JOIN coupon_usages u ON u.coupon_book_id = x.coupon_book_id
    AND u.created_at >= least(x.uses_since, x.discounts_since)
WHERE u.organization_id = %s AND u.member_id = ANY(%s) AND u.amount_assigned = 0 AND u.reverted_usage_id IS NULL
    AND u.reversal_usage_id IS NULL
GROUP BY u.member_id, u.coupon_book_id
"""

_FREE_CODES = f"""
SELECT {_COUPON_COLUMNS} FROM coupons c
WHERE c.organization_id = %s AND c.coupon_book_id = %s AND c.total_assigned = 0 AND c.total_usages = 0
    AND (c.locked_until IS NULL OR c.locked_until <= %s) AND NOT c.coupon_id = ANY(%s)
    AND NOT EXISTS ({USES_OF_VALUE})
ORDER BY c.position LIMIT %s
"""

# Not prepared, so that it is planned for its values: a book has a few codes or a million.
_BY_CODE = f"""
SELECT {_COUPON_COLUMNS} FROM coupons c
WHERE c.organization_id = %s AND c.coupon_book_id = %s AND (c.code = ANY(%s) OR c.coupon_id = ANY(%s::bigint[]))
ORDER BY c.coupon_id
"""
_LOCK_BY_CODE = f"{_BY_CODE} FOR NO KEY UPDATE"

_EXISTING_CODES = "SELECT code FROM coupons WHERE organization_id = %s AND coupon_book_id = %s AND code = ANY(%s)"

_LAST_LOCK = "greatest(t.locked_until, x.locked_until)"
_ADDITION = {"total_assigned": "t.total_assigned + x.total_assigned", "total_usages": "t.total_usages + x.total_usages"}
_ADD_TO_BOOKS = Prepared(
    update_by_id(
        coupon_books,
        "coupon_book_id",
        **_ADDITION,
        coupon_count="t.coupon_count + x.coupon_count",
        locked_until=_LAST_LOCK,
    )
    + " RETURNING t.coupon_book_id, t.coupon_count"
)
_ADD_TO_SHARED = update_by_id(coupons, "coupon_id", **_ADDITION)
_ADD_TO_PERSONAL = update_by_id(coupons, "coupon_id", "custom_attributes", "expired_at", "locked_until", **_ADDITION)

_STORE_MEMBER_COUPONS = upsert(
    member_coupons,
    _MEMBER_COUPON_NAMES,
    key=("member_id", "coupon_id"),
    updated_columns=("amount_assigned", "amount_used", "custom_attributes", "expired_at", "updated_at"),
)
_ACTIVE = """FROM coupon_locks l
WHERE l.organization_id = %s AND l.coupon_book_id = ANY(%s::bigint[]) AND l.ended_at IS NULL AND l.expires_at > %s"""
_MEMBER_LOCKS = Prepared(
    f"SELECT {', '.join(f'l.{name}' for name in fields_of(CouponLock))} {_ACTIVE} AND l.member_id = ANY(%s::bigint[])"
)
_RESERVED_STOCK = Prepared(
    f"SELECT l.coupon_book_id, count(*) {_ACTIVE} AND l.coupon_lot_id IS NULL GROUP BY l.coupon_book_id"
)
_STORE_LOCKS = upsert(
    coupon_locks, fields_of(CouponLock), updated_columns=("coupon_usage_id", "ended_at", "updated_at")
)
_STORE_LOTS = upsert(
    coupon_lots,
    fields_of(CouponLot),
    updated_columns=("amount", "amount_used", "amount_owed", "remaining_value", "updated_at"),
)

# Under FOR KEY SHARE, changes of the rules of a book wait, but other transactions may add to its sums.
_BOOKS = f"SELECT {', '.join(fields_of(BookTerms))} FROM coupon_books WHERE organization_id = %s"
_BY_KEY = Prepared(f"{_BOOKS} AND coupon_book_key = ANY(%s::uuid[]) ORDER BY coupon_book_id")
_BY_ID = Prepared(f"{_BOOKS} AND coupon_book_id = ANY(%s::bigint[]) ORDER BY coupon_book_id")
_SHARE_BY_KEY = Prepared(f"{_BY_KEY} FOR KEY SHARE")
_SHARE_BY_ID = Prepared(f"{_BY_ID} FOR KEY SHARE")
_LOCK_BY_ID = Prepared(f"{_BY_ID} FOR NO KEY UPDATE")

# The number of columns of each record in a row that has several records.
_COUPON_WIDTH = len(_COUPON_NAMES)
_MEMBER_COUPON_WIDTH = len(columns_of(member_coupons, MemberCoupon))
_WITH_COUPON_WIDTH = _MEMBER_COUPON_WIDTH + len(_COUPON_NAMES)


def find_books(
    db: Connection, organization_id: int, *, ids: Collection[int] = (), keys: Collection[str] = (), lock: bool = True
) -> list[BookTerms]:
    """The books with these keys or, without keys, with these ids.

    With `lock` their rules cannot change until the database transaction ends.
    """
    by_key, by_id = (_SHARE_BY_KEY, _SHARE_BY_ID) if lock else (_BY_KEY, _BY_ID)
    rows = fetch_rows(db, by_key if keys else by_id, (organization_id, list(keys or ids)))
    return [BookTerms(*row) for row in rows]


def lock_book(db: Connection, book: BookTerms) -> BookTerms:
    """Lock the book for this transaction to change its sums; return the current row."""
    [row] = fetch_rows(db, _LOCK_BY_ID, (book.organization_id, [book.coupon_book_id]))
    return BookTerms(*row)


HeldCoupon = tuple[MemberCoupon, Coupon, CouponLot | None]
"""A member's amounts of a coupon, the coupon, and one of its lots with an amount left, None for a shared coupon."""


def find_shared_coupons(
    db: Connection, organization_id: int, member_ids: Collection[int], book_ids: Collection[int]
) -> list[tuple[Coupon, MemberCoupon | None]]:
    """The shared coupons of books, the newest of each book first, with the amounts of the members.

    A coupon occurs once for each of the members who has or had some of it, or once with None.
    """
    values = (organization_id, list(member_ids), organization_id, list(book_ids))
    shared_coupons: list[tuple[Coupon, MemberCoupon | None]] = []
    for row in fetch_rows(db, _SHARED_COUPONS, values):
        coupon_columns, member_columns = row[:_COUPON_WIDTH], row[_COUPON_WIDTH:]
        member_coupon = None if member_columns[0] is None else MemberCoupon(*member_columns)
        shared_coupons.append((Coupon(*coupon_columns), member_coupon))
    return shared_coupons


def find_held_coupons(
    db: Connection, organization_id: int, member_ids: Collection[int], coupon_ids: Collection[int]
) -> list[HeldCoupon]:
    """The members' current and past amounts of these coupons; personal ones once for each lot with an amount left."""
    values = (organization_id, organization_id, list(member_ids), list(coupon_ids))
    held_coupons: list[HeldCoupon] = []
    for row in fetch_rows(db, _HELD_COUPONS, values):
        lot_columns = row[_WITH_COUPON_WIDTH:]
        lot = None if lot_columns[0] is None else CouponLot(*lot_columns)
        coupon = Coupon(*row[_MEMBER_COUPON_WIDTH:_WITH_COUPON_WIDTH])
        held_coupons.append((MemberCoupon(*row[:_MEMBER_COUPON_WIDTH]), coupon, lot))
    return held_coupons


def find_next_lots(
    db: Connection,
    organization_id: int,
    lot_range: LotRange,
    after: Mapping[int, CouponLot | None],
    at: datetime,
    limit: int,
) -> list[CouponLot]:
    """The lots that a use at `at` takes next from the range, up to `limit` of each member, in the order of use.

    `after` has the members, each with the last lot that was read before, or None.
    """
    # Lots that expire at `at` cannot be used any more: their expiry is at the start, not after it.
    first_expiry = "-infinity" if lot_range.with_expired else at
    starts: list[dict[str, Any]] = []
    for member_id, lot in after.items():
        start = {"expired_at": first_expiry, "created_at": "infinity", "lot_id": 0}
        if lot is not None:
            # Lots without expiry come last.
            expiry = lot.expired_at or "infinity"
            start = {"expired_at": expiry, "created_at": lot.created_at, "lot_id": lot.coupon_lot_id}
        starts.append({"member_id": member_id, **start})
    if lot_range.coupon_id is None:
        statement, id_ = _NEXT_LOTS_OF_BOOK, lot_range.coupon_book_id
    else:
        statement, id_ = _NEXT_LOTS_OF_COUPON, lot_range.coupon_id
    rows = fetch_rows(db, statement, (as_json(starts), organization_id, id_, limit))
    return [CouponLot(*row) for row in rows]


def find_assigned_amounts(
    db: Connection, organization_id: int, member_ids: Collection[int], book_ids: Collection[int]
) -> dict[Place, Decimal]:
    """The amounts assigned to the members less reversals, by member and book."""
    rows = fetch_rows(db, _ASSIGNED_AMOUNTS, (organization_id, list(member_ids), list(book_ids)))
    return {(member_id, book_id): assigned for member_id, book_id, assigned in rows}


def find_usage_totals(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    assigned: Mapping[Place, Decimal],
    since: Mapping[int, tuple[datetime | None, datetime | None]],
) -> dict[Place, UsageTotals]:
    """The totals of members by member and book: the `assigned` amounts, and what was used and discounted in periods.

    `since` has for each book the moments at which its periods of uses and of discounts began, None without a period.
    """
    totals = {place: UsageTotals(amount) for place, amount in assigned.items()}
    periods = [
        {"coupon_book_id": book_id, "uses_since": uses, "discounts_since": discounts}
        for book_id, (uses, discounts) in since.items()
        if uses is not None or discounts is not None
    ]
    if periods:
        rows = fetch_rows(db, _USED_IN_PERIODS, (as_json(periods), organization_id, list(member_ids)))
        for member_id, book_id, used_amount, discounted in rows:
            place = member_id, book_id
            totals[place] = UsageTotals(assigned.get(place, Decimal(0)), used_amount, discounted)
    return totals


def claim_free_codes(
    db: Connection, book: BookTerms, count: int, excluded_ids: Collection[int], at: datetime, lock: bool
) -> list[Coupon]:
    """Claim up to `count` codes of a book that are not assigned and have no coupon lock at `at`.

    The coupons with `excluded_ids` are not claimed. With `lock` the rows are locked for this database transaction;
    without it, as in a dry run, they are only read. Codes that other transactions are claiming are skipped. If only
    such codes are left, the function waits for these transactions, and claims the codes that they have not assigned.
    """
    values = (book.organization_id, book.coupon_book_id, at, list(excluded_ids), book.organization_id, count)
    if not lock:
        return [Coupon(*row) for row in fetch_rows(db, _FREE_CODES, values)]
    free_codes = [Coupon(*row) for row in fetch_rows(db, f"{_FREE_CODES} FOR NO KEY UPDATE SKIP LOCKED", values)]
    if not free_codes:
        free_codes = [Coupon(*row) for row in fetch_rows(db, f"{_FREE_CODES} FOR NO KEY UPDATE", values)]
    return free_codes


def find_coupons(
    db: Connection, book: BookTerms, codes: Collection[str], coupon_ids: Collection[int] = (), *, lock: bool
) -> list[Coupon]:
    """The coupons of the book with one of these codes or ids; with `lock`, they are locked exclusively."""
    values = (book.organization_id, book.coupon_book_id, list(codes), list(coupon_ids))
    rows = fetch_rows(db, _LOCK_BY_CODE if lock else _BY_CODE, values)
    return [Coupon(*row) for row in rows]


class BookAddition(NamedTuple):
    """The amounts that are added to the sums of a book, and the end of the last lock of one of its coupons."""

    total_assigned: Decimal
    total_usages: Decimal
    coupon_count: int
    locked_until: datetime | None


BookAdditions = Mapping[int, BookAddition]
"""The additions to books, by book id."""


def add_to_books(db: Connection, organization_id: int, additions: BookAdditions) -> None:
    """Add to the sums of books, with deferred statements."""
    if additions:
        defer(db, _ADD_TO_BOOKS, _lock_and_list_additions(db, organization_id, additions))


def add_to_books_and_count(db: Connection, organization_id: int, additions: BookAdditions) -> dict[int, int]:
    """Add to the sums of books; return the number of codes that each book has now, by book id."""
    if not additions:
        return {}
    return dict(map(tuple, fetch_rows(db, _ADD_TO_BOOKS, _lock_and_list_additions(db, organization_id, additions))))


def _lock_and_list_additions(db: Connection, organization_id: int, additions: BookAdditions) -> tuple[Any, ...]:
    """Lock the books in the order of their ids, if there are several; return the values of the statement that adds."""
    ids = sorted(additions)
    if len(ids) > 1:
        defer(db, _LOCK_BY_ID, (organization_id, ids))
    rows = [{"coupon_book_id": book_id, **additions[book_id]._asdict()} for book_id in ids]
    return *recordset_of(rows), organization_id


def find_existing_codes(db: Connection, book: BookTerms, codes: Collection[str]) -> set[str]:
    """The codes, among these, that the book already has."""
    return set(db.exec_driver_sql(_EXISTING_CODES, (book.organization_id, book.coupon_book_id, list(codes))).scalars())


def add_coupons(db: Connection, new_coupons: Sequence[Coupon], counts_by_book: Mapping[int, int]) -> None:
    """Insert generated coupons; their positions continue `counts_by_book`, the number that each book had before."""
    last_positions = dict(counts_by_book)
    rows = []
    for coupon in new_coupons:
        last_positions[coupon.coupon_book_id] += 1
        rows.append(replace(coupon, position=last_positions[coupon.coupon_book_id]))
    add_all(db, coupons, rows, names=_COUPON_NAMES)


def add_to_coupons(
    db: Connection, organization_id: int, rows: Sequence[Mapping[str, Any]], *, are_personal: bool
) -> None:
    """Add the totals of rows to the totals of coupons, with a deferred statement.

    Of personal coupons, it also stores the expiry, the attributes and the end of the lock.
    """
    defer(db, _ADD_TO_PERSONAL if are_personal else _ADD_TO_SHARED, (*recordset_of(rows), organization_id))


def statements_to_store(member_amounts: Sequence[MemberCoupon], lots: Sequence[CouponLot]) -> list[Statement]:
    """The statements that store members' amounts of coupons, and new or changed lots."""
    statements = ((_STORE_MEMBER_COUPONS, member_amounts), (_STORE_LOTS, lots))
    return [(statement, (as_json(rows),)) for statement, rows in statements if rows]


def find_active_locks(
    db: Connection, organization_id: int, member_ids: Collection[int], book_ids: Collection[int], at: datetime
) -> tuple[list[CouponLock], dict[int, int]]:
    """The members' active locks of books, and by book the number of all members' locks that reserve stock of it."""
    parameters = (organization_id, list(book_ids), at)
    member_locks = [CouponLock(*row) for row in fetch_rows(db, _MEMBER_LOCKS, (*parameters, list(member_ids)))]
    return member_locks, dict(map(tuple, fetch_rows(db, _RESERVED_STOCK, parameters)))


def statements_to_store_locks(locks: Sequence[CouponLock]) -> list[Statement]:
    """The statement that inserts new locks, and stores the ends of existing locks."""
    return [(_STORE_LOCKS, (as_json(as_rows(locks, fields_of(CouponLock))),))]
