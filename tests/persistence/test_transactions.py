"""Work that lost a race, or its connection, is done over; anything else is raised, and nothing of it stays."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from persistence import transactions
from persistence.engine import autocommit


def _terminate(db: Connection) -> None:
    """End the database's side of the connection, as its restart would, and notice it at the next statement."""
    own = db.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with db.engine.connect() as other:
        other.execute(text("SELECT pg_terminate_backend(:own)"), {"own": own})
    db.execute(text("SELECT 1"))


def test_work_that_loses_its_connection_is_done_over(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            _terminate(db)
        return "done"

    assert transactions.run(engine, work) == "done"
    assert len(attempts) == 2


def test_a_connection_lost_in_the_commit_is_not_done_over_since_the_commit_may_have_happened(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        own = db.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with db.engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:own)"), {"own": own})

    with pytest.raises(DBAPIError):
        transactions.run(engine, work)
    assert len(attempts) == 1


def test_a_deadlock_is_done_over_until_the_last_attempt(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        db.execute(text("DO $$ BEGIN RAISE EXCEPTION 'no luck' USING ERRCODE = '40P01'; END $$"))

    with pytest.raises(DBAPIError):
        transactions.run(engine, work)
    assert len(attempts) == transactions.ATTEMPTS


def test_what_is_no_race_is_raised_at_once(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        db.execute(text("SELECT 1 / 0"))

    with pytest.raises(DBAPIError):
        transactions.run(engine, work)
    assert len(attempts) == 1


def test_a_read_that_loses_its_connection_is_done_once_more(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            _terminate(db)
        return "read"

    assert transactions.read(autocommit(engine), work) == "read"
    assert len(attempts) == 2
