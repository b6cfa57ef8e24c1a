"""Conversion between rows and records: a column is named exactly as its dataclass field."""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import msgspec
from psycopg2.extensions import adapt
from sqlalchemy import ARRAY, JSON, ColumnElement, Connection, Select, String, Table, func, insert, update
from sqlalchemy.dialects.postgresql.psycopg2 import dialect as psycopg2_dialect
from sqlalchemy.engine import Row
from sqlalchemy.exc import DBAPIError

from domain.problems import ExternalKeyTaken, Refusal
from domain.retries import StartOver
from persistence.connections import defer, fetch_rows
from persistence.prepared_statements import PLACEHOLDER, Prepared
from persistence.transactions import violated_constraint

Kind = TypeVar("Kind")
# Rows and statements with any columns.
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
AnySelect: TypeAlias = "Select[*tuple[Any, ...]]"
# A statement with the values of its parameters.
Statement = tuple[Prepared, tuple[Any, ...]]

_encode = msgspec.json.Encoder(decimal_format="number").encode


def fields_of(kind: type[Any]) -> tuple[str, ...]:
    """The field names of a record's dataclass, in order."""
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return names


_FIELDS: dict[type[Any], tuple[str, ...]] = {}


def columns_of(table: Table, kind: type[Any]) -> tuple[Any, ...]:
    """The columns of `table` that fill `kind`, in the order of its fields."""
    columns = _COLUMNS.get((table, kind))
    if columns is None:
        columns = _COLUMNS[table, kind] = tuple(table.c[name] for name in fields_of(kind))
    return columns


_COLUMNS: dict[tuple[Table, type[Any]], tuple[Any, ...]] = {}


def record(kind: type[Kind], row: AnyRow | None) -> Kind | None:
    """The record of a row with the columns of `columns_of`; None if `row` is None."""
    return None if row is None else kind(*row)


def add(
    db: Connection, table: Table, kind: type[Kind], values: Mapping[str, Any], refusals: Mapping[str, Refusal] = {}
) -> Kind:
    """Insert one row and return its record.

    Raises the refusal of a violated constraint, which `refusals` has by the name of the constraint, and
    ExternalKeyTaken for the external key of another record.
    """
    statement = insert(table).values(**values).returning(*columns_of(table, kind))
    return _execute_one(db, statement, kind, {**refusals, **_external_key_taken(table, values)})


def change(
    db: Connection,
    table: Table,
    kind: type[Kind],
    address: Mapping[str, Any],
    values: Mapping[str, Any],
    refusals: Mapping[str, Refusal] = {},
) -> Kind:
    """Update the one row that has the values `address`, and return its record; raises refusals like `add`.

    Raises StartOver if another transaction has removed the row, so that the work finds out that it is gone.
    """
    statement = update(table).where(*(table.c[name] == value for name, value in address.items())).values(**values)
    conflicts = _external_key_taken(table, values)
    return _execute_one(db, statement.returning(*columns_of(table, kind)), kind, {**refusals, **conflicts})


def _external_key_taken(table: Table, values: Mapping[str, Any]) -> dict[str, Refusal]:
    """The refusal of an external key that another record has, by the name of its constraint."""
    external_key = values.get("external_key")
    if external_key is None:
        return {}
    refusal = ExternalKeyTaken(f"Another record of this kind has the externalKey {external_key}.")
    return {f"uq_{table.name}_organization_id_external_key": refusal}


def _execute_one(db: Connection, statement: Any, kind: type[Kind], refusals: Mapping[str, Refusal]) -> Kind:
    """Execute a statement that returns one row; raise the refusal of the constraint that it violates, if any.

    Raises StartOver if it returns no row.
    """
    try:
        row = db.execute(statement).one_or_none()
    except DBAPIError as error:
        constraint = violated_constraint(error, refusals)
        if constraint is None:
            raise
        raise refusals[constraint] from error
    if row is None:
        raise StartOver("Another transaction has removed the row.")
    return kind(*row)


@cache
def _bulk_insert(table: Table, names: tuple[str, ...]) -> Prepared:
    """The statement that inserts rows with the columns `names`; its parameter is the JSON text of the rows."""
    column_list = ", ".join(names)
    return Prepared(
        f"INSERT INTO {table.name} ({column_list}) SELECT {column_list}"
        f" FROM json_to_recordset(%s::json) AS x({typed_columns(table, names)})"
    )


def typed_columns(table: Table, names: Iterable[str]) -> str:
    """Columns of a table with their types, for values that are sent as JSON: `name text, amount numeric`."""
    return ", ".join(f"{name} {table.c[name].type.compile(_dialect())}" for name in names)


@cache
def _dialect() -> Any:
    from sqlalchemy.dialects import postgresql

    return postgresql.dialect()  # type: ignore[no-untyped-call]


