"""Triggers work on shards as on tables; the tests create shards as Citus does."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from tests.builders.campaigns import mint
from tests.builders.tracking import ORDER_CREATED, Shop, order, running

pytestmark = pytest.mark.undistributed

# The catalog of Citus: the numbers of the shards of each table; shards with the same minimum value are colocated.
_CATALOG = "CREATE TEMPORARY TABLE pg_dist_shard (logicalrelid regclass, shardid bigint, shardminvalue text)"
_TABLES = ("organizations", "members", "events", "ledger_transactions", "ledger_entries", "report_changes")
_TRIGGERS = text(
    "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = CAST(:table AS regclass) AND NOT tgisinternal"
)


@pytest.fixture
def organization_id(api) -> int:
    """An organization with points that were earned by orders and minted by an administrator."""
    shop = Shop(api.organization())
    shop.campaign(running(mint(7)), eventType=ORDER_CREATED)
    member = shop.member()
    shop.track(order(member), order(member))
    shop.give(member, 5)
    return shop.organization.id


@pytest.fixture
def db_with_shards(db: Connection) -> Connection:
    """Two empty shards of each table: colocated ones have the same last digit."""
    db.exec_driver_sql(_CATALOG)
    for place, table in enumerate(_TABLES, start=1):
        for number in (1, 2):
            shard = f"{table}_1000{place}{number}"
            db.exec_driver_sql(f"CREATE TABLE {shard} (LIKE {table} INCLUDING DEFAULTS)")
            db.exec_driver_sql(
                "INSERT INTO pg_dist_shard VALUES (CAST(%s AS regclass), %s, %s)",
                (table, f"1000{place}{number}", f"from {number}"),
            )
            for definition in db.execute(_TRIGGERS, {"table": table}).scalars().all():
                db.exec_driver_sql(definition.replace(f" ON public.{table} ", f" ON {shard} "))
    return db


def shard(table: str) -> str:
    """The name of the second shard of a table."""
    return f"{table}_1000{_TABLES.index(table) + 1}2"


def copy(db: Connection, table: str, organization_id: int) -> None:
    """Copy the rows of the organization from a table to its second shard, so that the triggers of the shard run."""
    db.exec_driver_sql(
        f"INSERT INTO {shard(table)} SELECT * FROM {table} WHERE organization_id = %s ORDER BY 2", (organization_id,)
    )


def figures(db: Connection, table: str, organization_id: int) -> list:
    """The sums of the changes for reports; `a` is the number of events of a change of the kind `events`."""
    statement = f"""
        SELECT kind, at, subject, label, wallet_id, tags, sum(a) AS a, sum(b) AS b, sum(c) AS c, sum(d) AS d
        FROM {table}
        WHERE organization_id = %s GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
    """
    return list(db.exec_driver_sql(statement, (organization_id,)))


def copy_all(db: Connection, organization_id: int) -> None:
    """Copy the rows of all tables except the changes for reports, which triggers record."""
    for table in _TABLES[:-1]:
        copy(db, table, organization_id)


def test_changes_for_reports_are_recorded_in_the_colocated_shard(db_with_shards, organization_id):
    copy_all(db_with_shards, organization_id)
    changes = figures(db_with_shards, "report_changes", organization_id)
    assert {row.kind for row in changes} == {"members", "events", "mints"}
    assert figures(db_with_shards, shard("report_changes"), organization_id) == changes
    ids = db_with_shards.exec_driver_sql(f"SELECT report_change_id FROM {shard('report_changes')}").scalars().all()
    assert len(set(ids)) == len(ids)
    # Failed events do not count.
    db_with_shards.exec_driver_sql(f"UPDATE {shard('events')} SET status = 'failed'")
    changes_of_shard = figures(db_with_shards, shard("report_changes"), organization_id)
    assert sum(row.a for row in changes_of_shard if row.kind == "events") == 0


def test_balanced_transactions_are_accepted(db_with_shards, organization_id):
    copy_all(db_with_shards, organization_id)
    db_with_shards.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")


def test_transactions_without_entries_are_refused(db_with_shards, organization_id):
    copy(db_with_shards, "ledger_transactions", organization_id)
    with pytest.raises(IntegrityError, match="with 0 entries"):
        db_with_shards.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")


def test_entries_without_their_transaction_are_refused(db_with_shards, organization_id):
    with pytest.raises(IntegrityError, match="of another account"):
        copy(db_with_shards, "ledger_entries", organization_id)


@pytest.mark.parametrize(("environment", "is_refused"), [("live", True), ("test", False)])
def test_entries_can_be_removed_only_in_a_test_organization(db_with_shards, organization_id, environment, is_refused):
    copy_all(db_with_shards, organization_id)
    organizations, entries = shard("organizations"), shard("ledger_entries")
    # The shard of the organizations gets the organization with another environment.
    db_with_shards.exec_driver_sql(f"DELETE FROM {organizations}")
    db_with_shards.exec_driver_sql(
        f"INSERT INTO {organizations} SELECT * FROM organizations WHERE organization_id = %s", (organization_id,)
    )
    db_with_shards.exec_driver_sql(f"ALTER TABLE {organizations} DISABLE TRIGGER ALL")
    db_with_shards.exec_driver_sql(f"UPDATE {organizations} SET environment = %s", (environment,))
    if is_refused:
        with pytest.raises(IntegrityError, match="never removed"):
            db_with_shards.exec_driver_sql(f"DELETE FROM {entries}")
    else:
        assert db_with_shards.exec_driver_sql(f"DELETE FROM {entries}").rowcount > 0
