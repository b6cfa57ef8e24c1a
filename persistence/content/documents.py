"""Finds, writes and deletes the locale versions of documents, with the values that searches need."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, text, update

from domain.content.collections import ContentCollection
from domain.content.documents import ContentDocument, derived_values
from domain.content.values import searchable_values
from domain.coupons.books import CouponBook
from persistence.connections import defer
from persistence.filters import is_same
from persistence.rows import as_json, columns_of, record
from persistence.tables.content import content_documents as table

COLUMNS = columns_of(table, ContentDocument)
_FIELDS = (
    *("document_key", "locale", "slug", "attrs", "status", "from_date", "to_date", "audience_keys", "days_of_week"),
    *("day_of_week_schedule", "schedule_zone", "schedule_hours", "coupon_book_key"),
)
_TYPES = (
    *("uuid", "text", "text", "jsonb", "text", "timestamptz", "timestamptz", "text[]", "text[]"),
    *("jsonb", "text", "smallint[]", "uuid"),
)

# The searchable words: as stems of the language, and unchanged, since searches also look for beginnings of words. The
# words of the first field have a higher weight.
_SEARCH = """(
    SELECT setweight(jsonb_to_tsvector({language}::regconfig, part.first, '["string", "numeric"]'), 'A')
        || setweight(jsonb_to_tsvector('simple', part.first, '["string", "numeric"]'), 'A')
        || setweight(jsonb_to_tsvector({language}::regconfig, part.others, '["string", "numeric"]'), 'B')
        || setweight(jsonb_to_tsvector('simple', part.others, '["string", "numeric"]'), 'B')
    FROM (SELECT
        coalesce({attrs} -> (CAST(:fts_fields AS text[]))[1], '{{}}'::jsonb) AS first,
        coalesce((
            SELECT jsonb_agg({attrs} -> name ORDER BY place)
            FROM unnest((CAST(:fts_fields AS text[]))[2:]) WITH ORDINALITY AS field(name, place)
        ), '[]'::jsonb) AS others
    ) AS part
)"""

_UPSERT = f"""
INSERT INTO content_documents (organization_id, content_collection_id, {", ".join(_FIELDS)}, search, created_at,
    updated_at)
SELECT :organization_id, :collection_id, {", ".join(f"x.{name}" for name in _FIELDS)},
    {_SEARCH.format(language="x.language", attrs="x.attrs")}, :now, :now
FROM json_to_recordset(CAST(:rows AS json))
    AS x({", ".join(f"{name} {kind}" for name, kind in zip(_FIELDS, _TYPES, strict=True))}, language text)
ON CONFLICT (organization_id, content_collection_id, document_key, locale) WHERE deleted_at IS NULL
DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _FIELDS[2:])}, search = excluded.search,
    updated_at = excluded.updated_at
RETURNING {", ".join(column.name for column in COLUMNS)}
"""

_UPSERT_ROWS = text(_UPSERT).columns(*COLUMNS)

_DELETE_VALUES = """
DELETE FROM content_values WHERE organization_id = %s AND content_document_id = ANY(%s::bigint[])
"""

_ADD_VALUES = """
INSERT INTO content_values (organization_id, content_document_id, series, position, text_value, number_value,
    instant_value)
SELECT %s, x.id, x.series, x.position, x.text_value, x.number_value, x.instant_value
FROM json_to_recordset(%s::json) AS x(id bigint, series text, position smallint, text_value text,
    number_value numeric, instant_value timestamptz)
"""

_REINDEX = f"""
UPDATE content_documents AS d
SET search = {_SEARCH.format(language="coalesce(CAST(:languages AS jsonb) ->> d.locale, 'simple')", attrs="d.attrs")}
WHERE d.organization_id = :organization_id AND d.content_collection_id = :collection_id
    AND d.deleted_at IS NULL
"""

_ABOUT_BOOK = """
SELECT DISTINCT c.collection_key::text, d.document_key::text, c.content_collection_id
FROM content_documents d
JOIN content_collections c
    ON c.organization_id = d.organization_id AND c.content_collection_id = d.content_collection_id
