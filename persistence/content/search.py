"""Searches of documents by index, for any combination of fields.

Each condition reads one range of an index and yields ids. The ids are intersected, so that no plan depends on how many
rows the planner expects. Pages are read in the order of an index: first the documents that have a value in the sort
field, then the documents without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CTE, ColumnElement, Connection, case, cast, func, intersect, literal, select, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY, REGCONFIG
from sqlalchemy.types import Text

from domain.content.collections import DATE, NUMBER, ContentCollection
from domain.content.documents import ContentDocument
from domain.content.searching import Bounds, Search, SortKey
from domain.content.values import MAX_TEXT_LENGTH, moment_of
from persistence.content.documents import COLUMNS, series_of
from persistence.content.languages import SIMPLE, languages_of
from persistence.filters import is_same
from persistence.rows import AnySelect
from persistence.tables.content import content_documents as documents
from persistence.tables.content import content_values as values
from persistence.tables.content import text_order

MAX_FACET_VALUES = 100


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page of results, the number of all matching documents, and how often each value occurs among them."""

    total_count: int
    items: list[ContentDocument]
    facets: dict[str, list[tuple[str, int]]]


def find(db: Connection, search: Search) -> SearchPage:
    """Search with a fixed number of statements."""
    query = _Query(search)
    total = db.execute(query.count()).scalar_one()
    ids = _page_ids(db, query, total)
    return SearchPage(total, find_by_ids(db, search.collection, ids), _facets(db, query, total))


def find_by_ids(db: Connection, collection: ContentCollection, ids: Sequence[int]) -> list[ContentDocument]:
    """The versions with these ids, in the order of the ids."""
    if not ids:
        return []
    statement = select(*COLUMNS).where(
        documents.c.organization_id == collection.organization_id,
        documents.c.content_document_id == func.any(cast(list(ids), ARRAY(documents.c.content_document_id.type))),
    )
    found_documents = [ContentDocument(*row) for row in db.execute(statement)]
    by_id = {document.content_document_id: document for document in found_documents}
    return [by_id[id_] for id_ in ids if id_ in by_id]


def _page_ids(db: Connection, query: _Query, total: int) -> list[int]:
    """The ids of the page, read by one statement after the other until the page is full."""
    search = query.search
    ids: list[int] = []
    offset = search.page * search.limit
    if offset >= total:
        return ids
    for statement in query.ordered_statements():
        remaining = search.limit - len(ids)
        rows = list(db.execute(statement.limit(remaining).offset(offset)).scalars())
        ids += rows
        if len(ids) == search.limit:
            break
        if rows or not offset:
            offset = 0
        else:
            # The page begins behind all rows of this statement.
            offset -= db.execute(select(func.count()).select_from(statement.order_by(None).subquery())).scalar_one()
    return ids


def _facets(db: Connection, query: _Query, total: int) -> dict[str, list[tuple[str, int]]]:
    """The most frequent values of each facet field with their counts; empty lists if no document matches."""
    fields = list(query.search.collection.facet_fields)
    facets: dict[str, list[tuple[str, int]]] = {field: [] for field in fields}
    if not fields or not total:
        return facets
    # A series is the name under which the values of a field are stored for the searched locale and status.
    fields_by_series = {query.series(field): field for field in fields}
    date_series = [
        series for series, field in fields_by_series.items() if query.search.collection.type_of(field) == DATE
    ]
    text_series = [series for series in fields_by_series if series not in date_series]
    statements = [query.facets(text_series)] if text_series else []
    statements += [query.facets_of_dates(date_series)] if date_series else []
    for statement in statements:
        for series, value, count in db.execute(statement):
            facets[fields_by_series[series]].append((value, count))
    return facets


