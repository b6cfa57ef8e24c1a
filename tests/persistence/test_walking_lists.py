"""Paging by cursor: every row appears once and in order, and a later page costs as much as the first one."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from domain.problems import InvalidRequest
from persistence import ledger_transactions, members, orders
from persistence.audit_log import AUDIT_LOG
from persistence.coupons import code_lists, codes, usages
from persistence.coupons.books import BOOKS
from persistence.coupons.code_lists import CouponFilter
from persistence.coupons.codes import COUPONS
from persistence.events import EVENTS
from persistence.keysets import Position, Sorting
from persistence.members import MEMBERS
from persistence.paging import Page, Paged
from persistence.tables.coupons import coupons
from persistence.tables.triggers import trigger_deliveries
from persistence.triggers import DELIVERIES, TRIGGERS
from tests.builders.ledger import START, RawLedger
from tests.builders.statements import count_statements, rows_read

# The number of rows that `filled_organization` has in most lists; about a third of its coupons never expires.
COUNT = 400
# A page with all rows of a list.
ALL = Page(page=0, limit=10**6)

# Few different values, so that many rows differ only by their ids, and nulls in all columns that allow them. Moments
# have microseconds, and decimals have more digits than a float.
_MOMENT = "timestamptz '2026-01-15 12:00+00' + n % 7 * interval '1.000001 seconds'"
_DECIMAL = "n % 5 * 10000000000000.000001"
_ADD_DELIVERIES = f"""
INSERT INTO trigger_deliveries (organization_id, trigger_id, type, payload, status, attempts, next_attempt_at,
    last_attempt_at, created_at, updated_at)
SELECT :organization, :trigger, 'type-' || n % 3, '{{}}', 'pending', n % 4, CASE WHEN n % 3 > 0 THEN {_MOMENT} END,
    CASE WHEN n % 2 > 0 THEN {_MOMENT} END, {_MOMENT}, {_MOMENT} FROM generate_series(1, :count) n
"""
_FILL = [
    f"""
WITH held AS (
    INSERT INTO wallets (organization_id, wallet_key, ledger_id, created_at)
    SELECT :organization, gen_random_uuid(), :ledger, now() FROM generate_series(1, :count) RETURNING *
)
INSERT INTO members (organization_id, loyalty_member_id, active, member_type, profile, wallet_id, wallet_key,
    created_at, updated_at)
SELECT :organization, 'member-' || n, n % 3 > 0, CASE WHEN n % 4 > 0 THEN '\u00e9 "' || n % 4 || '"\\ \U0001f600' END,
    CASE WHEN n % 2 = 0 THEN jsonb_build_object('email', 'e' || n % 9 || '@example.com') ELSE '{{}}' END,
    wallet_id, wallet_key, {_MOMENT}, {_MOMENT}
FROM (SELECT *, row_number() OVER () AS n FROM held) each
""",
    f"""
INSERT INTO events (organization_id, loyalty_event_key, member_id, event_type, system_unique_key, request_digest,
    external_event_date, payload, evaluation_status, status, limit_counters, result, created_at, updated_at)
SELECT :organization, gen_random_uuid(), :member, 'type-' || n % 3, 'event-' || n, '',
    CASE WHEN n % 3 > 0 THEN {_MOMENT} END, '{{}}', 1, 'completed', '{{}}', '{{}}', {_MOMENT}, {_MOMENT}
FROM generate_series(1, :count) n
""",
    f"""
INSERT INTO purchase_orders (organization_id, member_id, loyalty_event_id, event_ids, external_event_date, external_id,
    total, status, created_at, updated_at)
SELECT :organization, :member, 1, '{{1}}', CASE WHEN n % 3 > 0 THEN {_MOMENT} END, 'order-' || n, {_DECIMAL},
    'status-' || n % 3, {_MOMENT}, {_MOMENT} FROM generate_series(1, :count) n
""",
    f"""
INSERT INTO coupons (organization_id, coupon_book_id, position, code, total_assigned, expired_at, created_at,
    updated_at)
SELECT :organization, :book, n, 'code-' || n, {_DECIMAL}, CASE WHEN n % 3 > 0 THEN {_MOMENT} END, {_MOMENT}, {_MOMENT}
FROM generate_series(1, :count) n
""",
    f"""
