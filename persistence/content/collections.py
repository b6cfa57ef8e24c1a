"""Collections of content."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, cast, select, update

from domain.content.collections import ContentCollection, is_uuid
from domain.problems import Refusal
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, record, with_external_key
from persistence.tables.content import content_collections as table

ORDER_COLUMNS = {
    "collectionKey": table.c.collection_key,
    "name": table.c.name,
    "slug": table.c.slug,
    "contentType": table.c.content_type,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}
SLUG_CONSTRAINT = "uq_content_collections_organization_id_slug"

_COLUMNS = columns_of(table, ContentCollection)


def find(db: Connection, organization_id: int, key_or_slug: str) -> ContentCollection | None:
    """The collection with this key or slug; the form decides which of the two it is."""
    condition = table.c.collection_key == key_or_slug if is_uuid(key_or_slug) else table.c.slug == key_or_slug
    statement = select(*_COLUMNS).where(table.c.organization_id == organization_id, condition)
    return record(ContentCollection, db.execute(statement).one_or_none())


def lock(db: Connection, collection: ContentCollection) -> ContentCollection:
    """The collection, locked for this transaction to change while no document of it is written."""
    statement = select(*_COLUMNS).where(*_this(collection))
    return ContentCollection(*db.execute(statement.with_for_update()).one())


def raise_content_version(db: Connection, collection: ContentCollection) -> ContentCollection:
    """Lock the collection while this transaction changes documents, and let all processes read them again."""
    statement = update(table).where(*_this(collection)).values(content_version=table.c.content_version + 1)
    return ContentCollection(*db.execute(statement.returning(*_COLUMNS)).one())


def _this(collection: ContentCollection) -> tuple[ColumnElement[bool], ...]:
    return (
        table.c.organization_id == collection.organization_id,
        table.c.content_collection_id == collection.content_collection_id,
    )


def find_page(
    db: Connection,
    organization_id: int,
    page: Page,
    *,
    content_type: str | None,
    tags: Collection[str],
    external_key: str | None,
) -> Paged[ContentCollection]:
    """A page of collections; all of `tags` must be there."""
    conditions = [table.c.organization_id == organization_id, *with_external_key(table, external_key)]
    if content_type is not None:
        conditions.append(table.c.content_type == content_type)
    if tags:
        conditions.append(table.c.tags.bool_op("@>")(cast(list(tags), table.c.tags.type)))
    return paged(db, ContentCollection, table, conditions, page, table.c.content_collection_id, ORDER_COLUMNS)


def slugs_like(db: Connection, organization_id: int, slug: str) -> set[str]:
    """The slugs in use that begin with this one."""
    statement = select(table.c.slug).where(
        table.c.organization_id == organization_id, table.c.slug.startswith(slug, autoescape=True)
    )
    return set(db.execute(statement).scalars())


def add_collection(
    db: Connection, organization_id: int, refusals: Mapping[str, Refusal], **values: Any
) -> ContentCollection:
    """Insert a collection."""
    return add(db, table, ContentCollection, {"organization_id": organization_id, **values}, refusals)


def change_collection(
    db: Connection, collection: ContentCollection, refusals: Mapping[str, Refusal], /, **values: Any
) -> ContentCollection:
    """Change a collection."""
    address = {
        "organization_id": collection.organization_id,
        "content_collection_id": collection.content_collection_id,
    }
    return change(db, table, ContentCollection, address, values, refusals)
