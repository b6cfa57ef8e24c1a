"""Pipelined statements: when they are sent, and where their errors are raised."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Connection,
    Engine,
    Integer,
    bindparam,
    cast,
    column,
    func,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from handlers.settings import Settings
from persistence import connections, transactions
from persistence.connections import defer, fetch_rows
from persistence.engine import autocommit, create_engine
from persistence.prepared_statements import Prepared
from persistence.rows import compile_statement

TABLE = "CREATE TEMPORARY TABLE IF NOT EXISTS seen (n int UNIQUE, t text)"
ADD = "INSERT INTO seen (n, t) VALUES (%s, %s)"
ADD_PREPARED = Prepared("INSERT INTO seen (n, t) VALUES (%s, %s)")
# By a list of numbers, a pattern of the text, and a limit. The third column of every row is the text "100 %".
FIND = Prepared("SELECT n, t, '100 %%' FROM seen WHERE n = ANY(%s::int[]) AND t LIKE %s ORDER BY n LIMIT %s")


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    """An engine with one connection, on which the temporary table of the test exists."""
    engine = create_engine(settings.database_url, threads=1)
    with engine.begin() as db:
        db.execute(text(TABLE))
    yield engine
    engine.dispose()


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that are sent to the database, as a list that grows."""
    messages: list[str] = []

    transmit = connections._transmit

    def record(cursor: Any, message: str, parameters: Any = None) -> None:
        messages.append(message.strip())
        transmit(cursor, message, parameters)

    monkeypatch.setattr(connections, "_transmit", record)
    return messages


def stored_rows(engine: Engine) -> list[tuple[int, str]]:
    """The committed numbers and texts, in the order of the numbers."""
    return transactions.read(autocommit(engine), lambda db: fetch_rows(db, "SELECT n, t FROM seen ORDER BY n", ()))


def test_deferred_statements_are_sent_with_the_next_read_and_the_commit(engine, messages):
    def work(db: Connection) -> list[tuple[int, ...]]:
        defer(db, ADD, (1, "one"))
        defer(db, ADD, (2, "two"))
        rows = fetch_rows(db, "SELECT count(*) FROM seen WHERE n > %s", (0,))
        defer(db, ADD, (3, "three"))
        return rows

    assert transactions.run(engine, work) == [(2,)]
    # "BEGIN; INSERT; INSERT; SELECT" with the read, and "INSERT; COMMIT" at the end.
    assert [message.count(";") for message in messages] == [3, 1]
    assert messages[0].startswith("BEGIN ISOLATION LEVEL READ COMMITTED; INSERT")
    assert messages[1].endswith("COMMIT")
    assert stored_rows(engine) == [(1, "one"), (2, "two"), (3, "three")]


def test_percent_signs_quotes_and_placeholders_in_values_are_text(engine):
    values = ["100 %", "%s", "%(n)s", "it's; DROP TABLE seen; --", "50%%", "\\", "ü€"]

    def work(db: Connection) -> None:
        for number, value in enumerate(values):
            defer(db, ADD, (number, value))
            # Some statements are sent with a read by `fetch_rows`, some with a read by `execute`, the others later.
            if number % 3 == 0:
                assert fetch_rows(db, "SELECT %s", ("100 %",)) == [("100 %",)]
            elif number % 3 == 1:
                assert db.execute(text("SELECT '5%'")).scalar_one() == "5%"

    transactions.run(engine, work)
    assert [value for _, value in stored_rows(engine)] == values


def test_a_transaction_without_statements_sends_nothing(engine, messages):
    transactions.run(engine, lambda db: None)
    assert messages == []


def test_an_autocommit_read_is_sent_without_a_transaction(engine, messages):
    assert transactions.read(autocommit(engine), lambda db: fetch_rows(db, "SELECT 1", ())) == [(1,)]
    assert messages == ["SELECT 1"]


def test_deferred_statements_without_a_transaction_are_sent_at_once(engine):
    transactions.read(autocommit(engine), lambda db: defer(db, ADD, (1, "one")))
    assert stored_rows(engine) == [(1, "one")]


def test_an_error_of_a_deferred_statement_is_raised_by_the_commit_and_nothing_is_stored(engine):
    def work(db: Connection) -> None:
        defer(db, ADD, (1, "one"))
        defer(db, ADD, (1, "again"))

    with pytest.raises(IntegrityError) as error_info:
        transactions.run(engine, work)
    assert transactions.violated_constraint(error_info.value, ["seen_n_key"]) == "seen_n_key"
    assert stored_rows(engine) == []
    # The connection can still be used.
    transactions.run(engine, lambda db: defer(db, ADD, (2, "two")))
    assert stored_rows(engine) == [(2, "two")]