def add_all(db: Connection, table: Table, rows: Sequence[Any], *, names: Sequence[str] = ()) -> None:
    """Insert any number of rows with one deferred statement; `rows` and `names` are as in `additions`."""
    defer_joined(db, additions(table, rows, names=names))


def additions(table: Table, rows: Sequence[Any], *, names: Sequence[str] = ()) -> list[Statement]:
    """The statement that inserts rows, which are sent as one JSON text; an empty list if there are no rows.

    `names` are the columns. Without them, the rows are mappings, which all have the same columns.
    """
    if not rows:
        return []
    names = names or rows[0]
    # A column that the JSON text leaves out is NULL; the names of the columns that are NULL would be half of the text.
    if isinstance(rows[0], dict):
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return [(_bulk_insert(table, tuple(names)), (as_json(rows),))]


def defer_joined(db: Connection, statements: Sequence[Statement]) -> None:
    """Defer statements that change different tables, joined to one statement.

    No statement sees the changes of another one. Foreign keys are checked, and triggers run, after all statements.
    """
    if statements:
        texts, parameters = zip(*statements, strict=True)
        defer(db, _join_statements(texts), list(chain.from_iterable(parameters)))


@cache
def _join_statements(statements: tuple[str, ...]) -> Prepared:
    """The statement that executes all `statements`: the last one, with the others as its WITH queries."""
    *others, last = statements
    parts = ", ".join(f"part_{number} AS ({statement})" for number, statement in enumerate(others))
    return Prepared(f"WITH {parts} {last}" if others else last)


def as_json(value: Any) -> str:
    """JSON text of plain values, with exact decimals, UTC instants and UUIDs, for a `jsonb` parameter."""
    return _encode(value).decode()


def as_rows(records: Iterable[Any], names: Sequence[str], **others: Any) -> list[dict[str, Any]]:
    """Rows for `as_json`: the fields `names` of each record, with bytes as texts, and `others` in every row."""
    rows = [{name: getattr(record, name) for name in names} | others for record in records]
    for row in rows:
        for name, value in row.items():
            if isinstance(value, bytes):
                row[name] = bytea(value)
    return rows


def bytea(value: bytes | None) -> str | None:
    """The text of bytes in the form of PostgreSQL, for values that are sent as JSON; None stays None."""
    return None if value is None else "\\x" + value.hex()


def upsert(
    table: Table, names: Sequence[str] = (), key: Sequence[str] = (), updated_columns: Sequence[str] = ()
) -> Prepared:
    """The statement that inserts rows, or changes columns of rows with the same key in their organization.

    `names` are the columns of the rows, by default all columns of the table. The default `key` is the primary key, and
    by default all columns are changed except the key and `created_at`. The parameter of the statement is the JSON text
    of the rows.
    """
    names = names or [column.name for column in table.c]
    key_columns = ("organization_id", *key) if key else [column.name for column in table.primary_key]
    updates = updated_columns or [name for name in names if name not in (*key_columns, "created_at")]
    return Prepared(
        f"{_bulk_insert(table, tuple(names))}"
        f" ON CONFLICT ({', '.join(key_columns)})"
        f" DO UPDATE SET {', '.join([f'{name} = excluded.{name}' for name in updates])}"
    )


def update_by_id(table: Table, id_name: str, *names: str, **expressions: str) -> Prepared:
    """The statement that changes rows by id: `names` are columns that get a new value from the parameters.

    `expressions` has the SQL of other columns, in which `t` is the stored row and `x` the row of new values. The
    parameters of the statement are `recordset_of(rows)` and the organization.
    """
    changes = {name: f"x.{name}" for name in names} | expressions
    return Prepared(
        f"UPDATE {table.name} t SET {', '.join([f'{name} = {value}' for name, value in changes.items()])}"
        " FROM (SELECT * FROM json_to_recordset(%s::json)"
        f" AS g({typed_columns(table, (id_name, *changes))}) LIMIT %s) AS x"
        f" WHERE t.organization_id = %s AND t.{id_name} = x.{id_name}"
    )


def change_all(db: Connection, statement: Prepared, organization_id: int, rows: Sequence[Any]) -> None:
    """Change any number of rows with a statement of `update_by_id`, which is deferred."""
    if rows:
        defer(db, statement, (*recordset_of(rows), organization_id))


def recordset_of(rows: Sequence[Any]) -> tuple[str, int]:
    """The parameters of rows that a statement reads as a table: the rows as JSON, and their number.

    The statement has `(SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(...) LIMIT %s) AS x`. The limit is the
    planner's estimate of the number of rows: without it the planner assumes a hundred rows, and prefers a scan of all
    rows of the organization to a few look-ups.
    """
    return as_json(rows), len(rows)


