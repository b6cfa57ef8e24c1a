"""Queries of exports: pages of rows, ordered by id, each with one statement; members are in `exported_members`.

The first column of a row is the id after which the next page begins; the others have the form of the written values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from domain.exports import (
    AUDIT_LOG,
    COUPON_BOOK_ID,
    COUPON_USAGES,
    CREATED_FROM,
    CREATED_TO,
    EVENT_RESULTS,
    EVENT_TYPE,
    LEDGER_ACCOUNT_ID,
    LEDGER_TRANSACTIONS,
    MEMBER_ID,
)
from domain.fields import wire_name
from domain.imports.export_keys import BADGE_PATTERN, COUPON_PATTERN, PREFIX
from domain.imports.records import AUDIENCE_MEMBERS, BADGES, COUPON_CODES, COUPONS, EVENTS, MISSION_PROGRESS
from domain.ledger.records import TRANSACTION_TYPES
from persistence.connections import stream

# A row may have about a megabyte, and needs a multiple of that in memory.
ROWS_IN_MEMORY = 20

# The types of the values of filters.
_FILTERS = {
    CREATED_FROM: "timestamptz",
    CREATED_TO: "timestamptz",
    MEMBER_ID: "bigint",
    EVENT_TYPE: "text",
    LEDGER_ACCOUNT_ID: "bigint",
    COUPON_BOOK_ID: "bigint",
}


def filter_conditions(conditions: Mapping[str, str]) -> str:
    """The SQL conditions of filters, by the name of the filter; a filter without a value has no effect."""
    return "".join(
        f" AND (%({name})s::{_FILTERS[name]} IS NULL OR {condition})" for name, condition in conditions.items()
    )


def creation_filters(column: str) -> dict[str, str]:
    """The conditions of the filters by the time of creation, which is in this column."""
    return {CREATED_FROM: f"{column} >= %({CREATED_FROM})s", CREATED_TO: f"{column} < %({CREATED_TO})s"}


_OF_MEMBER = {MEMBER_ID: f"t.member_id = %({MEMBER_ID})s"}
_OF_TYPE = {EVENT_TYPE: f"t.event_type = %({EVENT_TYPE})s"}
_OF_BOOK = {COUPON_BOOK_ID: f"t.coupon_book_id = %({COUPON_BOOK_ID})s"}
# By the entries of the member's wallet, which an index leads to.
_TRANSACTION_OF_MEMBER = f"""t.ledger_transaction_id IN (
    SELECT e.ledger_transaction_id FROM ledger_entries e
    JOIN members w ON w.organization_id = e.organization_id AND w.wallet_id = e.wallet_id
    WHERE e.organization_id = %(organization_id)s AND w.member_id = %({MEMBER_ID})s
)"""

# A page has all rows `h` of its members; `limit` is the number of members. See `_rows` for MATERIALIZED.
_OF_MEMBERS = """
WITH page AS MATERIALIZED (
    SELECT DISTINCT h.member_id FROM {table} h JOIN members m USING (organization_id, member_id)
    WHERE h.organization_id = %(organization_id)s AND h.member_id > %(after)s AND {condition}
        AND m.erased_at IS NULL{filters}
    ORDER BY h.member_id LIMIT %(limit)s
)
SELECT m.member_id, m.loyalty_member_id, {columns}
FROM page JOIN members m ON m.organization_id = %(organization_id)s AND m.member_id = page.member_id
JOIN {table} h ON h.organization_id = m.organization_id AND h.member_id = m.member_id AND {condition}
JOIN {joined}
ORDER BY m.member_id, 3
"""
_HELD_BY_MEMBER = filter_conditions({MEMBER_ID: f"h.member_id = %({MEMBER_ID})s"})
_TYPES = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(TRANSACTION_TYPES))


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """The query of a kind of export: the names of the columns that follow the id, and the statement of a page."""

    columns: tuple[str, ...]
    statement: str


def _rows(
    columns: Mapping[str, str],
    table: str,
    joined: str,
    id_column: str,
    changed_at: str,
    condition: str = "true",
    filters: Mapping[str, str] = {},
) -> RowsQuery:
    """The query of rows `t` of a table; `columns` are expressions by name, `changed_at` is the time of the last change.

    `condition` is a condition on `t`; `filters` has the conditions of the filters of the export, by name, except those
    of the filters by time, which every kind has. MATERIALIZED lets the page be read by id before its rows are joined:
    the planner expects that an organization has few rows, and would join all of its rows for each page.
    """
    return RowsQuery(
        tuple(columns),
        f"WITH page AS MATERIALIZED (SELECT t.* FROM {table} t"
        f" WHERE t.organization_id = %(organization_id)s AND t.{id_column} > %(after)s AND {condition}"
        f" AND (%(updated_from)s::timestamptz IS NULL OR {changed_at} >= %(updated_from)s)"
        f"{filter_conditions({**creation_filters('t.created_at'), **filters})}"
        f" ORDER BY t.{id_column} LIMIT %(limit)s)"
        f" SELECT t.{id_column}, {', '.join(columns.values())} FROM page t {joined} ORDER BY t.{id_column}",
    )


def _plain_columns(*names: str) -> dict[str, str]:
    """Columns of the table `t`, by their API names."""
    return {wire_name(name): f"t.{name}" for name in names}


# Events that the server emitted without a reason: another event caused them, or their key has their loyaltyEventKey.
_BY_SERVER = (
    "(t.cause_loyalty_event_id IS NOT NULL"
    " OR t.system_unique_key = t.event_type || '-' || CAST(t.loyalty_event_key AS text))"
)
# Joins with a constant organization, so that a cluster of Citus executes the whole statement on one node.
_MEMBER_OF = "JOIN members m ON m.organization_id = %(organization_id)s AND m.member_id = t.member_id"
_NOT_ERASED = """(
    SELECT m.erased_at FROM members m WHERE m.organization_id = %(organization_id)s AND m.member_id = t.member_id
) IS NULL"""
_SPONSOR_OF = "LEFT JOIN members s ON s.organization_id = %(organization_id)s AND s.member_id = t.sponsor_member_id"
_BOOK_OF = "JOIN coupon_books b ON b.organization_id = %(organization_id)s AND b.coupon_book_id = t.coupon_book_id"
_COUPON_OF = "JOIN coupons c ON c.organization_id = %(organization_id)s AND c.coupon_id = t.coupon_id"
_ASSIGNMENT_OF = (
    "JOIN coupon_usages u ON u.organization_id = %(organization_id)s AND u.coupon_usage_id = t.coupon_lot_id"
)
_LOYALTY_MEMBER_ID = {"loyaltyMemberId": "m.loyalty_member_id"}
# Records are identified by name, which other organizations understand too, and by key if several share a name.
_CALLED = """(
    WITH called AS MATERIALIZED (
        SELECT {0}_id, {0}_key,
            CASE WHEN name IS NULL OR count(*) OVER (PARTITION BY name) > 1 THEN {0}_key::text ELSE name END AS called
        FROM {0}s WHERE organization_id = %(organization_id)s
    )
    SELECT * FROM called
) {1}"""
_CALLED_BOOK = f"JOIN {_CALLED.format('coupon_book', 'b')} ON b.coupon_book_id = t.coupon_book_id"
_BOOK = {"couponBook": "b.called"}

# The key by which the first badges were imported from another organization, else a new one; see `export_keys`.
_BADGE_KEY = f"""coalesce((
    SELECT t.system_unique_key FROM badge_trackings t
    WHERE t.organization_id = %(organization_id)s AND t.member_id = h.member_id AND t.badge_id = h.badge_id
        AND substring(t.system_unique_key FROM '{BADGE_PATTERN}') NOT IN (
            SELECT badge_key::text FROM badges WHERE organization_id = %(organization_id)s
        )
    ORDER BY t.badge_tracking_id LIMIT 1
), '{PREFIX}' || b.badge_key || '-' || h.member_id)"""

# The code or the name of a mission, which other organizations understand too, or its key if another mission has them.
_OTHER_MISSION = """EXISTS (
    SELECT FROM missions o WHERE o.organization_id = %(organization_id)s AND o.mission_id <> b.mission_id
        AND (o.code = {0} OR o.name = {0})
)"""
_MISSION = f"""CASE WHEN b.code IS NOT NULL AND NOT {_OTHER_MISSION.format("b.code")} THEN b.code
    WHEN {_OTHER_MISSION.format("b.name")} THEN b.mission_key::text ELSE b.name END"""
# The count that `Progress.towards` and `Progress.counter` compute, except after reversals, which a row cannot
# describe. If only a reward was reversed, `counted` already reaches the next goal: the next count will achieve it, so
# the exported count is one less than the goal. If only counts were reversed, `counted` is less than the achieved goals
# need, and the exported count is 0.
_COUNT = """
CROSS JOIN LATERAL (SELECT CASE WHEN h.goal_count = b.goal_count THEN h.counted ELSE h.times_achieved
    * b.goal_count + least(h.counted - h.times_achieved * h.goal_count, b.goal_count - 1) END AS counted) p
