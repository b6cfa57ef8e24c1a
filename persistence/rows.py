"""Conversion between rows and records: a column is named exactly as its dataclass field."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import msgspec
from psycopg2.extensions import adapt
from sqlalchemy import Connection, Select, Table, insert, update
from sqlalchemy.dialects.postgresql.psycopg2 import dialect as psycopg2_dialect
from sqlalchemy.engine import Row
from sqlalchemy.exc import DBAPIError

from domain.problems import ExternalKeyTaken, Refusal
from persistence.connections import PLACEHOLDER, Prepared, defer, query
from persistence.transactions import violated

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
        names = _FIELDS[kind] = tuple(f.name for f in dataclasses.fields(kind))
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
    """The record of a row selected by `columns_of`; None stays None."""
    return None if row is None else kind(*row)


def add(
    db: Connection, table: Table, kind: type[Kind], values: Mapping[str, Any], refusals: Mapping[str, Refusal] = {}
) -> Kind:
    """Insert one row and return its record; a violated named constraint raises the refusal given for it.

    Raises ExternalKeyTaken for the external key of another record.
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
    """Update the one row at `address` and return its record; constraints refuse as in `add`."""
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
    try:
        return kind(*db.execute(statement).one())
    except DBAPIError as error:
        constraint = violated(error, refusals)
        if constraint is None:
            raise
        raise refusals[constraint] from error


@cache
def _bulk_insert(table: Table, names: tuple[str, ...]) -> Prepared:
    listed = ", ".join(names)
    return Prepared(
        f"INSERT INTO {table.name} ({listed}) SELECT {listed}"
        f" FROM json_to_recordset(%s::json) AS x({typed(table, names)})"
    )


def typed(table: Table, names: Iterable[str]) -> str:
    """Columns of a table with their types, for values that come as JSON: `name text, amount numeric`."""
    return ", ".join(f"{name} {table.c[name].type.compile(_dialect())}" for name in names)


@cache
def _dialect() -> Any:
    from sqlalchemy.dialects import postgresql

    return postgresql.dialect()  # type: ignore[no-untyped-call]


def add_all(db: Connection, table: Table, rows: Sequence[Any], *, names: Sequence[str] = ()) -> None:
    """Insert any number of rows with one statement, as `additions`."""
    defer_joined(db, additions(table, rows, names=names))


def additions(table: Table, rows: Sequence[Any], *, names: Sequence[str] = ()) -> list[Statement]:
    """The statement that inserts rows, if there are any, which travel as one JSON text, exactly.

    Without `names` of columns, the rows are mappings, which all have the same columns.
    """
    if not rows:
        return []
    names = names or rows[0]
    # What JSON leaves out is NULL; the names of NULLs are half of the text of an event.
    rows_without_nulls = [
        {name: value for name, value in row.items() if value is not None} if isinstance(row, dict) else row
        for row in rows
    ]
    return [(_bulk_insert(table, tuple(names)), (as_json(rows_without_nulls),))]


def defer_joined(db: Connection, statements: Sequence[Statement]) -> None:
    """Defer statements that change different tables as one, as `defer`.

    None of them sees what another changes; foreign keys are checked, and triggers run, when all are done.
    """
    if statements:
        texts, parameters = zip(*statements, strict=True)
        defer(db, _joined(texts), list(chain.from_iterable(parameters)))


@cache
def _joined(statements: tuple[str, ...]) -> Prepared:
    *others, last = statements
    parts = ", ".join(f"part_{number} AS ({statement})" for number, statement in enumerate(others))
    return Prepared(f"WITH {parts} {last}" if others else last)


def as_json(value: Any) -> str:
    """JSON text of plain values, with exact decimals, UTC instants and UUIDs, for a `jsonb` parameter."""
    return _encode(value).decode()


def as_rows(records: Iterable[Any], names: Sequence[str], **others: Any) -> list[dict[str, Any]]:
    """These fields of records, with bytes in the form that JSON can carry, and other values that all rows have."""
    return [
        {name: bytea(value) if isinstance(value := getattr(record, name), bytes) else value for name in names} | others
        for record in records
    ]


def bytea(value: bytes | None) -> str | None:
    """The text of bytes in the form of PostgreSQL, for values that come as JSON; None stays None."""
    return None if value is None else "\\x" + value.hex()


def upsert(
    table: Table, names: Sequence[str] = (), key: Sequence[str] = (), updated_columns: Sequence[str] = ()
) -> Prepared:
    """The statement that inserts rows, or changes columns of rows with the same key in their organization.

    The rows have all columns of the table unless `names` are given, the key is the primary one, and all columns are
    changed but those of the key and `created_at`. Its parameter is the JSON text of the rows.
    """
    names = names or [column.name for column in table.c]
    conflict = ("organization_id", *key) if key else [column.name for column in table.primary_key]
    updates = updated_columns or [name for name in names if name not in (*conflict, "created_at")]
    return Prepared(
        f"{_bulk_insert(table, tuple(names))}"
        f" ON CONFLICT ({', '.join(conflict)})"
        f" DO UPDATE SET {', '.join([f'{name} = excluded.{name}' for name in updates])}"
    )


