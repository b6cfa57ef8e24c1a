"""Work that loses a race or its connection is retried; any other error is raised, and its changes are rolled back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection, Engine, UniqueConstraint, text
from sqlalchemy.exc import DBAPIError

from domain.retries import StartOver
from persistence import transactions
from persistence.connections import defer
from persistence.engine import autocommit, create_engine
from persistence.tables import metadata
from persistence.transactions import TransactionDeadline, TransactionDeadlineExceeded, deadline_of_thread

# The columns that hold the key of a request.
REQUEST_KEYS = {"system_unique_key", "redemption_key"}
LONG_NAME = "uq_permission_groups_organization_id_permission_group_key"


def test_every_unique_request_key_is_among_the_claimed_keys() -> None:
    constraints = {
        constraint.name
        for table in metadata.sorted_tables
        for constraint in table.constraints
        if isinstance(constraint, UniqueConstraint) and not REQUEST_KEYS.isdisjoint(constraint.columns.keys())
    }
    assert len(constraints) == 9
    assert constraints <= transactions.CLAIMED_KEYS


def _terminate(db: Connection) -> None:
    """Terminate the connection in the database, as a restart would; its next statement, or its commit, then fails."""
    process_id = db.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with db.engine.connect() as other_db:
        other_db.execute(text("SELECT pg_terminate_backend(:id)"), {"id": process_id})


def test_work_that_loses_its_connection_is_retried(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            _terminate(db)
            db.execute(text("SELECT 1"))
        return "done"

    assert transactions.run(engine, work) == "done"
    assert len(attempts) == 2


def test_work_is_not_retried_after_its_connection_is_lost_in_the_commit(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        _terminate(db)

    with pytest.raises(DBAPIError):
        transactions.run(engine, work)
    assert len(attempts) == 1


def test_work_that_needs_more_locks_is_repeated_and_can_detect_the_repetition(engine: Engine) -> None:
    is_repeated_by_attempt = []

    def work(db: Connection) -> bool:
        db.execute(text("SELECT 1"))
        is_repeated_by_attempt.append(transactions.is_repeated())
        if not transactions.is_repeated():
            raise StartOver
        return transactions.run(engine, lambda _: transactions.is_repeated())

    is_inner_transaction_repeated = transactions.run(engine, work)
    assert is_repeated_by_attempt == [False, True]
    # Another transaction within the repetition is not repeated itself.
    assert is_inner_transaction_repeated is False
    assert not transactions.is_repeated()


def test_work_that_never_has_enough_locks_fails_after_the_last_attempt(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        raise StartOver

    with pytest.raises(StartOver):
        transactions.run(engine, work)
    assert len(attempts) == transactions.ATTEMPTS
    assert not transactions.is_repeated()


@pytest.mark.slow
def test_a_deadlock_is_retried_until_the_last_attempt(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        db.execute(text("DO $$ BEGIN RAISE EXCEPTION 'no luck' USING ERRCODE = '40P01'; END $$"))

    with pytest.raises(DBAPIError):
        transactions.run(engine, work)
    assert len(attempts) == transactions.ATTEMPTS


def test_an_error_that_is_no_race_is_raised_at_the_first_attempt(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> None:
        attempts.append(1)
        db.execute(text("SELECT 1 / 0"))

    with pytest.raises(DBAPIError):
        transactions.run(engine, work)
    assert len(attempts) == 1


def test_a_read_is_retried_once_after_its_connection_is_lost(engine: Engine) -> None:
    attempts = []

    def work(db: Connection) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            _terminate(db)
            db.execute(text("SELECT 1"))
        return "read"

    assert transactions.read(autocommit(engine), work) == "read"
    assert len(attempts) == 2


def test_a_read_succeeds_if_its_connection_is_lost_on_the_return_to_the_pool(settings) -> None:
    engine = create_engine(settings.database_url, threads=1)

    def read() -> int:
        return transactions.read(autocommit(engine), select_17)

    attempts = []

    def lose_connection_once(db: Connection) -> int:
        attempts.append(1)
        number = select_17(db)
        if len(attempts) == 1:
            db.connection.dbapi_connection.close()
        return number

    assert transactions.read(autocommit(engine), lose_connection_once) == 17
    # The pool of one connection replaces the lost one.
    assert [read(), transactions.run(engine, select_17), read()] == [17, 17, 17]
    engine.dispose()


def select_17(db: Connection) -> int:
    return db.execute(text("SELECT 17")).scalar_one()


class TestDeadlines:
    @pytest.fixture
    def deadline(self) -> Iterator[TransactionDeadline]:
        """The deadline of all transactions of this thread; it expires only when a test calls `expire`."""
        new_deadline = TransactionDeadline()
        token = deadline_of_thread.set(new_deadline)
        yield new_deadline
        deadline_of_thread.reset(token)

    @pytest.mark.slow
    def test_a_deadline_ends_the_running_statement_and_releases_its_locks(self, engine, deadline) -> None:
        statement_begins = threading.Event()

        def work(db: Connection) -> None:
            db.execute(text("SELECT pg_advisory_xact_lock(4711)"))
            statement_begins.set()
            db.execute(text("SELECT pg_sleep(300)"))

        def expire_during_sleep() -> None:
            statement_begins.wait()
            wait_for_sleep(engine)
            deadline.expire()

        ending_thread = threading.Thread(target=expire_during_sleep)
        ending_thread.start()
        with pytest.raises(TransactionDeadlineExceeded):
            transactions.run(engine, work)
        ending_thread.join()
        # The next statement of this thread has no deadline.
        deadline_of_thread.set(None)
        with engine.begin() as db:
            # The database notices after a second that the connection was closed. If not, it would hold the lock longer.
            db.execute(text("SELECT pg_advisory_xact_lock(4711)"))

    def test_a_time_limit_ends_the_running_statement_of_the_thread(self, engine) -> None:
        with pytest.raises(TransactionDeadlineExceeded), transactions.time_limit(0.1):
            transactions.run(engine, lambda db: db.execute(text("SELECT pg_sleep(300)")))
        assert transactions.run(engine, select_17) == 17

    def test_no_connection_is_opened_after_the_deadline(self, settings, deadline) -> None:
        engine = create_engine(settings.database_url, threads=1)
        deadline.expire()
        for attempt in (transactions.run, transactions.read):
            with pytest.raises(TransactionDeadlineExceeded):
                attempt(engine, select_17)
        assert engine.pool.checkedin() == 0
        engine.dispose()

    def test_no_statement_and_no_transaction_begins_after_the_deadline(self, engine, deadline) -> None:
        steps = []

        def work(db: Connection) -> None:
            db.execute(text("SELECT 1"))
            deadline.expire()
            steps.append("deadline")
            db.execute(text("SELECT 1"))
            steps.append("statement after the deadline")

        with pytest.raises(TransactionDeadlineExceeded):
            transactions.run(engine, work)
        assert steps == ["deadline"]
        # The work does not begin again.
        with pytest.raises(TransactionDeadlineExceeded):
            transactions.run(engine, work)
        assert steps == ["deadline"]

    def test_work_that_ends_after_the_deadline_is_not_committed(self, engine, deadline) -> None:
        with engine.begin() as db:
            db.execute(text("CREATE TABLE late (number integer)"))

        def work(db: Connection) -> None:
            db.execute(text("INSERT INTO late VALUES (1)"))
            defer(db, "INSERT INTO late VALUES (%s)", (2,))
            deadline.expire()

        with pytest.raises(TransactionDeadlineExceeded):
            transactions.run(engine, work)
        deadline_of_thread.set(None)
        with engine.begin() as db:
            assert db.execute(text("SELECT count(*) FROM late")).scalar_one() == 0
            db.execute(text("DROP TABLE late"))

    def test_a_deadline_that_expires_after_the_work_does_not_end_the_connection(self, settings, deadline) -> None:
        engine = create_engine(settings.database_url, threads=1)

        def process_id() -> int:
            """The id of the connection's process in the database."""
            return transactions.read(
                autocommit(engine), lambda db: db.execute(text("SELECT pg_backend_pid()")).scalar_one()
            )

        assert transactions.run(engine, select_17) == 17
        process_id_before = process_id()
        deadline_of_thread.set(None)
        deadline.expire()
        assert process_id() == process_id_before
        engine.dispose()


