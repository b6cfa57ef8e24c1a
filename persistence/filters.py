"""The filters of lists: the condition of each query parameter of a list."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, cast, exists, func, literal, or_, select

from domain.calendar import instant_of

Filter = Callable[[Any], Any]
"""Returns the condition for a value of a query parameter, or None for no condition.

The value has the type that the OpenAPI document defines for the parameter.
"""

# Parameters that choose the part of a list that a response shows, and do not filter the list.
_OF_PAGES = frozenset({"page", "limit", "order", "cursor", "include"})
# The parameters of each filter for records that are valid at some moment of a range: its begin and its end.
_RANGES = (("validFrom", "validTo"), ("validFromDate", "validToDate"))

# The organization of a statement, a parameter of its execution.
ORGANIZATION: ColumnElement[int] = bindparam("organization_id")


def is_same(table: Any, other: Any, *names: str) -> ColumnElement[bool]:
    """The condition that a row of `table` equals `other` in its organization and in the columns `names`.

    `other` is another table, whose rows are compared, or a record.
    """
    values = getattr(other, "c", other)
    return and_(*(table.c[name] == getattr(values, name) for name in ("organization_id", *names)))


def is_related(table: Any, other: Any, *names: str) -> ColumnElement[bool]:
    """The condition of `is_same` for a sub-select about a row of the table `other` of the surrounding statement.

    It compares the organization with the parameter `ORGANIZATION`: Citus would not see that the row of `other` has the
    organization of the statement, and would send the sub-select to all shards.
    """
    return and_(table.c.organization_id == ORGANIZATION, *(table.c[name] == other.c[name] for name in names))


def lateral_row(table: Any, *keys: tuple[Any, str]) -> Any:
    """A LATERAL sub-select, which looks up the row of `table` that a row of the other tables of a join refers to.

    Join it ON true, after these tables. Each of `keys` is one of them, and the column that it shares with `table`. The
    statement needs the parameter `ORGANIZATION`.

    The planner has no statistics of organizations, so it may expect that an organization has only one row of `table`,
    and join this row first: in fact it would join all rows of the organization. With OFFSET 0 it can only look up the
    row for each row of the join.
    """
    is_of_organization = table.c.organization_id == ORGANIZATION
    is_referred_to = [table.c[name] == rows.c[name] for rows, name in keys]
    referring_tables = [rows for rows, _ in keys]
    statement = select(table).where(is_of_organization, *is_referred_to).correlate(*referring_tables)
    return statement.offset(0).lateral(table.name)


def has_row(db: Connection, *conditions: Any) -> bool:
    """True if a row meets all the conditions."""
    return bool(db.execute(select(exists().where(*conditions))).scalar_one())


def equals(column: Any) -> Filter:
    """A filter for rows whose column has the value."""
    return lambda value: column == value


def is_any_of(column: Any) -> Filter:
    """A filter for rows whose column has one of the values."""
    return lambda values: column.in_(list(values))


def is_true(condition: Any) -> Filter:
    """A filter by the condition if the value is true, and by its negation if the value is false."""
    return lambda value: condition if value else ~condition


def is_true_if_asked(condition: Any) -> Filter:
    """A filter by the condition if the value is true; no filter if it is false."""
    return lambda value: condition if value else None


def is_false_unless_asked(condition: Any) -> Filter:
    """A filter by the negation of the condition if the value is false; no filter if it is true."""
    return lambda value: None if value else ~condition


def contains(*columns: Any) -> Filter:
    """A filter for rows of which a column contains the text, in letters of any case."""
    return lambda text: or_(*(column.icontains(text, autoescape=True) for column in columns))


def has_all(column: Any) -> Filter:
    """A filter for rows whose list in the column has all of the values."""
    return lambda values: column.bool_op("@>")(cast(list(values), column.type))


def has_any(column: Any) -> Filter:
    """A filter for rows whose list in the column has one of the values."""
    return lambda values: column.bool_op("&&")(cast(list(values), column.type))


def has_any_or_none(column: Any) -> Filter:
    """A filter for rows whose list in the column has one of the values, or is empty."""
    return lambda values: or_(has_any(column)(values), func.cardinality(column) == 0)


def is_at_or_after(column: Any) -> Filter:
    """A filter for rows whose moment in the column is at or after the moment of the text."""
    return lambda text: column >= instant_of(text)


def is_before(column: Any) -> Filter:
    """A filter for rows whose moment in the column is before the moment of the text."""
    return lambda text: column < instant_of(text)


def is_at_or_before(column: Any) -> Filter:
    """A filter for rows whose moment in the column is at or before the moment of the text."""
    return lambda text: column <= instant_of(text)


def is_null_or_at_or_after(column: Any) -> Filter:
    """A filter for rows whose moment in the column is null, or at or after the moment of the text."""
    return lambda text: or_(column.is_(None), column >= instant_of(text))


def is_null_or_at_or_before(column: Any) -> Filter:
    """A filter for rows whose moment in the column is null, or at or before the moment of the text."""
    return lambda text: or_(column.is_(None), column <= instant_of(text))


def is_at_least(column: Any) -> Filter:
    """A filter for rows whose column is not below the value."""
    return lambda value: column >= value


def lower(make_condition: Filter) -> Filter:
    """The same filter for texts that are converted to lower case."""
    return lambda texts: make_condition([text.lower() for text in texts])


def conditions_of(filters: Mapping[str, Filter], query: Mapping[str, Any]) -> list[Any]:
    """The conditions for the parameters of a validated query; raises KeyError for a parameter without a filter."""
    conditions = [filters[name](value) for name, value in query.items() if name not in _OF_PAGES]
    # A range that ends before it begins has no moment; without this condition, records without dates would match.
    conditions += [
        literal(instant_of(query[begin])) <= instant_of(query[end])
        for begin, end in _RANGES
        if begin in query and end in query
    ]
    return [condition for condition in conditions if condition is not None]
