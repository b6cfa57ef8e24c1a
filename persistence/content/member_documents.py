"""Queries of the documents that a member can see."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, any_, exists, func, literal, or_, select

from domain.content.collections import ContentCollection
from domain.content.documents import DEFAULT_LOCALE, PUBLISHED, ContentDocument, locales_for
from domain.content.searching import SortKey
from persistence.content.documents import series_of, within
from persistence.content.search import find_by_ids, order_by
from persistence.filters import has_any_or_none, is_same
from persistence.tables.content import content_documents as documents


@dataclass(frozen=True, slots=True)
class Viewer:
    """A member who views the documents of a collection at the moment `at`.

    `day` is the day of the week, 1 (Monday) to 7, for `daysOfWeek`. `hours` has the current hour of the week, by the
    time zones of schedules. `book_keys` are the coupon books that the member can see, None if documents are not about
    books.
    """

    at: datetime
    day: int
    hours: Mapping[str, int]
    audience_keys: Collection[str]
    book_keys: Collection[str] | None
    locale: str = DEFAULT_LOCALE


def find_zones_in_use(db: Connection, collection: ContentCollection) -> list[str]:
    """The time zones of the schedules of the collection's documents."""
    statement = select(documents.c.schedule_zone).where(*within(collection), documents.c.schedule_zone.is_not(None))
    return list(db.execute(statement.distinct()).scalars())


def find_coupon_books_in_use(db: Connection, collection: ContentCollection) -> list[str]:
    """The keys of the coupon books that published documents of the collection are about."""
    statement = select(documents.c.coupon_book_key).where(
        *within(collection), documents.c.status == PUBLISHED, documents.c.coupon_book_key.is_not(None)
    )
    return list(db.execute(statement.distinct()).scalars())


def find_page(
    db: Connection, collection: ContentCollection, viewer: Viewer, sort: Sequence[SortKey], page: int, limit: int
) -> tuple[int, list[ContentDocument]]:
    """The number of documents for the viewer, and the page with the zero-based number `page` of these documents.

    Without `sort`, the newest come first.
    """
    conditions = _conditions(collection, viewer)
    id_ = documents.c.content_document_id

    def series(field: str) -> list[str]:
        return [series_of(collection, locale, PUBLISHED, field) for locale in locales_for(viewer.locale)]

    order = order_by(sort, id_, collection.organization_id, series)
    tie_break = id_.desc() if not sort or sort[-1].is_descending else id_.asc()
    # One statement counts and sorts all documents that match, and returns only ids.
    statement = select(id_, func.count().over()).where(*conditions).order_by(*order, tie_break)
    rows = db.execute(statement.limit(limit).offset(page * limit)).all()
    if rows:
        [total_count] = {count for _, count in rows}
        return total_count, find_by_ids(db, collection, [document_id for document_id, _ in rows])
    if page == 0:
        return 0, []
    # The page is after the last document, so that no row has the number.
    return db.execute(select(func.count()).select_from(documents).where(*conditions)).scalar_one(), []


def _conditions(collection: ContentCollection, viewer: Viewer) -> list[ColumnElement[bool]]:
    """The conditions that the viewer can see a version of a document.

    Only the version in the best locale for the viewer can be seen.
    """
    begin, end = documents.c.from_date, documents.c.to_date
    conditions = [
        *within(collection),
        documents.c.status == PUBLISHED,
        _is_in_best_locale(collection, viewer.locale),
        or_(begin.is_(None), begin <= viewer.at),
        or_(end.is_(None), end >= viewer.at),
        has_any_or_none(documents.c.audience_keys)(viewer.audience_keys),
        _is_open(viewer),
    ]
    if viewer.book_keys is not None:
        conditions.append(documents.c.coupon_book_key.in_(list(viewer.book_keys)))
    return conditions


def _is_in_best_locale(collection: ContentCollection, locale: str) -> ColumnElement[bool]:
    """The condition that a version has the best locale for a viewer with this locale.

    This is the first of `locales_for(locale)` in which the document has a published version.
    """
    best, *fallbacks = locales_for(locale)
    better_locales, conditions = [best], [documents.c.locale == best]
    for fallback in fallbacks:
        conditions.append(and_(documents.c.locale == fallback, ~_is_published_in(collection, better_locales)))
        better_locales = [*better_locales, fallback]
    return or_(*conditions)


def _is_published_in(collection: ContentCollection, locales: Collection[str]) -> ColumnElement[bool]:
    """The condition that the document has a published version in one of the locales."""
    other = documents.alias()
    return exists().where(
        is_same(other, collection, "content_collection_id"),
        other.c.document_key == documents.c.document_key,
        other.c.locale.in_(locales),
        other.c.status == PUBLISHED,
        other.c.deleted_at.is_(None),
    )


def _is_open(viewer: Viewer) -> ColumnElement[bool]:
    """The condition that a document is open: by its schedule or, without one, by its days of the week, if any."""
    zone, days = documents.c.schedule_zone, documents.c.days_of_week
    by_day = and_(zone.is_(None), or_(func.cardinality(days) == 0, literal(str(viewer.day)) == any_(days)))
    by_hour = [
        and_(zone == name, literal(hour) == any_(documents.c.schedule_hours)) for name, hour in viewer.hours.items()
    ]
    return or_(by_day, *by_hour)