def test_an_error_of_a_deferred_statement_is_raised_by_the_next_read(engine):
    def work(db: Connection) -> None:
        defer(db, "SELECT 1 / %s", (0,))
        fetch_rows(db, "SELECT 1", ())

    with pytest.raises(DBAPIError, match="division by zero"):
        transactions.run(engine, work)


def test_deferred_statements_of_failed_work_are_never_sent(engine, messages):
    def work(db: Connection) -> None:
        defer(db, ADD, (1, "one"))
        raise RuntimeError("the work fails")

    with pytest.raises(RuntimeError):
        transactions.run(engine, work)
    transactions.run(engine, lambda db: fetch_rows(db, "SELECT 1", ()))
    assert not any("INSERT" in message for message in messages)
    assert stored_rows(engine) == []


def test_a_rollback_to_a_savepoint_undoes_only_the_statements_deferred_after_it(engine):
    with engine.begin() as db:
        defer(db, ADD, (1, "one"))
        savepoint = db.begin_nested()
        defer(db, ADD, (2, "two"))
        savepoint.rollback()
        defer(db, ADD, (3, "three"))
    assert [number for number, _ in stored_rows(engine)] == [1, 3]


def test_a_server_side_cursor_reads_the_deferred_statements(engine):
    with engine.connect() as db:
        for number in range(50):
            defer(db, ADD, (number, "x"))
        rows = db.execution_options(stream_results=True, max_row_buffer=7).execute(
            text("SELECT n FROM seen ORDER BY n")
        )
        assert [row.n for row in rows] == list(range(50))
        db.rollback()
    assert stored_rows(engine) == []


def test_transactions_have_the_requested_isolation_level(engine):
    show = text("SHOW transaction_isolation")
    for level in ("REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED"):
        with engine.execution_options(isolation_level=level).begin() as db:
            assert db.execute(show).scalar_one() == level.lower()
    with engine.begin() as db:
        assert db.execute(show).scalar_one() == "read committed"


def test_a_statement_pipelined_after_a_lock_reads_what_the_lock_holder_committed(settings):
    """Each statement of a message has its own snapshot, as READ COMMITTED promises."""
    table_name = f"pipelined_{uuid.uuid4().hex}"
    engine = create_engine(settings.database_url, threads=3)
    with engine.begin() as db:
        db.execute(text(f"CREATE TABLE {table_name} AS SELECT 1 AS n"))
    waiter = ThreadPoolExecutor(1)

    def work(db: Connection) -> list[tuple[int, ...]]:
        defer(db, f"SELECT n FROM {table_name} FOR UPDATE", ())
        return fetch_rows(db, f"SELECT n FROM {table_name}", ())

    with engine.begin() as holder:
        holder.execute(text(f"UPDATE {table_name} SET n = 2"))
        rows = waiter.submit(transactions.run, engine, work)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        pattern = (f"%FOR UPDATE; SELECT n FROM {table_name}%",)
        while transactions.read(autocommit(engine), lambda db: fetch_rows(db, waits, pattern)) == [(0,)]:
            time.sleep(0.01)
    assert rows.result() == [(2,)]
    with engine.begin() as db:
        db.execute(text(f"DROP TABLE {table_name}"))
    waiter.shutdown()
    engine.dispose()


def test_work_is_retried_after_its_connection_is_lost_before_the_commit(engine):
    attempts = []

    def work(db: Connection) -> list[tuple[int, ...]]:
        attempts.append(1)
        if len(attempts) == 1:
            fetch_rows(db, "SELECT pg_terminate_backend(pg_backend_pid())", ())
        return fetch_rows(db, "SELECT 17", ())

    assert transactions.run(engine, work) == [(17,)]


def read_autocommit(engine: Engine, work: Callable[[Connection], Any]) -> Any:
    """The result of work that only reads, without a transaction."""
    return transactions.read(autocommit(engine), work)


def count_prepared(messages: list[str]) -> int:
    """How many messages prepare a statement."""
    return sum("PREPARE" in message for message in messages)


