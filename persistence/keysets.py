"""Keysets: the order of a list, a position in it, and the rows after a position, which an index leads to.

A page after a position costs as much as the first page, however deep it is. Rows that are added or removed meanwhile do
not move other rows to another page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, SmallInteger, and_, literal, or_, tuple_

from domain.cursors import decode_cursor, encode_cursor, foreign_cursor
from persistence.rows import AnySelect

_MAX_PAGE = 2**31 - 1
_MAX_COUNT = 2**63 - 1
# More digits than any stored number has, on either side of the point, and fewer than the database can compare.
_MAX_DIGITS = 1000


@dataclass(frozen=True, slots=True)
class Position:
    """The end of a page of a list: `last` are the values by which its last row is ordered, as JSON values.

    `listing` is the name of the list, and `order` the parameter of the request, such as `createdAt,asc`, if any. `page`
    is the number of the next page, `total_count` the number of rows that was counted for the first page. If that number
    was not exact, `rows_before` is the number of rows up to this position, and `total_count` the total that the page
    before the position returned; if it was exact, `rows_before` is None.
    """

    listing: str
    order: str | None
    page: int
    total_count: int
    last: Sequence[Any]
    rows_before: int | None = None

    @classmethod
    def from_cursor(cls, cursor: str) -> Position:
        """Decode a cursor; `after` checks its values later. Raises InvalidRequest for a cursor without a position."""
        content = decode_cursor(cursor)
        match content:
            case {
                "list": str(listing),
                "order": None | str() as order,
                "page": int(page),
                "total": int(total),
                "last": [*last],
                **others,
            } if _is_count(page, _MAX_PAGE) and _is_count(total, _MAX_COUNT):
                if not others:
                    return cls(listing, order, page, total, last)
                if others.keys() == {"before"} and _is_count(others["before"], _MAX_COUNT):
                    return cls(listing, order, page, total, last, others["before"])
        raise foreign_cursor()

    @property
    def cursor(self) -> str:
        """The encoded position."""
        before = {} if self.rows_before is None else {"before": self.rows_before}
        return encode_cursor(
            {
                "list": self.listing,
                "order": self.order,
                "page": self.page,
                "total": self.total_count,
                "last": self.last,
                **before,
            }
        )


def _is_count(value: Any, maximum: int) -> bool:
    """True for a whole number from 0 to `maximum`."""
    return type(value) is int and 0 <= value <= maximum


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a list: at most `limit` of the rows that meet these conditions, in this order.

    The first `offset` rows are skipped; None skips no rows.
    """

    conditions: Sequence[Any]
    ordering: Sequence[Any]
    limit: int
    offset: int | None = None

    def restrict(self, statement: AnySelect) -> AnySelect:
        """The statement for all rows of the list, restricted to the rows of this section, in its order."""
        return statement.where(*self.conditions).order_by(*self.ordering).limit(self.limit).offset(self.offset)


