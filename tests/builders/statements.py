"""Count the statements that calls execute and the rows that these read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from sqlalchemy import Connection, Engine, event, text


@contextmanager
def count_statements(where: Engine | Connection) -> Iterator[list[str]]:
    """Collect the statements that an engine or a connection executes meanwhile; `executemany` is not allowed."""
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
    """The number of statements that a call executes."""
    with count_statements(where) as statements:
        call()
    return len(statements)


@contextmanager
def rows_fetched(where: Engine | Connection) -> Iterator[list[int]]:
    """Collect the number of rows that each statement returns or changes meanwhile."""
    rows: list[int] = []

    def note(connection, cursor, statement, parameters, context, executemany):
        rows.append(max(cursor.rowcount, 0))

    event.listen(where, "after_cursor_execute", note)
    try:
        yield rows
    finally:
        event.remove(where, "after_cursor_execute", note)


@contextmanager
def parameters_of_statements_about(where: Engine | Connection, column: str) -> Iterator[list[Any]]:
    """Collect the parameters of the statements that name a column meanwhile."""
    collected: list[Any] = []

    def note(connection, cursor, statement, parameters, context, executemany):
        if column in statement:
            collected.append(parameters)

    event.listen(where, "before_cursor_execute", note)
    try:
        yield collected
    finally:
        event.remove(where, "before_cursor_execute", note)


# In this transaction; counts of earlier transactions may still be included.
_ROWS_READ = """
SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = :table
"""


def rows_read(db: Connection, table: str) -> int:
    """The rows of a table that were read so far, by scan or index; only the difference of two results has a meaning."""
    return db.scalar(text(_ROWS_READ), {"table": table}) or 0


_ALL_ROWS_READ = """
SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
"""


@contextmanager
def rows_read_to_commit(engine: Engine) -> Iterator[Counter[str]]:
    """Count the rows of each table that are read by transactions that begin and commit meanwhile."""
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


def analyze_coupons(db: Connection) -> None:
    """Give the planner the statistics of the coupons' tables; those of all tables would take a second."""
    db.execute(text("ANALYZE coupon_books, coupon_lots, coupon_usages, coupons, member_coupons, members"))


def rows_of_plans(where: Engine | Connection, query: Callable[[], Any]) -> int:
    """The largest number of rows that a node of the plans of a query reads or compares; `where` executes the query."""
    statements = []

    def record(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        statements.append((statement, parameters))

    event.listen(where, "before_cursor_execute", record)
    query()
    event.remove(where, "before_cursor_execute", record)
    assert statements
    explain = "EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) "
    with where.connect() if isinstance(where, Engine) else nullcontext(where) as db:
        plans = [db.exec_driver_sql(explain + statement, values).scalar_one() for statement, values in statements]
    return max(_rows_of(node) for [plan] in plans for node in _nodes(plan["Plan"]))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _rows_of(node: dict[str, Any]) -> float:
    """The rows that a node returns or rejects in all its loops, or the number of its loops if it finds no row."""
    rejected = sum(rows for name, rows in node.items() if name.startswith("Rows Removed by"))
    return float(max(node["Actual Rows"] + rejected, 1) * node["Actual Loops"])