@pytest.mark.undistributed
@pytest.mark.skipif("LOYALTY_TEST_POOLED" in os.environ, reason="statements are not prepared behind a pooler")
class TestPrepared:
    def test_a_statement_is_prepared_once_whatever_its_values(self, engine, messages):
        rows = [(0, "100 %"), (1, "%s"), (2, "it's"), (3, None)]
        for row in rows:
            transactions.run(engine, lambda db, row=row: defer(db, ADD_PREPARED, row))
        assert stored_rows(engine) == rows
        assert count_prepared(messages) == 1
        assert sum("EXECUTE" in message for message in messages) == len(rows)

    def test_the_name_of_a_prepared_statement_describes_it(self, engine, messages):
        transactions.run(engine, lambda db: defer(db, ADD_PREPARED, (1, "one")))
        read_autocommit(engine, lambda db: fetch_rows(db, FIND, ([1], "t", 1)))
        assert "PREPARE insert_seen_1 AS INSERT INTO seen" in messages[0]
        assert "; EXECUTE select_seen_2 (" in messages[1]

    def test_a_statement_prepared_for_lists_of_one_length_returns_the_right_rows(self, engine, messages):
        transactions.run(engine, lambda db: [defer(db, ADD, (number, f"t{number}")) for number in range(5)])
        for numbers, pattern, expected_rows in [
            ([1], "t%", [(1, "t1", "100 %")]),
            ([], "t%", []),
            ([2], "t%", [(2, "t2", "100 %")]),
            ([1], "x", []),
        ]:
            rows = read_autocommit(engine, lambda db, values=(numbers, pattern, 1): fetch_rows(db, FIND, values))
            assert rows == expected_rows
        # One for a list of one value, and one for an empty list.
        assert count_prepared(messages) == 2

    def test_lists_share_a_prepared_statement_for_up_to_4_and_one_for_up_to_16_values(self, engine, messages):
        transactions.run(engine, lambda db: [defer(db, ADD, (number, "t")) for number in range(20)])
        # Sizes of lists, each with the number of statements that are prepared by then.
        for size, expected_count in [(2, 1), (4, 1), (3, 1), (5, 2), (16, 2)]:
            rows = read_autocommit(engine, lambda db, size=size: fetch_rows(db, FIND, (list(range(size)), "t", 16)))
            assert [row[0] for row in rows] == list(range(size))
            assert count_prepared(messages) == expected_count

    def test_lists_that_sqlalchemy_casts_share_a_prepared_statement(self, engine, messages):
        transactions.run(engine, lambda db: [defer(db, ADD, (number, "t")) for number in range(5)])
        numbers_table = table("seen", column("n", Integer))
        has_number = numbers_table.c.n == func.any(cast(bindparam("numbers"), ARRAY(Integer)))
        statement = compile_statement(select(numbers_table.c.n).where(has_number).order_by(numbers_table.c.n))
        for numbers in ([0, 1], [2, 3, 4]):
            rows = read_autocommit(engine, lambda db, numbers=numbers: fetch_rows(db, statement, {"numbers": numbers}))
            assert [row[0] for row in rows] == numbers
        assert count_prepared(messages) == 1

    # Lists and limits above 16 are many.
    @pytest.mark.parametrize(
        ("numbers", "limit"),
        [pytest.param(list(range(17)), 1, id="list of 17 numbers"), pytest.param([1], 17, id="limit of 17")],
    )
    def test_statements_about_many_records_are_not_prepared(self, engine, messages, numbers, limit):
        transactions.run(engine, lambda db: [defer(db, ADD, (number, "t")) for number in range(5)])
        rows = read_autocommit(engine, lambda db: fetch_rows(db, FIND, (numbers, "t", limit)))
        assert rows == [(numbers[0], "t", "100 %")]
        assert count_prepared(messages) == 0

    def test_only_lists_inside_any_are_padded(self, engine, messages):
        statement = Prepared("SELECT %s::int[], 3 = ANY(%s::int[])")
        for returned_list, any_list in [([7], [1, 3]), ([7], [1, 2]), ([7, 7], [3])]:
            values = (returned_list, any_list)
            rows = read_autocommit(engine, lambda db, values=values: fetch_rows(db, statement, values))
            # A padded list would be returned with more numbers.
            assert rows == [(returned_list, 3 in any_list)]
            assert count_prepared(messages) == 1

    def test_a_named_parameter_may_occur_several_times(self, engine):
        statement = Prepared("SELECT %(n)s + 1, CAST(%(t)s AS text) || '%%', %(n)s * 2")
        for number in (1, 2):
            parameters = {"t": "x", "n": number}
            rows = transactions.run(engine, lambda db, parameters=parameters: fetch_rows(db, statement, parameters))
            assert rows == [(number + 1, "x%", number * 2)]

    def test_a_statement_is_prepared_again_after_an_error_of_an_earlier_statement(self, engine, messages):
        def work(db: Connection) -> None:
            defer(db, "SELECT 1 / %s", (0,))
            fetch_rows(db, FIND, ([1], "t", 1))

        for _ in range(2):
            with pytest.raises(DBAPIError, match="division by zero"):
                transactions.run(engine, work)
        assert transactions.run(engine, lambda db: fetch_rows(db, FIND, ([1], "t", 1))) == []
        # Twice in vain, and once with success.
        assert count_prepared(messages) == 3

    def test_a_statement_is_prepared_in_later_work_if_the_first_work_fails_before_it_is_sent(self, engine, messages):
        def work(db: Connection) -> None:
            defer(db, ADD_PREPARED, (1, "one"))
            raise RuntimeError("the work fails")

        with pytest.raises(RuntimeError):
            transactions.run(engine, work)
        transactions.run(engine, lambda db: defer(db, ADD_PREPARED, (2, "two")))
        assert stored_rows(engine) == [(2, "two")]
        assert count_prepared(messages) == 1

    def test_an_error_of_a_prepared_statement_is_raised_with_its_constraint(self, engine):
        transactions.run(engine, lambda db: defer(db, ADD_PREPARED, (1, "one")))
        for _ in range(2):
            with pytest.raises(IntegrityError) as error_info:
                transactions.run(engine, lambda db: defer(db, ADD_PREPARED, (1, "again")))
            assert transactions.violated_constraint(error_info.value, ["seen_n_key"]) == "seen_n_key"

    @pytest.mark.parametrize("run", [transactions.run, read_autocommit], ids=["transaction", "autocommit"])
    def test_a_prepared_statement_survives_a_change_of_the_type_of_a_column(self, engine, run):
        def find(db: Connection) -> list[tuple[Any, ...]]:
            return fetch_rows(db, FIND, ([1], "%", 1))

        transactions.run(engine, lambda db: defer(db, ADD, (1, "7")))
        assert run(engine, find) == [(1, "7", "100 %")]
        with engine.begin() as db:
            db.execute(text("ALTER TABLE seen ALTER COLUMN t TYPE varchar(9)"))
        assert run(engine, find) == [(1, "7", "100 %")]

    def test_plans_are_discarded_after_an_interval(self, engine, messages, monkeypatch):
        def find(db: Connection) -> list[tuple[Any, ...]]:
            return fetch_rows(db, FIND, ([1], "t", 1))

        monkeypatch.setattr("persistence.prepared_statements.PLANS_KEPT_SECONDS", 1e9)
        # The first read may still discard plans by the usual interval.
        read_autocommit(engine, find)
        messages.clear()
        read_autocommit(engine, find)
        transactions.run(engine, find)
        assert not any("DISCARD" in message for message in messages)
        # The interval is over.
        with engine.connect() as db:
            monkeypatch.setattr(db.connection.dbapi_connection.prepared, "_plans_until", 0.0)
        read_autocommit(engine, find)
        assert messages[-1].startswith("DISCARD PLANS; EXECUTE")

    def test_a_vacuum_is_sent_separately_from_other_statements(self, engine, messages, monkeypatch):
        # Each statement discards plans, but PostgreSQL refuses a VACUUM that is sent together with another statement.
        monkeypatch.setattr("persistence.prepared_statements.PLANS_KEPT_SECONDS", 0.0)
        read_autocommit(engine, lambda db: fetch_rows(db, FIND, ([1], "t", 1)))
        read_autocommit(engine, lambda db: db.execute(text("VACUUM seen")))
        assert messages[-1] == "VACUUM seen"

    def test_a_session_of_a_pooler_prepares_nothing(self, settings, messages, monkeypatch):
        # The session runs in process 1, not in the one that the client is connected to.
        monkeypatch.setattr("persistence.engine._SESSION", "SELECT 'on', 1, false")
        engine = create_engine(settings.database_url, threads=1)
        assert transactions.run(engine, lambda db: fetch_rows(db, Prepared("SELECT 1 + %s"), (1,))) == [(2,)]
        assert count_prepared(messages) == 0
        engine.dispose()