def reserve_ids(db: Connection, **counts: int) -> dict[str, list[int]]:
    """Reserve ids for rows that are written later, of all tables in one statement: `reserve_ids(db, events=3, ...)`.

    Ids come from the sequence of each table, so two processes never get the same id. Returns the ids by table.
    """
    requested = {table: count for table, count in counts.items() if count}
    if not requested:
        return {table: [] for table in counts}
    [ids] = fetch_rows(db, _ids_of(tuple(requested)), tuple(requested.values()))
    return {table: [] for table in counts} | dict(zip(requested, ids, strict=True))


@cache
def _ids_of(tables: tuple[str, ...]) -> Prepared:
    return Prepared(f"SELECT {', '.join(map(next_ids_sql, tables))}")


def next_ids_sql(table: str) -> str:
    """The SQL expression for an array of new ids of a table; its parameter is the number of ids."""
    # FROM names the sequence, a relation of one row, only so that on Citus the coordinator draws the ids. A worker node
    # has its own range of the sequence, far from the ranges of other nodes, but later ids have to be greater.
    sequence = _SEQUENCES[table]
    return f"ARRAY(SELECT nextval('{sequence}') FROM generate_series(1, %s), {sequence})"


class IdAllocator:
    """Allocates ids one by one if their number is not known; each statement reserves twice as many as the one before.

    `first` is the number of ids that the first statement reserves. `reserved_ids` are used first; they need no
    statement.
    """

    def __init__(self, db: Connection, table: str, first: int, reserved_ids: Sequence[int] = ()) -> None:
        self._db = db
        self._table = table
        self._next_count = first
        self._unused_ids = deque(reserved_ids)

    def add_reserved(self, ids: Sequence[int]) -> None:
        """Use ids that another statement has reserved before all other ids."""
        self._unused_ids.extendleft(reversed(ids))

    def expect(self, count: int) -> None:
        """Let the next statement reserve at least this number of ids."""
        self._next_count = max(self._next_count, count)

    def take(self) -> int:
        """Return the next id, reserving more if none is left."""
        if not self._unused_ids:
            new_ids = reserve_ids(self._db, **{self._table: self._next_count})
            self._unused_ids.extend(new_ids[self._table])
            self._next_count *= 2
        return self._unused_ids.popleft()

    def take_reserved(self, count: int) -> list[int]:
        """Return at most `count` of the reserved ids."""
        return [self._unused_ids.popleft() for _ in range(min(count, len(self._unused_ids)))]

    def __iter__(self) -> Iterator[int]:
        """An endless sequence of ids."""
        while True:
            yield self.take()


class DryRunIds(IdAllocator):
    """The ids of a dry run, which stores nothing: -1, -2, and so on."""

    def __init__(self) -> None:
        self._last = 0

    def add_reserved(self, ids: Sequence[int]) -> None:
        """Ignore the ids, which the database has reserved."""

    def expect(self, count: int) -> None:
        """Reserve no ids."""

    def take(self) -> int:
        """Return the next id."""
        self._last -= 1
        return self._last


_SEQUENCES = {
    "users": "users_user_id_seq",
    "coupon_usages": "coupon_usages_coupon_usage_id_seq",
    "coupon_locks": "coupon_locks_coupon_lock_id_seq",
    "coupons": "coupons_coupon_id_seq",
    "badge_trackings": "badge_trackings_badge_tracking_id_seq",
    "member_tier_trackings": "member_tier_trackings_member_tier_tracking_id_seq",
    "events": "events_loyalty_event_id_seq",
    "purchase_orders": "purchase_orders_order_id_seq",
    "order_items": "order_items_order_item_id_seq",
    "ledger_transactions": "ledger_transactions_ledger_transaction_id_seq",
    "ledger_lots": "ledger_lots_ledger_lot_id_seq",
}


def bytes_of_texts(columns: Iterable[ColumnElement[Any]]) -> ColumnElement[Any]:
    """The bytes of the texts, lists and JSON values in these columns of a row; other columns do not count."""
    texts = [column for column in columns if isinstance(column.type, JSON | ARRAY | String)]
    return func.octet_length(func.concat_ws("", *texts))


def compile_statement(statement: Select[Any]) -> Prepared:
    """Compile a statement of SQLAlchemy for `fetch_rows`, once for all calls: nearly every call executes it."""
    compiled = statement.compile(dialect=psycopg2_dialect())  # type: ignore[no-untyped-call]
    # Constants become a part of the statement, so that the planner can choose a partial index by them.
    constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
    quoted_constants = {name: adapt(value).getquoted().decode() for name, value in constants.items()}

    def insert_constant(match: re.Match[str]) -> str:
        name = match["name"]
        return f"{match['before'] or ''}{quoted_constants[name]}" if name in quoted_constants else match[0]

    return Prepared(PLACEHOLDER.sub(insert_constant, str(compiled)))