WHERE d.organization_id = %s AND d.coupon_book_key = %s AND d.deleted_at IS NULL AND c.content_type = 'coupon'
ORDER BY c.content_collection_id, d.document_key::text
"""


def series_of(collection: ContentCollection, locale: str, status: str, field: str) -> str:
    """The name under which the values of a field are stored for one collection, locale and status."""
    return f"{collection.content_collection_id}/{locale}/{status}/{field}"


def find_key(db: Connection, collection: ContentCollection, slug: str, locale: str | None) -> str | None:
    """The key of the document that has the slug in a version for the locale; None if no version has the slug.

    If only versions for other locales have the slug, or the locale is None, all versions are searched. If several
    documents have the slug, it is the key of the one with the oldest version.
    """
    statement = select(table.c.document_key).where(*within(collection), table.c.slug == slug)
    if locale is not None:
        statement = statement.order_by((table.c.locale == locale).desc())
    return db.execute(statement.order_by(table.c.content_document_id).limit(1)).scalar()


def find_version(
    db: Connection, collection: ContentCollection, document_key: str, locale: str, *, lock: bool = False
) -> ContentDocument | None:
    """The version of a document for a locale, or None; with `lock` it is locked for this database transaction."""
    statement = select(*COLUMNS).where(
        *within(collection), table.c.document_key == document_key, table.c.locale == locale
    )
    if lock:
        statement = statement.with_for_update()
    return record(ContentDocument, db.execute(statement).one_or_none())


def lock_versions(
    db: Connection, collection: ContentCollection, version_keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], ContentDocument]:
    """Lock the existing versions with these keys and locales; return them by both; one statement."""
    if not version_keys:
        return {}
    keys, locales = zip(*version_keys, strict=True)
    is_listed = text(
        "(document_key, locale) IN (SELECT * FROM unnest(CAST(:keys AS uuid[]), CAST(:locales AS text[])))"
    )
    statement = (
        select(*COLUMNS).where(*within(collection), is_listed).order_by(table.c.content_document_id).with_for_update()
    )
    rows = db.execute(statement, {"keys": list(keys), "locales": list(locales)})
    documents = [ContentDocument(*row) for row in rows]
    return {(document.document_key, document.locale): document for document in documents}


def find_locales(db: Connection, collection: ContentCollection, document_key: str) -> list[str]:
    """The locales that a document has versions for, sorted."""
    statement = select(table.c.locale).where(*within(collection), table.c.document_key == document_key)
    return sorted(db.execute(statement).scalars())


def within(collection: ContentCollection) -> tuple[Any, ...]:
    """The conditions that a version of a document is in the collection, and not deleted."""
    return is_same(table, collection, "content_collection_id"), table.c.deleted_at.is_(None)


def upsert(
    db: Connection,
    collection: ContentCollection,
    rows: Sequence[Mapping[str, Any]],
    languages: Mapping[str, str],
    now: datetime,
) -> list[ContentDocument]:
    """Insert or replace versions; return them in the order of the rows, of which no two have the same key and locale.

    `languages` has the text search configuration of each locale. The number of statements does not depend on the rows.
    """
    if not rows:
        return []
    full_rows = [{**row, **derived_values(row), "language": languages[row["locale"]]} for row in rows]
    stored_rows = db.execute(
        _UPSERT_ROWS,
        {
            "organization_id": collection.organization_id,
            "collection_id": collection.content_collection_id,
            "fts_fields": list(collection.fts_fields),
            "rows": as_json(full_rows),
            "now": now,
        },
    )
    stored_documents = [ContentDocument(*row) for row in stored_rows]
    by_key_and_locale = {(document.document_key, document.locale): document for document in stored_documents}
    documents = [by_key_and_locale[row["document_key"], row["locale"]] for row in rows]
    _store_values(db, collection, documents)
    return documents


def _store_values(db: Connection, collection: ContentCollection, documents: Sequence[ContentDocument]) -> None:
    """Replace the stored values by which searches find and sort the documents, with two deferred statements."""
    ids = [document.content_document_id for document in documents]
    defer(db, _DELETE_VALUES, (collection.organization_id, ids))
    rows = [
        {
            "id": document.content_document_id,
            "series": series_of(collection, document.locale, document.status, value.field),
            "position": value.position,
            "text_value": value.text_value,
            "number_value": value.number_value,
            "instant_value": value.instant_value,
        }
        for document in documents
        for value in searchable_values(document.attrs)
    ]
    defer(db, _ADD_VALUES, (collection.organization_id, as_json(rows)))


def delete(db: Connection, document: ContentDocument, now: datetime) -> ContentDocument:
    """Delete a version: its row remains, but searches and addresses do not find it any more."""
    ids = (document.organization_id, [document.content_document_id])
    defer(db, _DELETE_VALUES, ids)
    statement = update(table).where(is_same(table, document, "content_document_id"))
    return ContentDocument(*db.execute(statement.values(deleted_at=now).returning(*COLUMNS)).one())


def find_locales_in_use(db: Connection, collection: ContentCollection) -> list[str]:
    """The locales that documents of the collection have versions for."""
    statement = select(table.c.locale).where(*within(collection)).distinct()
    return list(db.execute(statement).scalars())


def reindex(db: Connection, collection: ContentCollection, languages: Mapping[str, str]) -> None:
    """Rebuild the word index of all documents of a collection after a change of its `ftsFields`; one statement."""
    db.execute(
        text(_REINDEX),
        {
            "organization_id": collection.organization_id,
            "collection_id": collection.content_collection_id,
            "fts_fields": list(collection.fts_fields),
            "languages": as_json(languages),
        },
    )


def find_documents_about(db: Connection, book: CouponBook) -> list[tuple[str, str]]:
    """The documents that are about a coupon book: key of the collection, and key of the document."""
    rows = db.exec_driver_sql(_ABOUT_BOOK, (book.organization_id, book.coupon_book_key))
    return [(collection_key, document_key) for collection_key, document_key, _ in rows]