class _Query:
    """The statements of one search."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self._organization_id = search.collection.organization_id
        # The ids of the documents that match; None for a search without conditions, which all documents match.
        self._match = self._intersection()

    def series(self, field: str) -> str:
        """The name under which the values of a field are stored for the searched locale and status; see `series_of`."""
        return series_of(self.search.collection, self.search.locale, self.search.status, field)

    def count(self) -> AnySelect:
        """The statement that counts the documents that match: all documents in the scope if `_match` is None."""
        if self._match is not None:
            return select(func.count()).select_from(self._match)
        return select(func.count()).select_from(documents).where(*self._scope())

    def facets(self, series: Sequence[str]) -> AnySelect:
        """The statement for the most frequent values of each series among the documents that match.

        Its rows are (series, value, number of documents).
        """
        text = values.c.text_value
        # A document has a text only once in a series.
        return self._facets(series, text, func.count(), [text])

    def facets_of_dates(self, series: Sequence[str]) -> AnySelect:
        """As `facets`, for dates: texts of the same moment are one value, shown as the most frequent of them."""
        text, moment = values.c.text_value, values.c.instant_value
        shown_text = type_coerce(func.mode().within_group(text), Text)
        document_count = func.count(values.c.content_document_id.distinct())
        return self._facets(series, shown_text, document_count, [moment, case((moment.is_(None), text))])

    def _facets(
        self,
        series: Sequence[str],
        value: ColumnElement[str],
        count: ColumnElement[int],
        keys: Sequence[ColumnElement[Any]],
    ) -> AnySelect:
        """The statement of `facets`: values with equal `keys` count as one, shown as `value` and counted by `count`."""
        series_rows = select(func.unnest(cast(list(series), ARRAY(Text))).label("series")).subquery("asked")
        document_count = count.label("document_count")
        counts = select(value.label("text_value"), document_count).where(
            values.c.organization_id == self._organization_id,
            values.c.series == series_rows.c.series.collate("C"),
            func.char_length(values.c.text_value) <= MAX_TEXT_LENGTH,
        )
        if self._match is not None:
            counts = counts.where(values.c.content_document_id.in_(select(self._match.c.id)))
        counts = counts.group_by(*keys).order_by(document_count.desc(), text_order(value))
        top = counts.correlate(series_rows).limit(MAX_FACET_VALUES).lateral("counted")
        joined = series_rows.join(top, literal(True))
        return (
            select(series_rows.c.series, top.c.text_value, top.c.document_count)
            .select_from(joined)
            .order_by(series_rows.c.series, top.c.document_count.desc(), text_order(top.c.text_value))
        )

    def ordered_statements(self) -> list[AnySelect]:
        """The statements for the ids of all documents that match, in the order of the search.

        The ids of the first statement come before those of the second, and so on.
        """
        keys = self.search.sort
        if not keys:
            return [self._best_match() if self.search.words else self._newest()]
        first = keys[0]
        if first.is_of_record:
            return self._by_record_field(first)
        columns = sort_expressions(first)
        with_value = [
            self._with_value(first, column, earlier_columns=columns[:index]) for index, column in enumerate(columns)
        ]
        return [*with_value, self._without_value(first, columns)]

    def _scope(self) -> tuple[ColumnElement[bool], ...]:
        """The conditions that a document is in the collection, the locale and the status of the search."""
        search = self.search
        return (
            documents.c.organization_id == self._organization_id,
            documents.c.content_collection_id == search.collection.content_collection_id,
            documents.c.locale == search.locale,
            documents.c.status == search.status,
            documents.c.deleted_at.is_(None),
        )

    def _is_value_of(self, field: str) -> tuple[ColumnElement[bool], ...]:
        """The conditions that a row of `values` is a value of the field, in the searched locale and status."""
        return values.c.organization_id == self._organization_id, values.c.series == self.series(field)

    def _intersection(self) -> CTE | None:
        """The ids of the documents that meet all conditions; None if there are no conditions."""
        search, ids = self.search, values.c.content_document_id.label("id")
        parts = [
            select(ids).where(*self._is_value_of(field), self._is_one_of(field, texts))
            for field, texts in search.facets.items()
        ]
        parts += [
            select(ids).where(*self._is_value_of(bounds.field), *_is_in_bounds(bounds)) for bounds in search.ranges
        ]
        if search.words:
            id_ = documents.c.content_document_id.label("id")
            parts.append(select(id_).where(*self._scope(), documents.c.search.bool_op("@@")(self._words())))
        if not parts:
            return None
        # INTERSECT removes duplicates; for one part DISTINCT has to, as a document can have several of the values.
        matching = intersect(*parts) if len(parts) > 1 else parts[0].distinct()
        # Materialized, since the statement of the facets uses it once for each field.
        return matching.cte("matching").prefix_with("MATERIALIZED")

    def _is_one_of(self, field: str, texts: Sequence[str]) -> ColumnElement[bool]:
        """The condition that a value is one of these; dates are compared as moments, however they are written."""
        if self.search.collection.type_of(field) == DATE:
            return values.c.instant_value.in_([moment_of(text) for text in texts])
        return values.c.text_value.in_(texts)

    def _words(self) -> ColumnElement[Any]:
        """The words as a text search query: all as stems of the language, the last one also as a beginning."""
        search = self.search
        language = languages_of(search.collection, [search.locale])[search.locale]
        *whole_words, last = search.words
        beginning = "'" + last.replace("\\", "\\\\").replace("'", "''") + "':*"
        stem = func.plainto_tsquery(cast(language, REGCONFIG), last)
        query = stem.op("||")(func.to_tsquery(cast(SIMPLE, REGCONFIG), beginning))
        for word in whole_words:
            query = func.plainto_tsquery(cast(language, REGCONFIG), word).op("&&")(query)
        return query

    def _matching(self, id_: Any) -> tuple[ColumnElement[bool], ...]:
        """The condition that the document with an id matches; no condition if all documents do."""
        return () if self._match is None else (id_.in_(select(self._match.c.id)),)

    def _newest(self) -> AnySelect:
        """The statement for the ids, the newest document first."""
        id_ = documents.c.content_document_id
        return select(id_).where(*self._scope(), *self._matching(id_)).order_by(id_.desc())

    def _best_match(self) -> AnySelect:
        """The statement for the ids, the document that matches the words best first."""
        id_ = documents.c.content_document_id
        rank = func.ts_rank(documents.c.search, self._words())
        return select(id_).where(*self._scope(), *self._matching(id_)).order_by(rank.desc(), id_.desc())

    def _by_record_field(self, key: SortKey) -> list[AnySelect]:
        """The statements for the ids sorted by a field of the record; a second one for documents without a value."""
        column, id_ = RECORD_COLUMNS[key.field], documents.c.content_document_id
        plain = select(id_).where(*self._scope(), *self._matching(id_))
        if key.field not in NULLABLE:
            return [plain.order_by(order_element(column, key), *self._order_of_equals(id_))]
        return [
            plain.where(column.is_not(None)).order_by(order_element(column, key), *self._order_of_equals(id_)),
            plain.where(column.is_(None)).order_by(*self._order_of_equals(id_)),
        ]

    def _with_value(self, key: SortKey, column: Any, *, earlier_columns: Sequence[Any]) -> AnySelect:
        """The statement for documents whose first value of the field is in the column, and in no earlier column."""
        id_ = values.c.content_document_id
        statement = select(id_).where(
            *self._is_value_of(key.field),
            values.c.position == 0,
            column.is_not(None),
            *(earlier_column.is_(None) for earlier_column in earlier_columns),
            *self._matching(id_),
        )
        if self._further_keys_need_documents():
            statement = statement.join(documents, is_same(documents, values, "content_document_id"))
        return statement.order_by(order_element(column, key), *self._order_of_equals(id_))

    def _without_value(self, key: SortKey, columns: Sequence[Any]) -> AnySelect:
        """The statement for documents that have no value by which the key sorts."""
        id_ = documents.c.content_document_id
        first_value = select(values.c.content_document_id).where(
            *self._is_value_of(key.field), values.c.position == 0, values.c.content_document_id == id_
        )
        # An untyped field sorts by two columns, and each value has one of them: only a typed field needs a condition.
        if len(columns) == 1:
            first_value = first_value.where(columns[0].is_not(None))
        has_value = first_value.exists()
        plain = select(id_).where(*self._scope(), ~has_value, *self._matching(id_))
        return plain.order_by(*self._order_of_equals(id_))

    def _further_keys_need_documents(self) -> bool:
        """True if a sort key after the first one is a field of the record."""
        return any(key.is_of_record for key in self.search.sort[1:])

    def _order_of_equals(self, id_: Any) -> list[Any]:
        """The order of documents that are equal by the first key: by the other keys, then by id."""
        keys = self.search.sort
        order = order_by(keys[1:], id_, self._organization_id, lambda field: [self.series(field)])
        return [*order, id_.desc() if keys[-1].is_descending else id_.asc()]


def _is_in_bounds(bounds: Bounds) -> list[ColumnElement[bool]]:
    """The conditions that a value lies in the bounds: `minimum` and `maximum` are inclusive, `before` is not."""
    column: Any = values.c.number_value if bounds.type == NUMBER else values.c.instant_value
    conditions = [column.is_not(None)]
    if bounds.minimum is not None:
        conditions.append(column >= bounds.minimum)
    if bounds.maximum is not None:
        conditions.append(column <= bounds.maximum)
    if bounds.before is not None:
        conditions.append(column < bounds.before)
    return conditions


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


def sort_expressions(key: SortKey, table: Any = values) -> list[Any]:
    """The expressions that sort the values of a field; for an untyped field first by number, then by text."""
    if key.type == NUMBER:
        return [table.c.number_value]
    if key.type == DATE:
        return [table.c.instant_value]
    texts = text_order(table.c.text_value)
    return [texts] if key.type else [table.c.number_value, texts]


def order_element(column: Any, key: SortKey) -> Any:
    """The column as an element of an ORDER BY: descending if the sort key is, else ascending."""
    return column.desc() if key.is_descending else column.asc()


def order_by(
    keys: Sequence[SortKey], id_: Any, organization_id: int, series_of_field: Callable[[str], Sequence[str]]
) -> list[Any]:
    """The ORDER BY of a query of documents; documents without a value come last.

    `id_` is the query's column of document ids. `series_of_field` returns the series (`content_values.series`) that
    have the values of a field.
    """
    order: list[Any] = []
    for key in keys:
        columns = (
            [RECORD_COLUMNS[key.field]] if key.is_of_record else _values_of(key, id_, organization_id, series_of_field)
        )
        order += [order_element(column, key).nulls_last() for column in columns]
    return order


def _values_of(
    key: SortKey, id_: Any, organization_id: int, series_of_field: Callable[[str], Sequence[str]]
) -> list[Any]:
    """Subqueries for the first value of a key's field in a document, one for each expression that sorts it."""
    first_values = values.alias()
    return [
        select(value)
        .where(
            first_values.c.organization_id == organization_id,
            first_values.c.content_document_id == id_,
            first_values.c.series.in_(series_of_field(key.field)),
            first_values.c.position == 0,
        )
        .scalar_subquery()
        for value in sort_expressions(key, first_values)
    ]
