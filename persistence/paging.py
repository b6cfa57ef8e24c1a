"""Paged lists: one order with the id as the tie-break, so that pages never overlap, and an exact total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Connection, func, select

from persistence.rows import AnySelect, columns_of

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Page:
    """The page that a list call requests: zero-based `page` of `limit` rows, ordered by a column of the record."""

    page: int
    limit: int
    order: str | None = None

    @classmethod
    def of(cls, query: Mapping[str, Any], default_limit: int = 25) -> Page:
        """The page that a validated query requests (integration 1, convention 3)."""
        return cls(query.get("page", 0), query.get("limit", default_limit), query.get("order"))


@dataclass(frozen=True, slots=True)
class Paged(Generic[Kind]):
    """One page of records, and the total number of them."""

    total_count: int
    page: int
    limit: int
    results: list[Kind]


def paged(
    db: Connection,
    kind: type[Kind],
    table: Any,
    conditions: list[Any],
    page: Page,
    tie_break: Column[Any],
    columns: Mapping[str, Any] | None = None,
) -> Paged[Kind]:
    """The page of `kind` among the rows of `table` (a table or a join holding its columns) that meet `conditions`.

    `columns` maps the wire names that `order` may use to columns; default order is newest first by `tie_break`.
    """
    selected = columns_of(tie_break.table, kind)
    return paged_columns(db, kind, selected, table, conditions, page, tie_break, columns)


def paged_columns(
    db: Connection,
    kind: type[Kind],
    selected: Sequence[Any],
    table: Any,
    conditions: list[Any],
    page: Page,
    tie_break: Column[Any],
    columns: Mapping[str, Any] | None = None,
) -> Paged[Kind]:
    """As `paged`, where `selected` from several tables of a join fill the fields of `kind`, in their order."""
    statement: AnySelect = select(*selected).select_from(table).where(*conditions)
    statement = statement.order_by(*ordering(page.order, columns or {}, tie_break))
    rows = db.execute(statement.limit(page.limit).offset(page.page * page.limit)).all()
    if len(rows) < page.limit and (rows or page.page == 0):
        total = page.page * page.limit + len(rows)
    else:
        total = db.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one()
    return Paged(total, page.page, page.limit, [kind(*row) for row in rows])


def ordering(order: str | None, columns: Mapping[str, Any], tie_break: Column[Any]) -> list[Any]:
    """The ORDER BY of `col`, `col,asc` or `col,desc`; the document has refused other columns."""
    if not order:
        return [tie_break.desc()]
    name, _, direction = order.partition(",")
    column = columns[name]
    if direction == "desc":
        return [column.desc().nulls_last(), tie_break.desc()]
    return [column.asc().nulls_last(), tie_break.asc()]