INSERT INTO coupon_usages (organization_id, coupon_usage_key, coupon_id, coupon_book_id, member_id, system_unique_key,
    amount_used, amount_assigned, updated_total_usages, updated_total_assigned, amount_discounted, external_id,
    created_at, updated_at)
SELECT :organization, gen_random_uuid(), coupon_id, :book, :member, 'usage-' || n, {_DECIMAL}, -1 * {_DECIMAL}, 0, 0,
    CASE WHEN n % 3 > 0 THEN {_DECIMAL} END, CASE WHEN n % 2 > 0 THEN 'order-' || n % 5 END, {_MOMENT}, {_MOMENT}
FROM (SELECT coupon_id, position AS n FROM coupons WHERE organization_id = :organization) each
""",
    _ADD_DELIVERIES,
    f"""
INSERT INTO audit_log (organization_id, created_at, actor, operation_id, entity_type, entity_id, member_ids,
    personal_digest, digest)
SELECT :organization, {_MOMENT}, 'tester', 'updateMember', 'member', '1', '{{}}', '', ''
FROM generate_series(1, :count) n
""",
    # Each transaction has four entries, or none if its amount is 0.
    f"""
WITH t AS (
    INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,
        system_unique_key, external_event_date, to_wallet_id, created_at, updated_at)
    SELECT :organization, :account, 1, 1, {_DECIMAL}, 'minted-' || n, CASE WHEN n % 3 > 0 THEN {_MOMENT} END, :wallet,
        {_MOMENT}, {_MOMENT} FROM generate_series(1, :count) n RETURNING *
)
INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id, amount,
    updated_balance)
SELECT :organization, ledger_transaction_id, part, :account, CASE WHEN part < 3 THEN :wallet END,
    CASE WHEN part < 3 THEN 1 ELSE -3 END, 0
