"""Every column about members is emptied when the member is erased, or is listed here with the reason why it stays."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)

from persistence import erased_rows, erasing
from persistence.tables import metadata
from persistence.tables.base import personal

# Numbers, keys and moments do not identify a person; the figures have to stay.
IMPERSONAL_TYPES = (BigInteger, Boolean, DateTime, Integer, Numeric, SmallInteger, Uuid)

REQUEST_KEY = "lets the server recognize a repeated request"
CALLER = "names the caller, who is a user, a partner or a job"
OF_PRODUCT = "is about the product, the configuration or the operation"
TAG = "reports add up tags of transactions"
STATE = "is one of a few words that the product defines"
DIGEST = "is of a text under a salt that is erased"

# The columns that stay, each with the reason.
STAYING = {
    **{
        f"{table}.system_unique_key": REQUEST_KEY
        for table in (
            "badge_trackings",
            "coupon_usages",
            "events",
            "ledger_transactions",
            "member_tier_trackings",
            "mission_trackings",
            "referral_logs",
        )
    },
    "partner_payments.payment_id": REQUEST_KEY,
    "coupon_locks.system_unique_key": REQUEST_KEY,
    "offline_allowances.redemption_key": REQUEST_KEY,
    "expiry_extensions.system_unique_key": REQUEST_KEY,
    "expiry_extensions.request_digest": "is of ids, moments and numbers",
    "expiry_extensions.status": STATE,
    "points_payments.currency": OF_PRODUCT,
    "audit_log.actor": CALLER,
    "audit_log.token_id": CALLER,
    "events.actor": CALLER,
    "mission_trackings.actor": CALLER,
    "audit_log.request_id": "leads to the lines of the server's own log",
    "events.e2e_tracking_id": "leads to the lines of the server's own log",
    "audit_log.surface": OF_PRODUCT,
    "audit_log.operation_id": OF_PRODUCT,
    "audit_log.entity_type": OF_PRODUCT,
    "audit_log.entity_id": "is the id of a record, the number of a member",
    "audit_log.member_ids": "are numbers of members",
    "audit_log.personal_digest": DIGEST,
    "audit_log.digest": "is of the columns that stay and of personal_digest",
    "events.event_type": OF_PRODUCT,
    "events.limit_counters": "are numbers of campaigns and amounts",
    "events.cooldown_campaign_ids": "are numbers of campaigns",
    "member_tier_trackings.tier_hold": STATE,
    "purchase_orders.status": STATE,
    "purchase_orders.event_ids": "are numbers of events",
    "purchase_orders.currency": "is a currency",
    "ledger_transactions.tags": TAG,
    "ledger_transactions.fiat_currency": "is a currency",
    "report_changes.kind": STATE,
    "report_changes.label": OF_PRODUCT,
    "report_changes.tags": TAG,
    "report_wallet_totals.label": TAG,
    "order_items.product_code": "reports add up products",
    "order_items.category_code": "reports add up categories",
    "campaign_limit_counters.type": STATE,
    "campaign_limit_counters.period": STATE,
    "campaign_limit_counters.period_start": "is the first day of a period of a campaign",
    "campaign_limit_counters.shared_key": "is a text of campaigns",
    "campaign_limit_counters.location": "is the code of a store, of all its members together",
    "campaign_limit_counters.alerts": "are shares of limits of campaigns",
}


def is_about_members(table: Table) -> bool:
    """True if rows of the table belong to members, or to their wallets or orders."""
    names = {column.name for column in table.c}
    targets = {key.column.table.name for key in table.foreign_keys}
    return any("member_id" in name or "wallet_id" in name for name in names) or "purchase_orders" in targets


TABLES = {table.name: table for table in metadata.sorted_tables if is_about_members(table)}


def erased_columns(statements: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Pairs of a table and a column that the statements change, or of a table and `*` if they delete rows."""
    for statement in statements:
        yield from ((table, "*") for table in re.findall(r"DELETE FROM (\w+)", statement))
        for table, changes in re.findall(r"UPDATE (\w+)(?: \w)? SET (.*)", statement, re.DOTALL):
            # Names before `=` at the start of an assignment, not in comparisons within its value.
            yield from ((table, name) for name in re.findall(r"(?:^|,)\s*(\w+) = ", changes))


