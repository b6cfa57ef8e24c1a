"""Changes move into the totals of reports in small steps, and no organization holds up the totals of others."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from handlers.services.report_totals import ReportTotals
from persistence import transactions
from persistence.reports.totals import move_changes
from tests.builders.reports import move_all_changes

_ADD = """
INSERT INTO report_changes (organization_id, kind, at, subject, label, wallet_id, tags, a, b, c, d)
SELECT :of, :kind, timestamptz '2026-03-01 10:05:00Z' + n % 5 * interval '40 minutes', n % 3, :label, n % 4,
    CAST(:tags AS text[]) || CASE WHEN :unique_tags > 0 THEN ARRAY(
        SELECT 'tag-' || n || '-' || i FROM generate_series(1, :unique_tags) i) END,
    n, :b, n % 7, n % 11
FROM generate_series(1, :count) n
"""
_TABLES = {
    "report_totals": "kind, level, label, bucket, subject, a, b, c, d",
    "report_wallet_totals": "level, label, bucket, wallet_id, ledger_account_id, minted, mints",
}


@pytest.fixture
def engine(api):
    """The engine of the server, after the changes of earlier tests have been moved."""
    move_all_changes(api.engine)
    return api.engine


def add_changes(engine, organization, count, *, kind="mints", label="", tags=None, unique_tags=0, b=1):
    """Add changes, each with the `tags` and a number of tags that no other change has."""
    values = {"of": organization.id, "count": count, "kind": kind, "label": label}
    with engine.begin() as db:
        db.execute(text(_ADD), {**values, "tags": tags, "unique_tags": unique_tags, "b": b})


def count_of(engine, table, organization):
    with engine.connect() as db:
        return db.scalar(text(f"SELECT count(*) FROM {table} WHERE organization_id = :of"), {"of": organization.id})


def changes_left(engine, organization):
    return count_of(engine, "report_changes", organization)


def totals_of(engine, organization):
    """All totals of an organization, sorted."""
    with engine.connect() as db:
        return {
            table: sorted(
                map(tuple, db.execute(text(f"SELECT {columns} FROM {table} WHERE organization_id = {organization.id}")))
            )
            for table, columns in _TABLES.items()
        }


def move(engine, organization, limit):
    return transactions.run(engine, lambda db: move_changes(db, organization.id, limit))


def test_each_step_writes_few_rows_and_serves_every_organization(api, engine):
    large, small = api.organization(), api.organization()
    add_changes(engine, large, 50, unique_tags=100)
    totals, progress, rows = ReportTotals(engine), [], []
    for _ in range(3):
        add_changes(engine, small, 1)
        has_more = totals.step()
        progress.append((has_more, changes_left(engine, large), changes_left(engine, small)))
        rows.append(sum(count_of(engine, table, large) for table in _TABLES))
    # 19 changes with 100 tags have 1,919 labels, and 2,000 are the most in a step.
    assert progress == [(True, 50 - 19, 0), (True, 50 - 2 * 19, 0), (False, 0, 0)]
    # A label has a total of its mints and of its wallet, at three and four levels. Changes without a tag are added up.
    new_rows = [rows[0], rows[1] - rows[0], rows[2] - rows[1]]
    assert max(new_rows) <= 2_000 * (3 + 4)
    assert sum(new_rows) >= 50 * 100 * (3 + 4)


def test_a_change_with_more_labels_than_the_limit_is_moved_alone(api, engine):
    organization = api.organization()
    add_changes(engine, organization, 2, unique_tags=10)
    add_changes(engine, organization, 7)
    steps = [(move(engine, organization, 5), changes_left(engine, organization)) for _ in range(4)]
    assert steps == [(True, 8), (True, 7), (True, 2), (False, 0)]


def test_totals_do_not_depend_on_the_size_of_the_steps(api, engine):
    at_once, in_steps = api.organization(), api.organization()
    for organization in (at_once, in_steps):
        add_changes(engine, organization, 20, tags=["spring", "web"], unique_tags=2)
        add_changes(engine, organization, 20, tags=["web", "web"])
        for kind in ("events", "coupons", "missions", "members", "mints"):
            add_changes(engine, organization, 20, kind=kind, label="order" if kind == "events" else "")
    assert not move(engine, at_once, 10_000)
    step_count = 1
    while move(engine, in_steps, 10):
        step_count += 1
    # A step of 10 labels moves 2 changes with 5 labels, 3 with 3, or 10 with 1.
    assert step_count == 10 + 7 + 10
    assert changes_left(engine, at_once) == changes_left(engine, in_steps) == 0
    assert totals_of(engine, in_steps) == totals_of(engine, at_once)


def test_an_error_of_one_organization_is_logged_once_and_does_not_touch_the_others(api, engine, caplog):
    first, failing, last = (api.organization() for _ in range(3))
    # The number of mints is too large for its total.
    add_changes(engine, failing, 1, b=10**30)
    totals = ReportTotals(engine)
    try:
        for _ in range(2):
            add_changes(engine, first, 3)
            add_changes(engine, last, 3)
            assert not totals.step()
            assert [changes_left(engine, organization) for organization in (first, failing, last)] == [0, 1, 0]
    finally:
        with engine.begin() as db:
            db.execute(text("DELETE FROM report_changes WHERE organization_id = :of"), {"of": failing.id})
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert messages == [f"changes of the organization {failing.id} were not added to its totals"]


def test_an_organization_that_another_worker_has_locked_is_skipped(api, engine):
    locked_organization, free_organization = api.organization(), api.organization()
    for organization in (locked_organization, free_organization):
        add_changes(engine, organization, 3)
    with engine.connect() as db_of_other_worker:
        # The other worker moves all three changes (False: no more are left). Its open transaction keeps the lock.
        assert not move_changes(db_of_other_worker, locked_organization.id)
        # This worker moves those of the free organization, and no more are left that it can move.
        assert not ReportTotals(engine).step()
        # The other worker has not committed, so that its changes are still seen.
        assert changes_left(engine, locked_organization) == 3
        assert changes_left(engine, free_organization) == 0
        db_of_other_worker.rollback()
