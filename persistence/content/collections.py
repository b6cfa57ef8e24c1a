"""Collections of content."""

from sqlalchemy import Connection, select

from domain.content.collections import ContentCollection, is_uuid
from persistence.connections import defer
from persistence.filters import has_all
from persistence.records import Records
from persistence.rows import change
from persistence.tables.content import content_collections as table

COLLECTIONS = Records(
    table,
    ContentCollection,
    equal=("contentType",),
    filters={"tags": has_all(table.c.tags)},
    locks_references=True,
)
SLUG_CONSTRAINT = "uq_content_collections_organization_id_slug"

# All transactions lock in one order, so that none deadlock.
_INCREMENT_VERSIONS = """
UPDATE content_collections c SET content_version = c.content_version + 1
FROM (
    SELECT content_collection_id FROM content_collections
    WHERE organization_id = %(organization_id)s ORDER BY content_collection_id FOR NO KEY UPDATE
) l
WHERE c.organization_id = %(organization_id)s AND c.content_collection_id = l.content_collection_id
"""


def find(db: Connection, organization_id: int, key_or_slug: str) -> ContentCollection | None:
    """The collection with this key or slug; the form decides which of the two it is."""
    column = "collection_key" if is_uuid(key_or_slug) else "slug"
    return COLLECTIONS.find_by(db, organization_id, **{column: key_or_slug})


def increment_content_version(db: Connection, collection: ContentCollection) -> ContentCollection:
    """Increment the content version, so that all processes read the documents again; this locks the collection, too."""
    address = {
        "organization_id": collection.organization_id,
        "content_collection_id": collection.content_collection_id,
    }
    return change(db, table, ContentCollection, address, {"content_version": table.c.content_version + 1})


def increment_content_versions(db: Connection, organization_id: int) -> None:
    """Increment the content versions of all collections, as `increment_content_version` does."""
    defer(db, _INCREMENT_VERSIONS, {"organization_id": organization_id})


def find_slugs_like(db: Connection, organization_id: int, slug: str) -> set[str]:
    """The slugs of collections that begin with this slug."""
    statement = select(table.c.slug).where(
        table.c.organization_id == organization_id, table.c.slug.startswith(slug, autoescape=True)
    )
    return set(db.execute(statement).scalars())