@dataclass(frozen=True, slots=True, eq=False)
class Sorting:
    """The order of a list: by the column `by`, if any, nulls last, then by the id `tie_break` in the same direction.

    If several rows can have the same id, they are in the ascending order of the column `within`. `twin` is a column of
    a joined table with the same id, so that the index of either table can lead to a position.
    """

    tie_break: Any
    by: Any = None
    is_descending: bool = True
    within: Any = None
    twin: Any = None

    @property
    def listing(self) -> str:
        """The name of the list, so that a cursor of one list is refused by another."""
        return f"{self.tie_break.table.name}.{self.tie_break.name}"

    @property
    def columns(self) -> list[Any]:
        """The columns whose values are the position of a row."""
        return [column for column in (self.by, self.tie_break, self.within) if column is not None]

    @property
    def ordering(self) -> list[Any]:
        """The ORDER BY of the whole list."""
        first, *rest = self._directed_columns()
        # Without NULLS LAST an index serves both directions, so only a column that can be null has it.
        return [first.nulls_last() if self._has_nulls else first, *rest]

    def position(
        self, row: Sequence[Any], order: str | None, page: int, total_count: int, rows_before: int | None = None
    ) -> Position:
        """The position after the row with these values of `columns`; for the other arguments see `Position`."""
        return Position(self.listing, order, page, total_count, [_json_value(value) for value in row], rows_before)

    def sections_after(self, position: Position, limit: int) -> Iterator[Section]:
        """The sections that contain the rows after a position, in order.

        Raises InvalidRequest for a position of another list, and for values that the columns cannot have.
        """
        if position.listing != self.listing or len(position.last) != len(self.columns):
            raise foreign_cursor()
        try:
            values = [
                self._read(column, json_value) for column, json_value in zip(self.columns, position.last, strict=True)
            ]
        except (ValueError, ArithmeticError) as error:
            raise foreign_cursor() from error
        for conditions in self._conditions_after(values):
            yield Section(conditions, self._directed_columns(), limit)

    def _conditions_after(self, values: Sequence[Any]) -> list[list[Any]]:
        """The conditions of each section of the rows after the row with these values of `columns`."""
        keys = self.columns if self.within is None else self.columns[:-1]
        if self.by is None:
            return [[self._beyond(keys, values), *self._beyond_by_twin(values[0])]]
        if values[0] is None:
            return [[self.by.is_(None), self._beyond(keys[1:], values[1:])]]
        # Rows without a value of `by` come last. An index finds each section, but not both combined by OR.
        sections = [[self._beyond(keys, values)]]
        if self._has_nulls:
            sections.append([self.by.is_(None)])
        return sections

    def _beyond(self, keys: Sequence[Any], values: Sequence[Any]) -> Any:
        """The condition that a row comes after the row with these `values`, of which only that of `within` may be None.

        `keys` are the columns of the values, without `within`, whose value is the last one.
        """
        row = tuple_(*keys)
        last = tuple_(*(literal(value, key.type) for key, value in zip(keys, values, strict=False)))
        further = row < last if self.is_descending else row > last
        if self.within is None or values[-1] is None:
            return further
        up_to_last = row <= last if self.is_descending else row >= last
        return and_(up_to_last, or_(further, self.within > values[-1]))

    def _beyond_by_twin(self, tie_break: int) -> list[Any]:
        """The condition that the twin of the id is not before `tie_break`; empty without a twin."""
        if self.twin is None:
            return []
        return [self.twin <= tie_break if self.is_descending else self.twin >= tie_break]

    def _directed_columns(self) -> list[Any]:
        """The columns of the ORDER BY, each with its direction."""
        keys = [column for column in (self.by, self.tie_break) if column is not None]
        directed = [key.desc() if self.is_descending else key.asc() for key in keys]
        return directed if self.within is None else [*directed, self.within.asc()]

    @property
    def _has_nulls(self) -> bool:
        return self.by is not None and getattr(self.by, "nullable", True)

    def _read(self, column: Any, json_value: Any) -> Any:
        """The value of a column, from its JSON form; raises ValueError or ArithmeticError for an invalid one."""
        if json_value is None and (column is self.within or (column is self.by and self._has_nulls)):
            return None
        return _READERS[column.type.python_type](column.type, json_value)


def _json_value(value: Any) -> Any:
    """The exact JSON form of a value."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, Decimal) else value


# The readers of the values in a cursor, which a client may have changed. Each returns the value for a column of this
# type, and raises ValueError or ArithmeticError for JSON that `_json_value` does not return for such a column.


def _integer(column_type: Any, value: Any) -> int:
    """The value; raises ValueError unless it is a whole number that the column can have."""
    bits = 15 if isinstance(column_type, SmallInteger) else 63 if isinstance(column_type, BigInteger) else 31
    if type(value) is int and -(2**bits) <= value < 2**bits:
        return value
    raise ValueError


def _boolean(column_type: Any, value: Any) -> bool:
    """The value; raises ValueError unless it is true or false."""
    if isinstance(value, bool):
        return value
    raise ValueError


def _text(column_type: Any, text: Any) -> str:
    """The text; raises ValueError unless it is a text that PostgreSQL can store."""
    # `encode` raises a ValueError for lone surrogates.
    if isinstance(text, str) and b"\0" not in text.encode():
        return text
    raise ValueError


def _moment(column_type: Any, text: Any) -> datetime:
    """The moment; raises ValueError unless the text is exactly what `_json_value` writes for it, with a time zone."""
    value = datetime.fromisoformat(_text(column_type, text))
    if value.tzinfo is not None and _json_value(value) == text:
        return value
    raise ValueError


def _decimal(column_type: Any, text: Any) -> Decimal:
    """The number; raises ValueError or ArithmeticError unless `_json_value` writes this text for it."""
    value = Decimal(_text(column_type, text))
    if value.is_finite() and _json_value(value) == text:
        *_, exponent = value.as_tuple()
        if isinstance(exponent, int) and exponent >= -_MAX_DIGITS and value.adjusted() <= _MAX_DIGITS:
            return value
    raise ValueError


_READERS: Mapping[type[Any], Callable[[Any, Any], Any]] = {
    int: _integer,
    bool: _boolean,
    str: _text,
    datetime: _moment,
    Decimal: _decimal,
}
