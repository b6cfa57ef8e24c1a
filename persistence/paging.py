"""Paged lists: ordered with the id as the tie-break, so that pages never overlap, and with the number of all rows.

A page is found by its number, or after the position in a cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Connection, select

from domain.problems import FieldFault, InvalidRequest
from persistence.counts import RowCount, count_rows
from persistence.keysets import Position, Section, Sorting
from persistence.rows import AnyRow, AnySelect

Kind = TypeVar("Kind")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Page:
    """The page that a list call requests: zero-based `page` of `limit` rows, ordered by a column of the record.

    With `after`, it is the page that begins after this position, and `page` is only its number.
    """

    page: int
    limit: int
    order: str | None = None
    after: Position | None = None

    @classmethod
    def of(cls, query: Mapping[str, Any], default_limit: int = 25) -> Page:
        """The page that a validated query requests (integration 1, convention 3).

        Raises InvalidRequest for a cursor of another list, or if the cursor does not fit the rest of the query.
        """
        number, limit, order = query.get("page", 0), query.get("limit", default_limit), query.get("order")
        if "cursor" not in query:
            return cls(number, limit, order)
        after = Position.from_cursor(query["cursor"])
        faults = []
        if number:
            detail = "page cannot be sent with cursor: leave page out"
            faults.append(FieldFault(detail, parameter="page"))
        if after.order != _with_direction(order):
            detail = "order is not that of the page before; send the same order with its cursor"
            faults.append(FieldFault(detail, parameter="order"))
        if faults:
            raise InvalidRequest(faults)
        return cls(after.page, limit, order, after)


@dataclass(frozen=True, slots=True)
class Paged(Generic[Kind]):
    """One page of records, the number of records on all pages, and the position before the next page, if there is one.

    A total that is not exact allows for more rows than were found so far, at least for one more page.
    """

    total_count: int
    page: int
    limit: int
    results: list[Kind]
    next: Position | None = None
    is_exact: bool = True

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last one."""
        return None if self.next is None else self.next.cursor

    @classmethod
    def empty(cls, query: Mapping[str, Any]) -> Paged[Kind]:
        """The page that a validated query requests of a list without records."""
        page = Page.of(query)
        return cls(0, page.page, page.limit, [])

    def with_results(self, results: list[Other]) -> Paged[Other]:
        """The same page with these results in place of its records."""
        return Paged(self.total_count, self.page, self.limit, results, self.next, self.is_exact)


def paged_columns(
    db: Connection,
    kind: Callable[..., Kind],
    selected: Sequence[Any],
    table: Any,
    conditions: list[Any],
    page: Page,
    sorting: Sorting,
    count: Callable[[], RowCount] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Paged[Kind]:
    """The page of `kind` among the rows of `table`, a table or a join, that meet `conditions`.

    The columns `selected` fill the fields of `kind`, in their order. `count` returns the number of rows; without it,
    the rows are counted. `parameters` are those of the table, the columns and the conditions.
    """
    statement: AnySelect = select(*selected, *sorting.columns).select_from(table).where(*conditions)

    def read(section: Section) -> Sequence[AnyRow]:
        return db.execute(section.restrict(statement), parameters).all()

    return page_of(kind, page, sorting, read, count or (lambda: count_rows(db, table, conditions, parameters)))


def page_of(
    kind: Callable[..., Kind],
    page: Page,
    sorting: Sorting,
    read: Callable[[Section], Sequence[AnyRow]],
    count: Callable[[], RowCount],
) -> Paged[Kind]:
    """The page of `kind` in the order of `sorting`.

    `read` reads a section: the fields of each record, followed by the columns of `sorting`. `count` returns the number
    of rows in the list; it is not called for a page that is known to be the last, nor after a position, which has the
    number of the first call.
    """
    # One row more than the page has shows whether there is another page.
    limit = page.limit + 1
    rows_read: list[AnyRow] = []
    if page.after is None:
        rows_read += read(Section(conditions=(), ordering=sorting.ordering, limit=limit, offset=page.page * page.limit))
    else:
        for section in sorting.sections_after(page.after, limit):
            if len(rows_read) < limit:
                rows_read += read(section)
    rows, has_next = rows_read[: page.limit], len(rows_read) > page.limit
    rows_before = page.page * page.limit if page.after is None else page.after.rows_before
    total = _total(page, rows_before, len(rows), has_next, count)
    field_count = len(rows[0]) - len(sorting.columns) if rows else 0
    next_position = None
    if has_next:
        rows_so_far = None if total.is_exact or rows_before is None else rows_before + len(rows)
        last = rows[-1][field_count:]
        next_position = sorting.position(last, _with_direction(page.order), page.page + 1, total.rows, rows_so_far)
    records = [kind(*row[:field_count]) for row in rows]
    return Paged(
        total_count=total.rows,
        page=page.page,
        limit=page.limit,
        results=records,
        next=next_position,
        is_exact=total.is_exact,
    )


def _total(page: Page, rows_before: int | None, rows: int, has_next: bool, count: Callable[[], RowCount]) -> RowCount:
    """The total of a list with `rows_before` rows before a page and `rows` rows on it.

    After a position, `rows_before` is None if the position has the exact total. A total that is not exact allows for
    one more page, so that a client that pages up to the total continues.
    """
    if page.after is not None and rows_before is None:
        return RowCount(page.after.total_count)
    so_far = (rows_before or 0) + rows
    if not has_next:
        if rows or not so_far or page.after is not None:
            return RowCount(so_far)
        # The number of the page is beyond the end of the list.
        row_count = count()
        return RowCount(min(row_count.rows, so_far), row_count.is_exact)
    row_count = count() if page.after is None else RowCount(page.after.total_count, is_exact=False)
    # At least the rows that were read, which are one more than the page has.
    min_total = so_far + 1 if row_count.is_exact else so_far + page.limit
    return RowCount(max(row_count.rows, min_total), row_count.is_exact)


def ordering(order: str | None, columns: Mapping[str, Any], tie_break: Column[Any]) -> list[Any]:
    """The ORDER BY of `col`, `col,asc` or `col,desc`; the OpenAPI document has refused other columns."""
    return sorting_of(order, columns, tie_break).ordering


def sorting_of(
    order: str | None, columns: Mapping[str, Any], tie_break: Column[Any], within: Any = None, twin: Any = None
) -> Sorting:
    """The sorting of an order as in `ordering`, or newest first without an order.

    `within` and `twin` are as in `Sorting`.
    """
    if not order:
        return Sorting(tie_break, within=within, twin=twin)
    name, _, direction = order.partition(",")
    by = columns[name]
    return Sorting(tie_break, None if by is tie_break else by, direction == "desc", within, twin)


def _with_direction(order: str | None) -> str | None:
    """The order with its direction, which is ascending by default."""
    return order if order is None or "," in order else f"{order},asc"
