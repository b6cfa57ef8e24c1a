"""Data for reports: totals by time, and changes that are not in the totals yet.

When a record is written, a trigger of its table inserts a row of `report_changes`, in the same database transaction,
with the change of the figures. A worker moves these rows into the totals. Their sum is exact at every moment.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Column, PrimaryKeyConstraint, SmallInteger, Table, Text, text

from persistence.tables.base import exact, execute_on, instant, integers, metadata, tenant_table
from persistence.tables.shards import on_shards_too

# The four figures of each kind of record; the figures that a kind does not have are 0.
# members: a is 1.
# coupons: a assigned amount, b used amount, c discounted amount, d used amount of uses without a discounted amount.
# mints: a minted amount, b number of mints.
# events: a is 1.
# missions, each in number of members: a started, b achieved, c under way.
_FIGURES = ("a", "b", "c", "d")


def _figures() -> list[Column[Any]]:
    return [exact(name, nullable=False, default="0") for name in _FIGURES]


# A row is inserted with its record and deleted when it is in the totals. It is never updated, so no call waits for it.
report_changes = tenant_table(
    "report_changes",
    "report_change_id",
    Column("kind", Text, nullable=False),
    instant("at", nullable=False),
    # The coupon book, the ledger account or the mission.
    Column("subject", BigInteger, nullable=False, server_default=text("0")),
    # The type of events.
    Column("label", Text, nullable=False, server_default=text("''")),
    # Only of mints.
    Column("wallet_id", BigInteger),
    Column("tags", ARRAY(Text)),
    *_figures(),
)

# `label` is the type of events, or a tag of mints ('' for all mints, with any tags or none). `level` is the length of
# the time that begins at `bucket`, see `domain.reports`.
report_totals = tenant_table(
    "report_totals",
    ("kind", "level", "label", "bucket", "subject"),
    Column("kind", Text, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("label", Text, nullable=False),
    instant("bucket", nullable=False),
    Column("subject", BigInteger, nullable=False),
    *_figures(),
)

# Mints by wallet; `label` is a tag, or '' for all mints. Reports read hundreds of thousands of rows: by index-only
# scans of pages that autovacuum has visited since they changed.
report_wallet_totals = Table(
    "report_wallet_totals",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("label", Text, nullable=False),
    instant("bucket", nullable=False),
    *integers("wallet_id", "ledger_account_id"),
    exact("minted", nullable=False),
    Column("mints", BigInteger, nullable=False),
    PrimaryKeyConstraint(
        *("organization_id", "level", "label", "bucket", "wallet_id", "ledger_account_id"),
        postgresql_include=["minted", "mints"],
    ),
    postgresql_with={"autovacuum_vacuum_scale_factor": "0.02", "autovacuum_vacuum_insert_scale_factor": "0.02"},
)


# The statements name the sequence of ids, since the columns of shards have no default.
def _trigger_function(function: str, table: str, statement: str, values: Sequence[str] = ()) -> str:
    """A trigger function of the table that executes one statement."""
    return f"""
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {on_shards_too(table, statement, values=values)}
    RETURN NULL;
