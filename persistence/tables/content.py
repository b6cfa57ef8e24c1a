"""Collections of content, the locale versions of their documents, and the values that searches compare."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    exact,
    execute_on,
    external_key,
    instant,
    key,
    metadata,
    refers_to,
    tenant_table,
    texts,
)

content_collections = tenant_table(
    "content_collections",
    "content_collection_id",
    key("collection_key"),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("slug", Text, nullable=False),
    texts("fts_fields"),
    document("facet_fields"),
    document("jsonschema"),
    texts("tags"),
    Column("content_type", Text, nullable=False),
    document("custom_attributes"),
    # The text search configuration of documents of the default locale, which goes by the organization's own locale.
    Column("language", Text, nullable=False),
    # Rises with every change of a document, so that no process shows what it read before.
    Column("content_version", BigInteger, nullable=False, server_default=text("1")),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "collection_key"),
    UniqueConstraint("organization_id", "slug"),
    CheckConstraint("content_type IN ('static', 'coupon')", "content_type"),
    belongs_to_organization(),
)

_NOT_DELETED = text("deleted_at IS NULL")
_SCOPE = ("organization_id", "content_collection_id", "locale", "status")

# A deleted version stays for good; the same key and locale can then be written again, as a new version.
content_documents = tenant_table(
    "content_documents",
    "content_document_id",
    Column("content_collection_id", BigInteger, nullable=False),
    key("document_key"),
    Column("locale", Text, nullable=False),
    Column("slug", Text(collation="C")),
    document("attrs"),
    Column("status", Text, nullable=False),
    instant("from_date"),
    instant("to_date"),
    texts("audience_keys"),
    texts("days_of_week"),
    document("day_of_week_schedule", nullable=True),
    # The schedule as hours of the week (0 to 167) in its zone, for a condition that needs no look into it.
    Column("schedule_zone", Text),
    Column("schedule_hours", ARRAY(SmallInteger)),
    Column("coupon_book_key", Uuid(as_uuid=False)),
    Column("search", TSVECTOR, nullable=False, server_default=text("''")),
    *created_and_updated(),
    instant("deleted_at"),
    CheckConstraint("status IN ('draft', 'published')", "status"),
    refers_to("content_collections", "content_collection_id"),
    Index(
        "uq_content_documents_version",
        "organization_id",
        "content_collection_id",
        "document_key",
        "locale",
        unique=True,
        postgresql_where=_NOT_DELETED,
    ),
    Index("ix_content_documents_newest", *_SCOPE, "content_document_id", postgresql_where=_NOT_DELETED),
    Index("ix_content_documents_created", *_SCOPE, "created_at", "content_document_id", postgresql_where=_NOT_DELETED),
    Index("ix_content_documents_updated", *_SCOPE, "updated_at", "content_document_id", postgresql_where=_NOT_DELETED),
    Index("ix_content_documents_from", *_SCOPE, "from_date", "content_document_id", postgresql_where=_NOT_DELETED),
    Index("ix_content_documents_to", *_SCOPE, "to_date", "content_document_id", postgresql_where=_NOT_DELETED),
    Index("ix_content_documents_by_slug", *_SCOPE, "slug", "content_document_id", postgresql_where=_NOT_DELETED),
    Index(
        "ix_content_documents_slug",
        "organization_id",
        "content_collection_id",
        "slug",
        "content_document_id",
        postgresql_where=text("deleted_at IS NULL AND slug IS NOT NULL"),
    ),
    Index(
        "ix_content_documents_book",
        "organization_id",
        "coupon_book_key",
        postgresql_where=text("deleted_at IS NULL AND coupon_book_key IS NOT NULL"),
    ),
    Index(
        "ix_content_documents_zone",
        "organization_id",
        "content_collection_id",
        "schedule_zone",
        postgresql_where=text("deleted_at IS NULL AND schedule_zone IS NOT NULL"),
    ),
    Index(
        "ix_content_documents_search",
        "organization_id",
        "content_collection_id",
        "search",
        postgresql_using="gin",
        postgresql_where=_NOT_DELETED,
    ),
)
execute_on("before_create", content_documents, "CREATE EXTENSION IF NOT EXISTS btree_gin")

# The values of a document's fields. `series` names collection, locale, status and field in one text, so that every
# search reads one stretch of an index, and the planner knows from one column how long it is.
content_values = Table(
    "content_values",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("content_document_id", BigInteger, nullable=False),
    Column("series", Text(collation="C"), nullable=False),
    # 0 for the value of a field, which documents are sorted by; from 1 for the elements of a list.
    Column("position", SmallInteger, nullable=False),
    Column("text_value", Text(collation="C"), nullable=False),
    exact("number_value"),
    instant("instant_value"),
    PrimaryKeyConstraint("organization_id", "content_document_id", "series", "position"),
    ForeignKeyConstraint(
        ["organization_id", "content_document_id"],
        ["content_documents.organization_id", "content_documents.content_document_id"],
    ),
    Index("ix_content_values_text", "organization_id", "series", "text_value", "content_document_id"),
    Index(
        "ix_content_values_number",
        "organization_id",
        "series",
        "number_value",
        "content_document_id",
        postgresql_where=text("number_value IS NOT NULL"),
    ),
    Index(
        "ix_content_values_instant",
        "organization_id",
        "series",
        "instant_value",
        "content_document_id",
        postgresql_where=text("instant_value IS NOT NULL"),
    ),
)