FROM t CROSS JOIN generate_series(0, 3) part WHERE amount > 0
""",
]


@dataclass(frozen=True)
class FilledOrganization:
    """An organization with many rows in every list; `lists` are functions that read a page of the list of that name."""

    db: Connection
    ids: dict[str, Any]
    lists: dict[str, Callable[[Page], Paged[Any]]]


@pytest.fixture(scope="module")
def filled_organization(engine) -> Iterator[FilledOrganization]:
    """An organization with 400 rows in every list, rolled back at the end."""
    with engine.connect() as db, db.begin() as transaction:
        # Without statistics the planner expects a row or two, and reads all entries again for each transaction.
        db.execute(text("SET LOCAL enable_nestloop = off"))
        yield _fill_lists(db, COUNT)
        transaction.rollback()


@pytest.fixture(scope="module")
def vast_organization(engine) -> Iterator[FilledOrganization]:
    """An organization with so many rows that the planner uses indexes, rolled back at the end."""
    with engine.connect() as db, db.begin() as transaction:
        lists_of_organization = _fill_lists(db, 10 * COUNT)
        db.execute(text(f"ANALYZE {', '.join(sorted({table for *_, tables in INDEXED for table in tables}))}"))
        # The planner may estimate that sorting a few thousand rows is cheaper than reading them in order.
        db.execute(text("SET LOCAL enable_sort = off"))
        yield lists_of_organization
        transaction.rollback()


def _fill_lists(db: Connection, count: int) -> FilledOrganization:
    ledger = RawLedger.new(db)
    organization_id, defaults = ledger.organization_id, ledger.organization
    empty_fields: dict[str, Any] = {name: {} for name in ("profile", "custom_attributes", "notifications", "on_chain")}
    ana = {"loyalty_member_id": "ana", "active": True, "wallet_key": str(uuid.uuid4()), **empty_fields}
    [(member, _)] = members.add_members(
        db, organization_id, [ana], ledger_id=defaults.ledger_id, loyalty_program_id=None, now=START
    )
    plain = {"publishing_status": "published", "name": "Book"}
    books = [
        BOOKS.add(db, organization_id, {"coupon_book_key": str(uuid.uuid4()), "type": kind, **plain}, START)
        for kind in ("list", "codeless", "codeless")
    ]
    values = {"trigger_key": str(uuid.uuid4()), "type": "event", "name": "Trigger", "active": True}
    trigger = TRIGGERS.add(db, organization_id, {**values, "settings": {}, "secret": ""}, START)
    ids = {
        "organization": organization_id,
        "ledger": defaults.ledger_id,
        "account": ledger.account_id,
        "member": member.member_id,
        "wallet": member.wallet_id,
        "book": books[0].coupon_book_id,
        "trigger": trigger.trigger_id,
        "count": count,
    }
    for statement in _FILL:
        db.execute(text(statement), ids)
    book = BOOKS.store(db, books[0], {"coupon_count": count}, START)
    for codeless_book in books[1:]:
        codes.add_codes(db, codeless_book, [None], START)
    return FilledOrganization(
        db,
        ids,
        {
            "members": lambda page: members.find_page(db, organization_id, query_of(page)),
            "events": lambda page: EVENTS.find_page(db, organization_id, query_of(page), member_id=member.member_id),
            "purchase orders": lambda page: orders.ORDERS.find_page(
                db, organization_id, query_of(page), member_id=member.member_id
            ),
            "coupons of a book": lambda page: codes.find_page_of_book(db, book, page),
            "coupons": lambda page: code_lists.find_page(db, organization_id, page, CouponFilter(), START),
            "expired coupons": lambda page: code_lists.find_page(
                db, organization_id, page, CouponFilter(expired=True), START + timedelta(days=1)
            ),
            "coupon usages": lambda page: usages.find_page(db, member, query_of(page), START),
            "audit log": lambda page: AUDIT_LOG.find_page(db, organization_id, query_of(page)),
            "deliveries": lambda page: DELIVERIES.find_page(
                db, organization_id, query_of(page), trigger_id=trigger.trigger_id
            ),
            "transactions of an account": lambda page: ledger_transactions.find_rows_of_account(
                db, organization_id, ledger.account_id, {}, page
            ),
            "transactions of a wallet": lambda page: ledger_transactions.find_rows_of_wallet(
                db, organization_id, member.wallet_id, {}, page
            ),
        },
    )


_OF_TRANSACTIONS = ("ledgerTransactionId", "externalEventDate", "amount", "createdAt", "updatedAt")
_OF_COUPONS = ("couponId", "code", "totalAssigned", "totalUsages", "expiredAt", "createdAt", "updatedAt")
COLUMNS: dict[str, Any] = {
    "members": ("memberId", "loyaltyMemberId", "active", "memberType", "email", "since", "createdAt", "updatedAt"),
    "events": ("loyaltyEventId", "externalEventDate", "eventType", "status", "createdAt", "updatedAt"),
    "purchase orders": ("orderId", "externalId", "externalEventDate", "total", "status", "createdAt", "updatedAt"),
    "coupons of a book": _OF_COUPONS,
    "coupons": _OF_COUPONS,
    "expired coupons": ("expiredAt",),
    "coupon usages": (
        *("couponUsageId", "couponBookId", "couponId", "amountUsed", "amountAssigned", "amountDiscounted"),
        *("externalId", "createdAt", "updatedAt"),
    ),
    "audit log": ("createdAt", "auditLogId"),
    "deliveries": (
        *("triggerDeliveryId", "type", "status", "attempts", "nextAttemptAt", "lastAttemptAt"),
        *("createdAt", "updatedAt"),
    ),
    "transactions of an account": _OF_TRANSACTIONS,
    "transactions of a wallet": _OF_TRANSACTIONS,
}
ORDERS = [
    (name, order)
    for name, columns in COLUMNS.items()
    for order in (None, *(f"{column}{direction}" for column in columns for direction in (",asc", ",desc")))
]


def query_of(page: Page) -> dict[str, Any]:
    """The parameters of the request for a page."""
    query = {"page": page.page, "limit": page.limit} if page.after is None else {"limit": page.limit}
    query |= {} if page.order is None else {"order": page.order}
    return query if page.after is None else {**query, "cursor": page.after.cursor}


def after(page: Paged[Any], limit: int, order: str | None = None) -> Page:
    """The page after `page`, as a client requests it by cursor."""
    assert page.next_cursor is not None
    query = {"cursor": page.next_cursor, "limit": limit}
    return Page.of(query if order is None else {**query, "order": order})


def read_all_pages(read: Callable[[Page], Paged[Any]], order: str | None, limits: Iterator[int]) -> list[Paged[Any]]:
    """All pages, each with the next of the limits: the first page by its number, the others by cursor."""
    pages = [read(Page(page=0, limit=next(limits), order=order))]
    while pages[-1].next is not None:
        pages.append(read(after(pages[-1], next(limits), order)))
    return pages


def random_limits(seed: object) -> Iterator[int]:
    """Endless numbers from 1 to 90, always the same for a seed."""
    chance = random.Random(repr(seed))
    while True:
        yield chance.randint(1, 90)


@contextmanager
def undone(db: Connection) -> Iterator[None]:
    """Roll back the changes of the block."""
    savepoint = db.begin_nested()
    try:
        yield
    finally:
        savepoint.rollback()


@pytest.mark.parametrize(("name", "order"), ORDERS)
def test_paging_by_cursor_returns_the_rows_of_one_large_page(filled_organization, name, order):
    read = filled_organization.lists[name]
    whole_page = read(replace(ALL, order=order))
    assert whole_page.total_count >= COUNT * 2 / 3
    with count_statements(filled_organization.db) as statements:
        pages = read_all_pages(read, order, random_limits((name, order)))
    assert [row for page in pages for row in page.results] == whole_page.results
    assert [page.page for page in pages] == list(range(len(pages)))
    assert {page.total_count for page in pages} == {whole_page.total_count}
    # OFFSET after LIMIT ALL only keeps the planner from joining rows (see `lateral_row`).
    assert sum(re.search(r"LIMIT (?!ALL)\S+ OFFSET", statement) is not None for statement in statements) <= 1
    assert sum(statement.startswith(("SELECT count(", "SELECT coalesce(sum(")) for statement in statements) <= 1


@pytest.mark.parametrize("name", COLUMNS)
def test_the_last_page_has_no_cursor_even_if_it_is_full(filled_organization, name):
    read = filled_organization.lists[name]
    total = read(ALL).total_count
    assert read(Page(page=0, limit=total)).next is None
    half = total // 2
    first_half = read(Page(page=0, limit=half))
    assert read(after(first_half, limit=total - half)).next is None
    # A second page that ends one row before the end has a cursor, to a page of one row.
    second_page = read(after(first_half, limit=total - half - 1))
    assert len(read(after(second_page, limit=5)).results) == 1


@pytest.mark.parametrize("name", COLUMNS)
def test_paging_may_begin_at_any_page(filled_organization, name):
    read = filled_organization.lists[name]
    page_3 = read(Page(page=3, limit=20))
    assert read(after(page_3, limit=20)) == read(Page(page=4, limit=20))
    # A page after the end of the list.
    assert read(Page(page=10**4, limit=20)).next is None


@pytest.mark.slow
@pytest.mark.parametrize("order", [None, "triggerDeliveryId,asc", "createdAt,desc", "nextAttemptAt", "attempts,desc"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_that_are_added_or_removed_during_paging_do_not_move_the_others(filled_organization, order, data):
    db, ids, read = filled_organization.db, filled_organization.ids, filled_organization.lists["deliveries"]

    def limit() -> int:
        return data.draw(st.integers(30, 200))

    with undone(db):
        ids_before = [row.trigger_delivery_id for row in read(replace(ALL, order=order)).results]
        ids_removed_before_read: set[int] = set()
        pages = [read(Page(page=0, limit=limit(), order=order))]
        while pages[-1].next is not None:
            if data.draw(st.booleans()):
                db.execute(text(_ADD_DELIVERIES), {**ids, "count": data.draw(st.integers(1, 40))})
            # Also remove the row that the cursor is made of.
            row_of_cursor = pages[-1].results[-1]
            removed_ids = {row_of_cursor.trigger_delivery_id, *data.draw(st.sets(st.sampled_from(ids_before)))}
            db.execute(
                trigger_deliveries.delete().where(
                    trigger_deliveries.c.organization_id == ids["organization"],
                    trigger_deliveries.c.trigger_delivery_id.in_(removed_ids),
                )
            )
            read_ids = {row.trigger_delivery_id for page in pages for row in page.results}
            ids_removed_before_read |= removed_ids - read_ids
            pages.append(read(after(pages[-1], limit(), order)))
        delivery_ids = [row.trigger_delivery_id for page in pages for row in page.results]
        assert len(delivery_ids) == len(set(delivery_ids))
        # The rows that existed before are in their order, whatever was added between them.
        former_ids = [delivery_id for delivery_id in delivery_ids if delivery_id in set(ids_before)]
        assert former_ids == [delivery_id for delivery_id in ids_before if delivery_id not in ids_removed_before_read]


# Lists, each with an order (None: the default) that an index supports, and the tables that the list reads.
INDEXED = [
    ("members", None, ["members"]),
    ("members", "loyaltyMemberId,desc", ["members"]),
    ("events", None, ["events"]),
    ("purchase orders", "orderId,asc", ["purchase_orders"]),
    ("coupons of a book", None, ["coupons"]),
    ("coupons of a book", "code,desc", ["coupons"]),
    ("coupons", None, ["coupons"]),
    ("coupon usages", None, ["coupon_usages"]),
    ("audit log", None, ["audit_log"]),
    ("deliveries", None, ["trigger_deliveries"]),
    ("transactions of an account", None, ["ledger_transactions"]),
    ("transactions of a wallet", None, ["ledger_transactions", "ledger_entries"]),
    ("transactions of a wallet", "ledgerTransactionId,asc", ["ledger_transactions", "ledger_entries"]),
]


@pytest.mark.undistributed
@pytest.mark.parametrize(("name", "order", "tables"), INDEXED)
def test_a_page_in_the_middle_of_a_list_reads_as_few_rows_as_the_second_page(vast_organization, name, order, tables):
    db, read = vast_organization.db, vast_organization.lists[name]
    first_page = read(Page(page=0, limit=5, order=order))
    if name.startswith("transactions"):
        # Reading half of the transactions would take long; their ids have no gaps, so the cursor can be computed.
        assert first_page.next is not None
        # The id comes first in the position; without an order, the newest transaction is first.
        first_id, *other_values = first_page.next.last
        id_in_the_middle = first_id + 5 * COUNT if order else first_id - 5 * COUNT
        first_half = replace(first_page, next=replace(first_page.next, last=[id_in_the_middle, *other_values]))
    else:
        # The organization has 10 * COUNT rows in each list.
        first_half = read(Page(page=0, limit=5 * COUNT, order=order))
    page_in_the_middle, second_page = after(first_half, 5, order), after(first_page, 5, order)

    def cost(page: Page) -> int:
        """The rows of the tables that are read for the page, which has 5 results."""
        before = sum(rows_read(db, table) for table in tables)
        assert len(read(page).results) == 5
        return sum(rows_read(db, table) for table in tables) - before

    # The plan depends on the other rows of the database, but it never reads all the rows before the page.
    assert cost(page_in_the_middle) <= cost(second_page) + COUNT


AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
# The values that columns of each type can have, by the column.
VALUES_OF_COLUMNS: dict[str, Any] = {
    "couponId": st.integers(-(2**63), 2**63 - 1),
    "attempts": st.integers(-(2**15), 2**15 - 1),
    "active": st.booleans(),
    "code": st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    "totalUsages": st.decimals(allow_nan=False, allow_infinity=False, places=6),
    "expiredAt": st.none() | st.datetimes(timezones=st.just(UTC)),
}
SORTINGS = {
    name: Sorting(coupons.c.coupon_id, by)
    for name, by in {
        **{name: COUPONS.order_columns[name] for name in _OF_COUPONS},
        "attempts": trigger_deliveries.c.attempts,
        "active": MEMBERS.table.c.active,
    }.items()
}


@given(data=st.data())
def test_a_cursor_preserves_values_exactly(data):
    name = data.draw(st.sampled_from(sorted(VALUES_OF_COLUMNS)))
    value, row_id, sorting = data.draw(VALUES_OF_COLUMNS[name]), 7, SORTINGS[name]
    cursor = sorting.position([value, row_id], "code,asc", page=3, total_count=1000).cursor
    position = Position.from_cursor(cursor)
    assert (position.order, position.page, position.total_count) == ("code,asc", 3, 1000)
    # The statement for the rows after the cursor compares with the same values, except a null.
    first_section = next(iter(sorting.sections_after(position, limit=5)))
    params = [*first_section.conditions[-1].compile().params.values()]
    assert params == ([row_id] if value is None else [value, row_id])
    if isinstance(value, Decimal):
        assert str(params[0]) == str(value)


def test_the_longest_cursor_has_at_most_4000_characters():
    # An email address is the longest text that a list is ordered by; JSON escapes this character with 6.
    longest_position = Position(
        "members.member_id",
        "email,desc",
        page=2**31 - 1,
        total_count=2**63 - 1,
        last=["\x01" * 320, 2**63 - 1],
        rows_before=2**63 - 1,
    )
    assert len(longest_position.cursor) <= 4000


# Values that columns of each type cannot have, by the column.
HOSTILE: dict[str, list[Any]] = {
    "couponId": [None, True, "1", 1.0, 2**63, -(2**63) - 1, [], {}],
    "attempts": [2**15, -(2**15) - 1, 2**40],
    "active": [None, 1, 0, "true"],
    "code": [1, True, "\0", "a\0b", "\ud800", [], {}],
    "totalUsages": [
        *(None, 1, 1.5, "", "x", "NaN", "sNaN", "Infinity", "-Infinity", "1E+999999999999999999999", "1E+9999"),
        *("1E-9999", "0E+5000", "1_000", "\u0661", " 1", "+1", "1e5", "9" * 1500),
    ],
    "expiredAt": [
        *(1, "", "x", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00"),
        *("infinity", "0000-01-01T00:00:00+00:00", "10000-01-01T00:00:00+00:00", "0001-01-01T00:00:00+23:00"),
        *("2026-W01-1T00:00:00+00:00", "2026-01-02T03:04:05.0000001+00:00"),
    ],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in HOSTILE.items() for value in values])
def test_a_value_that_a_column_cannot_have_is_refused(name, value):
    sorting = SORTINGS[name]
    position = Position(sorting.listing, order=name, page=1, total_count=1, last=[value, 7])
    with pytest.raises(InvalidRequest):
        list(sorting.sections_after(position, limit=5))


# Right would be a moment and an id.
@pytest.mark.parametrize("last", [[], [7], [AT.isoformat(), None], [AT.isoformat(), 7, 7], [[7], 7]])
def test_a_cursor_whose_values_do_not_match_the_columns_is_refused(last):
    sorting = SORTINGS["createdAt"]
    position = Position(sorting.listing, "createdAt,asc", page=1, total_count=1, last=last)
    with pytest.raises(InvalidRequest):
        list(sorting.sections_after(position, limit=5))


def test_the_cursor_of_one_list_is_refused_by_another(filled_organization):
    # "expired coupons" is no other list: it is the list "coupons" with a filter, and accepts the cursors of that list.
    lists = {name: read for name, read in filled_organization.lists.items() if name != "expired coupons"}
    for name, read in lists.items():
        page = read(Page(page=0, limit=5))
        for other_name in lists.keys() - {name}:
            with pytest.raises(InvalidRequest):
                lists[other_name](after(page, limit=5))


# Values of which a client could make a cursor.
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    # A cursor is UTF-8, which cannot encode surrogates.
    | st.sampled_from([value for values in HOSTILE.values() for value in values if value != "\ud800"])
    | st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat)
    | st.decimals().map(str)
)


@pytest.mark.slow
@settings(
    max_examples=3 * settings.default.max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(ORDERS), st.data())
def test_a_forged_cursor_is_read_or_refused(filled_organization, of_list, data):
    name, order = of_list
    read = filled_organization.lists[name]
    position = read(Page(page=0, limit=1, order=order)).next
    forged_values = [data.draw(st.just(value) | VALUES) for value in position.last]
    forged_position = Position(position.listing, position.order, page=1, total_count=1, last=forged_values)
    try:
        page = read(Page(page=1, limit=5, order=order, after=forged_position))
    except InvalidRequest:
        return
    assert len(page.results) <= 5
