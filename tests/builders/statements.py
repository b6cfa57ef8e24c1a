"""Counting the work that calls give the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event, text


@contextmanager
def count_statements(where: Engine | Connection) -> Iterator[list[str]]:
    """The statements that are executed meanwhile, by a server's engine or on one connection; none of them in a loop."""
    statements: list[str] = []

    def note(connection, cursor, statement, parameters, context, executemany):
        statements.append(statement)
        assert not executemany

    event.listen(where, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(where, "before_cursor_execute", note)


def count(where: Engine | Connection, call: Callable[[], object]) -> int:
    """How many statements a call takes."""
    with count_statements(where) as statements:
        call()
    return len(statements)


@contextmanager
def rows_fetched(where: Engine | Connection) -> Iterator[list[int]]:
    """How many rows each statement that is executed meanwhile brings, or changes."""
    rows: list[int] = []

    def note(connection, cursor, statement, parameters, context, executemany):
        rows.append(max(cursor.rowcount, 0))

    event.listen(where, "after_cursor_execute", note)
    try:
        yield rows
    finally:
        event.remove(where, "after_cursor_execute", note)


# Of this transaction; statistics of earlier ones may still be among it.
_ROWS_READ = """
SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = :table
"""


def rows_read(db: Connection, table: str) -> int:
    """How many rows of a table were read so far, by whatever way: the difference of two moments counts."""
    return db.scalar(text(_ROWS_READ), {"table": table}) or 0


_ALL_ROWS_READ = """
SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
"""


@contextmanager
def rows_read_to_commit(engine: Engine) -> Iterator[Counter[str]]:
    """How many rows of each table are read by the transactions that begin and are committed meanwhile."""
    counts: Counter[str] = Counter()
    before: dict[Any, dict[str, int]] = {}

    def read(connection: Connection) -> dict[str, int]:
        with connection.connection.cursor() as cursor:
            cursor.execute(_ALL_ROWS_READ)
            return dict(cursor.fetchall())

    def begin(connection: Connection) -> None:
        before[connection.connection.driver_connection] = read(connection)

    def commit(connection: Connection) -> None:
        earlier = before.pop(connection.connection.driver_connection, {})
        counts.update({table: rows - earlier.get(table, 0) for table, rows in read(connection).items()})

    event.listen(engine, "begin", begin)
    event.listen(engine, "commit", commit)
    try:
        yield counts
    finally:
        event.remove(engine, "begin", begin)
        event.remove(engine, "commit", commit)