def wait_for_sleep(engine: Engine) -> None:
    """Wait until the database runs the statement that sleeps."""
    running = text("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(300)' AND state = 'active'")
    while True:
        with engine.connect() as db:
            if db.execute(running).scalar_one():
                return


@pytest.mark.parametrize(
    ("name", "message", "constraint"),
    [
        ("uq_members_organization_id_loyalty_member_id", None, "uq_members_organization_id_loyalty_member_id"),
        ("uq_others_key", "duplicate key value violates unique constraint", None),
        # Citus reports the constraint of a shard only in the message, with a number, and shortens long names.
        (None, 'unique constraint "uq_events_organization_id_key_102296"', "uq_events_organization_id_key"),
        (None, "«uq_permission_groups_organization_id_permission_27883420_1021370»", LONG_NAME),
        (None, 'unique constraint "uq_others_key_102296"', None),
        (None, "no such thing", None),
        (None, None, None),
    ],
)
def test_the_violated_constraint_is_also_found_on_shards(name, message, constraint):
    error = DBAPIError(
        "INSERT", {}, SimpleNamespace(diag=SimpleNamespace(constraint_name=name, message_primary=message))
    )
    names = ("uq_members_organization_id_loyalty_member_id", "uq_events_organization_id_key", LONG_NAME)
    assert transactions.violated_constraint(error, names) == constraint
