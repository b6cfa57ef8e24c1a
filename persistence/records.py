"""The queries that every table of records needs: by id or other columns, page by page, locked, added and stored.

A module of a subject declares the `Records` of its tables, and has functions only for queries that are special to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import ARRAY, Connection, Table, bindparam, cast, func, select

from domain.fields import wire_name
from domain.organizations import Organization
from domain.problems import Refusal
from domain.retries import StartOver
from persistence.connections import fetch_rows
from persistence.counts import RowCount
from persistence.filters import Filter, conditions_of, equals
from persistence.paging import Page, Paged, paged_columns, sorting_of
from persistence.prepared_statements import Prepared
from persistence.rows import add, change, compile_statement, fields_of

Kind = TypeVar("Kind")


class Records(Generic[Kind]):
    """The records of a table, each of which belongs to an organization and has an id.

    Lists can be ordered by any column, under its API name, or by the columns of `order`; the OpenAPI document
    defines which. Lists are filtered by the columns named in `equal`, by the external key if the records have one, and
    by `filters`.

    A record may have columns of tables that `source` joins to its own: `columns` has these columns by the name of the
    field.

    `conflicts` are the refusals of values that another record has, by the names of the unique constraints; their texts
    may contain fields, such as `{code}`. While a record is locked, other transactions can add rows that refer to it by
    foreign keys, unless `locks_references`.
    """

    def __init__(
        self,
        table: Table,
        kind: type[Kind],
        *,
        source: Any = None,
        columns: Mapping[str, Any] = {},
        equal: Collection[str] = (),
        filters: Mapping[str, Filter] = {},
        order: Mapping[str, Any] = {},
        conflicts: Mapping[str, tuple[type[Refusal], str]] = {},
        locks_references: bool = False,
    ) -> None:
        [id_column] = [column for column in table.primary_key if column.name != "organization_id"]
        self.table = table
        self.id = id_column
        self._kind = kind
        self.source = table if source is None else source
        self.columns = tuple(columns[name] if name in columns else table.c[name] for name in fields_of(kind))
        columns_by_wire_name = {wire_name(column.name): column for column in table.c}
        self.order_columns = {**columns_by_wire_name, **order}
        external_key = {"externalKey"} & columns_by_wire_name.keys()
        self.filters = {**{name: equals(columns_by_wire_name[name]) for name in {*equal, *external_key}}, **filters}
        self._conflicts = conflicts
        self._key_share = not locks_references
        self._moment_columns = [name for name in ("created_at", "updated_at") if name in table.c]
        self._statements: dict[tuple[str, tuple[tuple[str, str], ...]], Prepared] = {}

    def find(self, db: Connection, organization_id: int, record_id: Any) -> Kind | None:
        """The record with this id; None if it does not exist."""
        return self.find_by(db, organization_id, **{self.id.name: record_id})

    def find_by(self, db: Connection, organization_id: int, **values: Any) -> Kind | None:
        """The record with these values of columns, which no two records can share; None if it does not exist."""
        matching = self.find_all(db, organization_id, **values)
        return matching[0] if matching else None

    def find_all(self, db: Connection, organization_id: int, **values: Any) -> list[Kind]:
        """The records with these values of columns, ordered by id.

        For a collection, a record matches if it has one of the values in it; the records are then in no certain order.
        """
        return [self._kind(*row) for row in self._rows(_RECORDS, db, organization_id, values)]

    def find_all_for_key_share(self, db: Connection, organization_id: int, **values: Any) -> list[Kind]:
        """Find records as `find_all` does, and lock them FOR KEY SHARE: only deleting or erasing them has to wait."""
        return [self._kind(*row) for row in self._rows(_RECORDS_FOR_KEY_SHARE, db, organization_id, values)]

    def finder_by(self, name: str) -> Callable[[Connection, int, Any], Kind | None]:
        """A function that finds the record with a value of this column, like `find_by`."""
        return lambda db, organization_id, value: self.find_by(db, organization_id, **{name: value})

    def find_where(
        self,
        db: Connection,
        organization_id: int,
        *conditions: Any,
        order: Sequence[Any] = (),
        limit: int | None = None,
    ) -> list[Kind]:
        """The records that meet all conditions, in the order of `order`, if any; at most `limit` records."""
        statement = select(*self.columns).select_from(self.source)
        statement = statement.where(self.table.c.organization_id == organization_id, *conditions)
        rows = db.execute(statement.order_by(*order).limit(limit))
        return [self._kind(*row) for row in rows]

    def find_values(self, db: Connection, organization_id: int, **values: Collection[Any]) -> set[Any]:
        """The values, among these, that records have in a column: `find_values(db, organization_id, code=codes)`."""
        [name] = values
        return {value for (value,) in self._rows(name, db, organization_id, values)}

    def lock(self, db: Connection, record: Kind) -> Kind:
        """Lock the record until the transaction ends; return the stored record.

        Callers lock several records in the order of `persistence.locks`. Raises StartOver like `find_again`.
        """
        return self._find_stored(_RECORDS_FOR_UPDATE, db, record)

    def find_again(self, db: Connection, record: Kind) -> Kind:
        """Find a record again that was found before what it belongs to was locked; return its current state.

        Raises StartOver if another transaction has removed it.
        """
        return self._find_stored(_RECORDS, db, record)

    def _find_stored(self, selected: str, db: Connection, record: Kind) -> Kind:
        address = self._address(record)
        rows = self._rows(selected, db, address.pop("organization_id"), address)
        if not rows:
            raise StartOver("Another transaction has removed the record.")
        return self._kind(*rows[0])

    def _rows(
        self, selected: str, db: Connection, organization_id: int, values: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """The rows with these values; `selected` is one of _WHOLE_RECORDS, or the name of one column."""
        comparisons = tuple([(name, _comparison(value)) for name, value in values.items()])
        statement = self._statements.get((selected, comparisons))
        if statement is None:
            statement = self._statements[selected, comparisons] = self._compile(selected, comparisons)
        parameters = {name: list(values[name]) if how == _ANY else values[name] for name, how in comparisons}
        return fetch_rows(db, statement, {"organization_id": organization_id, **parameters})

    def _compile(self, selected: str, comparisons: tuple[tuple[str, str], ...]) -> Prepared:
        """Compile the statement of `_rows`; each comparison is a column and how it is compared with its parameter."""
        table, selects_records = self.table, selected in _WHOLE_RECORDS
        conditions = [_CONDITIONS[how](table.c[name]) for name, how in comparisons]
        statement = (
            select(*(self.columns if selects_records else [table.c[selected]]))
            .select_from(self.source)
            .where(table.c.organization_id == bindparam("organization_id"), *conditions)
        )
        if selects_records and all(how != _ANY for _, how in comparisons):
            statement = statement.order_by(self.id)
        if selected == _RECORDS_FOR_UPDATE:
            statement = statement.with_for_update(key_share=self._key_share)
        if selected == _RECORDS_FOR_KEY_SHARE:
            statement = statement.with_for_update(read=True, key_share=True)
        return compile_statement(statement)

    def find_page(
        self,
        db: Connection,
        organization_id: int,
        query: Mapping[str, Any],
        *conditions: Any,
        source: Any = None,
        count: Callable[[], RowCount] | None = None,
        **values: Any,
    ) -> Paged[Kind]:
        """The page that a validated query requests, among the records with these values that meet all conditions.

        Newest first unless the query has `order`. `source` joins tables for the conditions; `count` returns the number
        of records, which are counted without it.
        """
        table, page = self.table, Page.of(query)
        all_conditions = [
            table.c.organization_id == organization_id,
            *(table.c[name] == value for name, value in values.items()),
            *conditions,
            *conditions_of(self.filters, query),
        ]
        sorting = sorting_of(page.order, self.order_columns, self.id)
        rows = self.source if source is None else source
        return paged_columns(db, self._kind, self.columns, rows, all_conditions, page, sorting, count)

    def add(
        self,
        db: Connection,
        organization_id: int,
        values: Mapping[str, Any],
        now: Any,
        refusals: Mapping[str, Refusal] | None = None,
    ) -> Kind:
        """Insert a record, created at `now`; raises the refusal of a value that another record has.

        `refusals`, by the name of the constraint, replace the refusals of the table.
        """
        values_with_moments = {"organization_id": organization_id, **dict.fromkeys(self._moment_columns, now), **values}
        return add(db, self.table, self._kind, values_with_moments, refusals or self._refusals(values_with_moments))

    def store(
        self,
        db: Connection,
        record: Kind,
        values: Mapping[str, Any],
        now: Any,
        refusals: Mapping[str, Refusal] | None = None,
    ) -> Kind:
        """Store new values of a record, updated at `now`; raises the refusal of a value that another record has."""
        # The first of the moments is `created_at`, which stays.
        values_with_moments = {**dict.fromkeys(self._moment_columns[1:], now), **values}
        if refusals is None:
            refusals = self._refusals(
                {name: getattr(record, name) for name in fields_of(self._kind)} | values_with_moments
            )
        return change(db, self.table, self._kind, self._address(record), values_with_moments, refusals)

    def _address(self, record: Kind) -> dict[str, Any]:
        return {name: getattr(record, name) for name in ("organization_id", self.id.name)}

    def _refusals(self, values: Mapping[str, Any]) -> dict[str, Refusal]:
        return {constraint: refusal(text.format_map(values)) for constraint, (refusal, text) in self._conflicts.items()}


@dataclass(frozen=True, slots=True)
class Lookup(Generic[Kind]):
    """How records are found by their addresses, any number of them by one statement.

    The statement has the parameters `organization_id`, `addresses`, and perhaps `now`. Its first column is never NULL.
    `records` creates the records, by address, from the rows, a moment and the organization's timezone.
    """

    statement: Prepared
    records: Callable[[Sequence[Sequence[Any]], datetime, str], Mapping[Any, Kind]]

    def find(
        self, db: Connection, organization: Organization, addresses: Collection[Any], now: datetime
    ) -> Mapping[Any, Kind]:
        """The records with these addresses at the moment `now`, by address."""
        parameters = {"organization_id": organization.organization_id, "addresses": [*addresses], "now": now}
        return self.records(fetch_rows(db, self.statement, parameters), now, organization.timezone)


@dataclass(frozen=True, slots=True)
class Addresses(Generic[Kind]):
    """The addresses of records that are to be read in their state at `now`."""

    lookup: Lookup[Kind]
    values: Collection[Any]
    now: datetime


# What a statement selects, if not the values of one column.
_RECORDS, _RECORDS_FOR_UPDATE, _RECORDS_FOR_KEY_SHARE = "*", "* FOR UPDATE", "* FOR KEY SHARE"
_WHOLE_RECORDS = (_RECORDS, _RECORDS_FOR_UPDATE, _RECORDS_FOR_KEY_SHARE)
_NULL, _TRUE, _FALSE, _ANY, _ONE = "null", "true", "false", "any", "one"

# Constants are a part of the statement, so that the planner can choose a partial index by them.
_CONDITIONS: Mapping[str, Callable[[Any], Any]] = {
    _NULL: lambda column: column.is_(None),
    _TRUE: lambda column: column,
    _FALSE: lambda column: ~column,
    _ANY: lambda column: column == func.any(cast(bindparam(column.name), ARRAY(column.type))),
    _ONE: lambda column: column == bindparam(column.name),
}


def _comparison(value: Any) -> str:
    """The kind of condition that compares a column with this value."""
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    return _ANY if isinstance(value, Collection) and not isinstance(value, str | bytes) else _ONE