CROSS JOIN LATERAL (SELECT CASE WHEN p.counted >= (h.times_achieved + 1) * b.goal_count THEN b.goal_count - 1
    WHEN p.counted < h.times_achieved * b.goal_count OR p.counted = 0 THEN 0
    ELSE (p.counted - 1) %% b.goal_count + 1 END AS count) c"""

QUERIES: Mapping[str, RowsQuery] = {
    COUPON_CODES: _rows(
        {**_BOOK, **_plain_columns("code")},
        "coupons",
        _CALLED_BOOK,
        id_column="coupon_id",
        changed_at="t.updated_at",
        condition="t.code IS NOT NULL",
        filters=_OF_BOOK,
    ),
    COUPONS: _rows(
        {
            **_LOYALTY_MEMBER_ID,
            **_BOOK,
            "code": "c.code",
            "amount": "t.amount - t.amount_used",
            "remainingValue": "t.remaining_value",
            "expiresAt": "t.expired_at",
            "couponData": "nullif(t.custom_attributes, '{}')",
            "systemUniqueKey": f"CASE WHEN u.system_unique_key ~ '{COUPON_PATTERN}' THEN u.system_unique_key"
            f" ELSE '{PREFIX}' || u.coupon_usage_key END",
        },
        "coupon_lots",
        f"{_MEMBER_OF} {_CALLED_BOOK} {_COUPON_OF} {_ASSIGNMENT_OF}",
        id_column="coupon_lot_id",
        changed_at="t.updated_at",
        condition=f"t.amount > t.amount_used AND (t.expired_at IS NULL OR t.expired_at > %(now)s) AND {_NOT_ERASED}",
        filters={**_OF_MEMBER, **_OF_BOOK},
    ),
    BADGES: RowsQuery(
        ("loyaltyMemberId", "badge", "amount", "systemUniqueKey"),
        _OF_MEMBERS.format(
            table="member_badges",
            condition="h.assigned_balance > 0"
            " AND (%(updated_from)s::timestamptz IS NULL OR h.updated_at >= %(updated_from)s)",
            columns=f"b.called, h.assigned_balance, {_BADGE_KEY}",
            joined=f"{_CALLED.format('badge', 'b')} ON b.badge_id = h.badge_id",
            filters=_HELD_BY_MEMBER,
        ),
    ),
    AUDIENCE_MEMBERS: RowsQuery(
        ("loyaltyMemberId", "audience"),
        _OF_MEMBERS.format(
            table="audience_members",
            condition="(%(updated_from)s::timestamptz IS NULL OR h.created_at >= %(updated_from)s)",
            columns="a.called",
            joined=f"{_CALLED.format('audience', 'a')} ON a.audience_id = h.audience_id",
            filters=_HELD_BY_MEMBER,
        ),
    ),
    MISSION_PROGRESS: RowsQuery(
        ("loyaltyMemberId", "mission", "count", "timesAchieved"),
        _OF_MEMBERS.format(
            table="member_missions",
            condition="(h.counted > 0 OR h.times_achieved > 0)"
            " AND (%(updated_from)s::timestamptz IS NULL OR h.updated_at >= %(updated_from)s)",
            columns=f"{_MISSION}, c.count, h.times_achieved",
            joined=f"missions b ON b.organization_id = h.organization_id AND b.mission_id = h.mission_id {_COUNT}",
            filters=_HELD_BY_MEMBER,
        ),
    ),
    EVENTS: _rows(
        {
            **_LOYALTY_MEMBER_ID,
            **_plain_columns("event_type", "payload", "external_event_date"),
            "sponsorLoyaltyMemberId": "s.loyalty_member_id",
            **_plain_columns("external_id", "description", "tags", "system_unique_key"),
        },
        "events",
        f"{_MEMBER_OF} {_SPONSOR_OF}",
        id_column="loyalty_event_id",
        changed_at="t.updated_at",
        condition=f"t.reason IS NULL AND NOT {_BY_SERVER} AND t.status = 'success' AND {_NOT_ERASED}",
        filters={**_OF_MEMBER, **_OF_TYPE},
    ),
    EVENT_RESULTS: _rows(
        {
            **_plain_columns("loyalty_event_id"),
            "loyaltyEventKey": "t.loyalty_event_key::text",
            **_plain_columns("member_id"),
            **_LOYALTY_MEMBER_ID,
            "sponsorLoyaltyMemberId": "s.loyalty_member_id",
            **_plain_columns(
                "event_type", "system_unique_key", "external_id", "external_event_date", "description", "reason", "tags"
            ),
            **_plain_columns("payload", "status", "evaluation_status", "last_error", "limit_discarded_total_amount"),
            **_plain_columns("reverted_loyalty_event_id", "reversal_loyalty_event_id", "cause_loyalty_event_id"),
            "result": "nullif(t.result::jsonb, 'null')",
            **_plain_columns("created_at", "updated_at"),
        },
        "events",
        f"{_MEMBER_OF} {_SPONSOR_OF}",
        id_column="loyalty_event_id",
        changed_at="t.updated_at",
        filters={**_OF_MEMBER, **_OF_TYPE},
    ),
    LEDGER_TRANSACTIONS: _rows(
        {
            **_plain_columns("ledger_transaction_id"),
            "ledgerAccountKey": "a.ledger_account_key::text",
            "transactionType": f"CASE t.transaction_type {_TYPES} END",
            **_plain_columns("status", "amount", "from_wallet_id"),
            "fromLoyaltyMemberId": '"from".loyalty_member_id',
            **_plain_columns("to_wallet_id"),
            "toLoyaltyMemberId": '"to".loyalty_member_id',
            **_plain_columns("system_unique_key", "external_id", "external_event_date", "description", "tags"),
            **_plain_columns(
                "loyalty_event_id", "is_expiry", "reverted_ledger_transaction_id", "reversal_ledger_transaction_id"
            ),
            **_plain_columns("fiat_value", "fiat_gross_amount", "fiat_currency", "created_at", "updated_at"),
        },
        "ledger_transactions",
        "JOIN ledger_accounts a ON a.organization_id = %(organization_id)s"
        " AND a.ledger_account_id = t.ledger_account_id"
        ' LEFT JOIN members "from" ON "from".organization_id = %(organization_id)s'
        ' AND "from".wallet_id = t.from_wallet_id'
        ' LEFT JOIN members "to" ON "to".organization_id = %(organization_id)s AND "to".wallet_id = t.to_wallet_id',
        id_column="ledger_transaction_id",
        changed_at="t.updated_at",
        filters={
            MEMBER_ID: _TRANSACTION_OF_MEMBER,
            LEDGER_ACCOUNT_ID: f"t.ledger_account_id = %({LEDGER_ACCOUNT_ID})s",
        },
    ),
    COUPON_USAGES: _rows(
        {
            **_plain_columns("coupon_usage_id"),
            "couponUsageKey": "t.coupon_usage_key::text",
            "couponBookKey": "b.coupon_book_key::text",
            "code": "c.code",
            **_plain_columns("member_id"),
            **_LOYALTY_MEMBER_ID,
            **_plain_columns("amount_assigned", "amount_used", "updated_total_assigned", "updated_total_usages"),
            **_plain_columns("amount_discounted", "system_unique_key", "external_id", "description", "tags"),
            **_plain_columns("custom_attributes", "ledger_transaction_id", "loyalty_event_id"),
            **_plain_columns("reversal_usage_id", "reverted_usage_id", "created_at", "updated_at"),
        },
        "coupon_usages",
        f"{_MEMBER_OF} {_BOOK_OF} {_COUPON_OF}",
        id_column="coupon_usage_id",
        changed_at="t.updated_at",
        filters={**_OF_MEMBER, **_OF_BOOK},
    ),
    AUDIT_LOG: _rows(
        _plain_columns(
            *("audit_log_id", "created_at", "actor", "user_id", "token_id", "surface", "operation_id", "request_id"),
            *("entity_type", "entity_id", "member_ids", "reason", "changes", "test_clock"),
        ),
        "audit_log",
        "",
        id_column="audit_log_id",
        changed_at="t.created_at",
        filters={MEMBER_ID: f"t.member_ids @> ARRAY[%({MEMBER_ID})s::bigint]"},
    ),
}


@dataclass(frozen=True, slots=True)
class ExportRange:
    """Selects the rows of an export: after the id `after`, changed at `updated_from` or later, and by filters.

    If `updated_from` is None, rows of all times are selected. What has expired by `now` is not exported.
    """

    organization_id: int
    after: int = 0
    updated_from: datetime | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def values(self, after: int, limit: int) -> dict[str, Any]:
        """The values for the parameters of the statement that reads a page of `limit` rows."""
        return {
            **dict.fromkeys(_FILTERS),
            **self.filters,
            "organization_id": self.organization_id,
            "now": self.now,
            "updated_from": self.updated_from,
            "after": after,
            "limit": limit,
        }


def find_next_rows(
    db: Connection, kind: str, export_range: ExportRange, after: int, limit: int
) -> Iterable[Sequence[Any]]:
    """The next rows of a kind after an id: the id, then the columns."""
    return stream(db, QUERIES[kind].statement, export_range.values(after, limit), ROWS_IN_MEMORY)


def begin_snapshot(db: Connection) -> None:
    """Let all queries of this transaction see the records as of its first query; to be called before that query."""
    db.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # The transaction is idle while the worker writes steps of other organizations' exports.
    db.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout TO '10min'")
    # The planner expects that a tenth of the rows of a cursor is read, but an export reads all of them.
    db.exec_driver_sql("SET LOCAL cursor_tuple_fraction TO 1")