def update_by_id(table: Table, id_name: str, *names: str, **expressions: str) -> Prepared:
    """The statement that changes columns of rows with these ids to given values, or by expressions of `t` and `x`.

    `t` is the stored row and `x` the given one. Its parameters are `recordset_of(rows)` and the organization.
    """
    changes = {name: f"x.{name}" for name in names} | expressions
    return Prepared(
        f"UPDATE {table.name} t SET {', '.join([f'{name} = {value}' for name, value in changes.items()])}"
        f" FROM (SELECT * FROM json_to_recordset(%s::json) AS g({typed(table, (id_name, *changes))}) LIMIT %s) AS x"
        f" WHERE t.organization_id = %s AND t.{id_name} = x.{id_name}"
    )


def change_all(db: Connection, statement: Prepared, organization_id: int, rows: Sequence[Any]) -> None:
    """Change any number of rows with a statement of `update_by_id`."""
    if rows:
        defer(db, statement, (*recordset_of(rows), organization_id))


def recordset_of(rows: Sequence[Any]) -> tuple[str, int]:
    """The parameters of rows as a table: `(SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(...) LIMIT %s) AS x`.

    The limit is the planner's estimate of their number. Without it the planner assumes a hundred rows, and prefers a
    scan of all rows of the organization to a few look-ups.
    """
    return as_json(rows), len(rows)


def reserve_ids(db: Connection, **counts: int) -> dict[str, list[int]]:
    """Reserve ids for rows still to be written, all kinds in one statement: `reserve_ids(db, events=3, ...)`.

    Ids come from each table's own sequence, so two processes can never compute the same one.
    """
    requested = {table: count for table, count in counts.items() if count}
    if not requested:
        return {table: [] for table in counts}
    [ids] = query(db, _ids_of(tuple(requested)), tuple(requested.values()))
    return {table: [] for table in counts} | dict(zip(requested, ids, strict=True))


@cache
def _ids_of(tables: tuple[str, ...]) -> Prepared:
    return Prepared(f"SELECT {', '.join(map(next_ids, tables))}")


def next_ids(table: str) -> str:
    """The expression for new ids of a table, as an array; its parameter is the number of ids."""
    # FROM names the sequence, a relation of one row, only for Citus: so the coordinator draws the ids. A worker node
    # has its own range of the sequence, far from those of other nodes, but later ids have to be greater.
    sequence = _SEQUENCES[table]
    return f"ARRAY(SELECT nextval('{sequence}') FROM generate_series(1, %s), {sequence})"


class IdAllocator:
    """Allocates ids one by one when their number is not known; each statement reserves twice as many as the last.

    `reserved_ids` are ids that were reserved before, which are used first.
    """

    def __init__(self, db: Connection, table: str, first: int, reserved_ids: Sequence[int] = ()) -> None:
        self._db = db
        self._table = table
        self._size = first
        self._unused_ids = list(reserved_ids)[::-1]

    def add_reserved(self, ids: Sequence[int]) -> None:
        """Take these ids first, which were reserved together with something else."""
        self._unused_ids += ids[::-1]

    def expect(self, count: int) -> None:
        """Prepare for so many ids, so that the next statement reserves them."""
        self._size = max(self._size, count)

    def take(self) -> int:
        """Return the next id, reserving more if none is left."""
        if not self._unused_ids:
            self._unused_ids = reserve_ids(self._db, **{self._table: self._size})[self._table][::-1]
            self._size *= 2
        return self._unused_ids.pop()

    def take_reserved(self, count: int) -> list[int]:
        """At most `count` ids, of the reserved ones."""
        return [self._unused_ids.pop() for _ in range(min(count, len(self._unused_ids)))]

    def __iter__(self) -> Iterator[int]:
        """As many ids as are asked for."""
        while True:
            yield self.take()


class DryRunIds(IdAllocator):
    """The ids of a dry run, which stores nothing: -1, -2, and so on."""

    def __init__(self) -> None:
        self._last = 0

    def add_reserved(self, ids: Sequence[int]) -> None:
        """Take no ids of the database."""

    def expect(self, count: int) -> None:
        """Reserve none."""

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


def compile_statement(statement: Select[Any]) -> Prepared:
    """Compile a statement of SQLAlchemy for `query`, once for reads of nearly every call."""
    compiled = statement.compile(dialect=psycopg2_dialect())  # type: ignore[no-untyped-call]
    # Constants are a part of the statement: an index of some rows is chosen by them.
    constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
    quoted = {name: adapt(value).getquoted().decode() for name, value in constants.items()}

    def insert_constant(match: re.Match[str]) -> str:
        return f"{match[1] or ''}{quoted[match[2]]}" if match[2] in quoted else match[0]

    return Prepared(PLACEHOLDER.sub(insert_constant, str(compiled)))
