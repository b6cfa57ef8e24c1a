"""Statements that are sent ahead: the database executes them while the caller prepares the next ones."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from handlers.settings import Settings
from persistence import transactions
from persistence.connections import defer, query, send_ahead
from persistence.engine import autocommit, create_engine
from persistence.prepared_statements import Prepared

ADD = Prepared("INSERT INTO seen (n, t) VALUES (%s, %s)")


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    """An engine with one connection, on which the temporary table of the test exists."""
    engine = create_engine(settings.database_url, threads=1)
    with engine.begin() as db:
        db.execute(text("CREATE TEMPORARY TABLE seen (n int UNIQUE, t text)"))
    yield engine
    engine.dispose()


def stored_rows(engine: Engine) -> list[tuple[int, str]]:
    return transactions.read(autocommit(engine), lambda db: query(db, "SELECT n, t FROM seen ORDER BY n", ()))


def test_statements_that_are_sent_ahead_run_while_the_caller_goes_on(engine):
    def work(db: Connection) -> float:
        defer(db, ADD, (1, "one"))
        defer(db, "SELECT pg_sleep(%s)", (0.5,))
        began_at = time.monotonic()
        send_ahead(db)
        defer(db, ADD, (2, "two"))
        seconds = time.monotonic() - began_at
        assert query(db, "SELECT count(*) FROM seen WHERE n > %s", (0,)) == [(2,)]
        assert time.monotonic() - began_at >= 0.5
        return seconds

    assert transactions.run(engine, work) < 0.4
    assert stored_rows(engine) == [(1, "one"), (2, "two")]


def test_a_commit_waits_for_the_statements_that_were_sent_ahead(engine):
    def work(db: Connection) -> None:
        defer(db, ADD, (1, "one"))
        send_ahead(db)
        # Nothing is deferred any more.
        send_ahead(db)

    transactions.run(engine, work)
    assert stored_rows(engine) == [(1, "one")]


@pytest.mark.parametrize(
    "next_call",
    [lambda db: None, lambda db: query(db, "SELECT 1", ()), lambda db: db.execute(text("SELECT 1")), send_ahead],
)
def test_an_error_of_a_statement_sent_ahead_is_raised_by_the_next_call_and_nothing_is_stored(engine, next_call):
    def work(db: Connection, number: int) -> None:
        defer(db, ADD, (number, "one"))
        defer(db, ADD, (1, "again"))
        send_ahead(db)
        defer(db, ADD, (2, "two"))
        next_call(db)

    with pytest.raises(IntegrityError):
        transactions.run(engine, lambda db: work(db, 1))
    assert stored_rows(engine) == []
    # The statement is prepared again.
    transactions.run(engine, lambda db: work(db, 3))
    assert stored_rows(engine) == [(1, "again"), (2, "two"), (3, "one")]


def test_failed_work_waits_for_the_statements_that_were_sent_ahead_and_stores_nothing(engine):
    def work(db: Connection) -> None:
        defer(db, ADD, (1, "one"))
        send_ahead(db)
        raise RuntimeError("the work fails")

    with pytest.raises(RuntimeError):
        transactions.run(engine, work)
    assert stored_rows(engine) == []


def test_a_connection_that_is_lost_after_statements_were_sent_ahead_is_reported_as_lost(engine):
    def work(db: Connection) -> None:
        defer(db, "SELECT pg_terminate_backend(pg_backend_pid()) WHERE %s", (True,))
        send_ahead(db)
        defer(db, "SELECT %s", (1,))
        send_ahead(db)

    with engine.connect() as db, pytest.raises(DBAPIError) as raised:
        work(db)
    assert raised.value.connection_invalidated
