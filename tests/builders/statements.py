"""Counting the work that calls give the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event, text


@contextmanager
def counted(where: Engine | Connection) -> Iterator[list[str]]:
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
    with counted(where) as statements:
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