OWN_STATEMENTS = (
    *erasing._OWN_RECORDS,
    *(statement for rows in erased_rows.OWN_ROWS for statement in rows.statements),
    erasing._REPLACE_REFERRAL_CODES,
    erasing._EMPTY_ENTRIES,
    erasing._ERASE_MEMBER,
    erasing._FINISH,
)
USES = tuple(statement for rows in erased_rows.USES_OF_REFERRAL_CODES for statement in rows.statements)
# The other tables with uses of the member's codes have records of other members.
LOGS = {pair for pair in erased_columns(USES) if pair[0] == "referral_logs"}
ERASED = set(erased_columns(OWN_STATEMENTS)) | LOGS


def is_erased(column: Column[object]) -> bool:
    return not ERASED.isdisjoint({(column.table.name, column.name), (column.table.name, "*")})


def test_the_checked_tables_include_the_tables_about_members():
    assert {"members", "events", "order_items", "ledger_transactions", "referral_codes", "audit_log"} <= TABLES.keys()


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_erased_or_stays_for_a_reason(table):
    undecided = [
        column.name
        for column in TABLES[table].c
        if column.computed is None
        and not isinstance(column.type, IMPERSONAL_TYPES)
        and not is_erased(column)
        and f"{table}.{column.name}" not in STAYING
    ]
    assert undecided == []


def test_exactly_the_columns_that_are_marked_as_personal_are_erased():
    marked_columns = {
        (table.name, column.name)
        for table in metadata.sorted_tables
        for column in table.c
        if column.info.get("personal")
    }
    not_erased = {(table, name) for table, name in marked_columns if not is_erased(metadata.tables[table].c[name])}
    not_marked = {
        (table, name)
        for table, name in ERASED - marked_columns
        if name != "*" and not isinstance(metadata.tables[table].c[name].type, IMPERSONAL_TYPES)
    }
    assert len(marked_columns) > 50
    # Erasing changes the status of waiting events to failed; it is not personal. Of the terms for which points wait, it
    # replaces only the external id of the order.
    assert (not_erased, not_marked) == (set(), {("events", "status"), ("ledger_transactions", "available_on")})


def test_a_personal_column_is_emptied_by_its_type_unless_a_value_is_given():
    table = Table(
        "shoes",
        MetaData(),
        personal(Column("colour", Text)),
        personal(Column("laces", ARRAY(Text), nullable=False, server_default=text("'{}'"))),
        personal(Column("owner", Text, nullable=False)),
        personal(Column("digest", LargeBinary)),
        Column("size", BigInteger),
    )
    assert erased_rows.emptying_assignments(table, "s", owner="'nobody'", size="0") == (
        "colour = NULL, laces = '{}', owner = 'nobody',"
        " digest = CASE WHEN s.digest IS NULL THEN NULL ELSE CAST('' AS bytea) END, size = 0"
    )
    # Owner is not nullable and has no default, so that it needs a value.
    with pytest.raises(TypeError, match=r"shoes\.owner"):
        erased_rows.emptying_assignments(table, "s")


def test_every_listed_column_exists_and_is_not_erased():
    listed_columns = [(place, *place.split(".")) for place in STAYING]
    unknown_places = [
        place for place, table, name in listed_columns if table not in TABLES or name not in TABLES[table].c
    ]
    erased_places = [place for place, table, name in listed_columns if is_erased(TABLES[table].c[name])]
    assert (unknown_places, erased_places) == ([], [])


def test_a_personal_column_that_erasing_keeps_is_found():
    column = Column("shoe_size", Text)
    Table("members", MetaData(), column)
    assert not is_erased(column)
    assert not isinstance(column.type, IMPERSONAL_TYPES)