END $$
"""


_MEMBERS = _trigger_function(
    "report_members_added",
    "members",
    """
    INSERT INTO {report_changes} (organization_id, report_change_id, kind, at, a)
    SELECT organization_id, nextval('report_changes_report_change_id_seq'), 'members', created_at, count(*)
    FROM added GROUP BY organization_id, created_at
    """,
)

# A cancellation is stored as an event of the same type as the cancelled one, and does not count as an event.
_EVENTS = _trigger_function(
    "report_events_added",
    "events",
    """
    INSERT INTO {report_changes} (organization_id, report_change_id, kind, at, label, a)
    SELECT n.organization_id, nextval('report_changes_report_change_id_seq'), 'events',
        coalesce(n.external_event_date, n.created_at) AS at, n.event_type, count(*)
    FROM added n
    WHERE n.status <> 'failed' AND (n.reverted_loyalty_event_id IS NULL OR NOT EXISTS (
        SELECT FROM {events} r WHERE r.organization_id = n.organization_id
            AND r.loyalty_event_id = n.reverted_loyalty_event_id AND r.event_type = n.event_type))
    GROUP BY n.organization_id, coalesce(n.external_event_date, n.created_at), n.event_type
    """,
)

# The previous figures of an event are subtracted and the new ones added; most of them are equal.
_EVENT_CHANGED = _trigger_function(
    "report_event_changed",
    "events",
    """
    INSERT INTO {report_changes} (organization_id, report_change_id, kind, at, label, a)
    SELECT new.organization_id, nextval('report_changes_report_change_id_seq'), 'events', counted.at,
        new.event_type, sum(counted.amount)
    FROM (VALUES
        (-1, old.status, old.reverted_loyalty_event_id, old.reversal_loyalty_event_id),
        (1, new.status, new.reverted_loyalty_event_id, new.reversal_loyalty_event_id)
    ) AS version(sign, status, reverted, reversal)
    CROSS JOIN LATERAL (
        SELECT coalesce(new.external_event_date, new.created_at), sign
        UNION ALL
        SELECT coalesce(by.external_event_date, by.created_at), -sign FROM {events} by
        WHERE by.organization_id = new.organization_id AND by.loyalty_event_id = version.reversal
    ) AS counted(at, amount)
    WHERE version.status <> 'failed' AND NOT EXISTS (
        SELECT FROM {events} r WHERE r.organization_id = new.organization_id
            AND r.loyalty_event_id = version.reverted AND r.event_type = new.event_type)
    GROUP BY counted.at HAVING sum(counted.amount) <> 0
    """,
    values=("new", "old"),
)

# The entries of the issuance side are what was minted. A mint (type 1) that waited counts when it became available; the
# revert (type 3) of a mint counts for the tags and the wallet of the mint. Each transaction is looked up individually,
# for the reason in `persistence/tables/guards.py`.
_MINTS = _trigger_function(
    "report_entries_added",
    "ledger_entries",
    """
    INSERT INTO {report_changes} (organization_id, report_change_id, kind, at, subject, wallet_id, tags, a, b)
    SELECT t.organization_id, nextval('report_changes_report_change_id_seq'), 'mints',
        CASE WHEN t.available_at IS NULL THEN coalesce(t.external_event_date, t.created_at) ELSE t.captured_at END,
        t.ledger_account_id,
        CASE WHEN o.transaction_type = 1 THEN o.to_wallet_id ELSE t.to_wallet_id END,
        CASE WHEN o.transaction_type = 1 THEN o.tags ELSE t.tags END,
        -n.amount, CASE WHEN t.transaction_type = 1 THEN 1 ELSE 0 END
    FROM added n
    CROSS JOIN LATERAL (
        SELECT * FROM {ledger_transactions} WHERE organization_id = n.organization_id
            AND ledger_account_id = n.ledger_account_id AND ledger_transaction_id = n.ledger_transaction_id OFFSET 0
    ) t
    LEFT JOIN LATERAL (
        SELECT * FROM {ledger_transactions} WHERE organization_id = n.organization_id
            AND ledger_account_id = n.ledger_account_id AND ledger_transaction_id = t.reverted_ledger_transaction_id
        OFFSET 0
    ) o ON true
    WHERE n.wallet_id IS NULL AND n.amount <> 0
        AND (t.transaction_type = 1 OR t.transaction_type = 3 AND o.transaction_type = 1)
    """,
)

_USAGES = _trigger_function(
    "report_usages_added",
    "coupon_usages",
    """
    INSERT INTO {report_changes} (organization_id, report_change_id, kind, at, subject, a, b, c, d)
    SELECT organization_id, nextval('report_changes_report_change_id_seq'), 'coupons', created_at,
        coupon_book_id, sum(amount_assigned), sum(amount_used),
        coalesce(sum(amount_discounted), 0), coalesce(sum(amount_used) FILTER (WHERE amount_discounted IS NULL), 0)
    FROM added GROUP BY organization_id, created_at, coupon_book_id
    """,
)

# A counter at a multiple of the goal is not under way: the mission was achieved, and nothing has counted since.
_MISSIONS_CHANGE = """
INSERT INTO {report_changes} (organization_id, report_change_id, kind, at, subject, a, b, c)
VALUES (
    new.organization_id, nextval('report_changes_report_change_id_seq'), 'missions', timestamptz 'epoch',
    new.mission_id, started, achieved, under_way
)"""

_MISSIONS = f"""
CREATE OR REPLACE FUNCTION report_mission_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    started integer := CASE WHEN new.counted > 0 THEN 1 ELSE 0 END;
    achieved integer := CASE WHEN new.times_achieved > 0 THEN 1 ELSE 0 END;
    under_way integer := CASE WHEN mod(new.counted, new.goal_count) > 0 THEN 1 ELSE 0 END;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        started := started - CASE WHEN old.counted > 0 THEN 1 ELSE 0 END;
        achieved := achieved - CASE WHEN old.times_achieved > 0 THEN 1 ELSE 0 END;
        under_way := under_way - CASE WHEN mod(old.counted, old.goal_count) > 0 THEN 1 ELSE 0 END;
    END IF;
    IF started <> 0 OR achieved <> 0 OR under_way <> 0 THEN
        {on_shards_too("member_missions", _MISSIONS_CHANGE, values=("new", "started", "achieved", "under_way"))}
    END IF;
    RETURN NULL;
END $$
"""

_ADDED = (
    "CREATE TRIGGER {0} AFTER INSERT ON {1} REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION {0}()"
)

execute_on(
    "after_create",
    metadata,
    _MEMBERS,
    _ADDED.format("report_members_added", "members"),
    _EVENTS,
    _ADDED.format("report_events_added", "events"),
    _EVENT_CHANGED,
    # Most updates of events change no figures.
    """
    CREATE TRIGGER report_event_changed AFTER UPDATE ON events FOR EACH ROW
    WHEN ((old.status = 'failed') <> (new.status = 'failed')
        OR old.reversal_loyalty_event_id IS DISTINCT FROM new.reversal_loyalty_event_id)
    EXECUTE FUNCTION report_event_changed()
    """,
    _MINTS,
    _ADDED.format("report_entries_added", "ledger_entries"),
    _USAGES,
    _ADDED.format("report_usages_added", "coupon_usages"),
    _MISSIONS,
    """
    CREATE TRIGGER report_mission_changed AFTER INSERT OR UPDATE ON member_missions FOR EACH ROW
    EXECUTE FUNCTION report_mission_changed()
    """,
)
