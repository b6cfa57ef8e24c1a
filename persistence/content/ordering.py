"""The order of documents by fields of their record and of their `attrs`; missing values come last."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import select

from domain.content.collections import DATE, NUMBER
from domain.content.searching import SortKey
from persistence.tables.content import content_documents as documents
from persistence.tables.content import content_values as values

RECORD_COLUMNS = {
    "documentKey": documents.c.document_key,
    "slug": documents.c.slug,
    "status": documents.c.status,
    "locale": documents.c.locale,
    "fromDate": documents.c.from_date,
    "toDate": documents.c.to_date,
    "createdAt": documents.c.created_at,
    "updatedAt": documents.c.updated_at,
}
NULLABLE = frozenset({"slug", "fromDate", "toDate"})


def value_columns(key: SortKey) -> list[Any]:
    """The columns to sort a field by, in order: for an untyped one numbers, then texts."""
    if key.type == NUMBER:
        return [values.c.number_value]
    if key.type == DATE:
        return [values.c.instant_value]
    return [values.c.text_value] if key.type else [values.c.number_value, values.c.text_value]


def directed(column: Any, key: SortKey) -> Any:
    """The column in the direction of a key."""
    return column.desc() if key.descending else column.asc()


def order_by(
    keys: Sequence[SortKey], id_: Any, organization_id: int, series: Callable[[str], Sequence[str]]
) -> list[Any]:
    """The ORDER BY of keys for documents with the id `id_`; `series` are those that a field's values may be in."""
    order: list[Any] = []
    for key in keys:
        columns = [RECORD_COLUMNS[key.field]] if key.of_record else _values_of(key, id_, organization_id, series)
        order += [directed(column, key).nulls_last() for column in columns]
    return order


def _values_of(key: SortKey, id_: Any, organization_id: int, series: Callable[[str], Sequence[str]]) -> list[Any]:
    other = values.alias()
    return [
        select(other.c[value_column.name])
        .where(
            other.c.organization_id == organization_id,
            other.c.content_document_id == id_,
            other.c.series.in_(series(key.field)),
            other.c.position == 0,
        )
        .scalar_subquery()
        for value_column in value_columns(key)
    ]
