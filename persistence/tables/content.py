"""Collections of content, the locale versions of their documents, and the values that searches compare."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKeyConstraint,
    Index,
    SmallInteger,
    Text,
    Uuid,
    collate,
    column,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.sql.elements import Grouping

from domain.content.collections import ContentCollection
from domain.content.documents import ContentDocument
from persistence.tables.base import (
    belongs_to_organization,
    exact,
    execute_on,
    foreign_key,
    index,
    instant,
    record_table,
    tenant_table,
    unique,
)

content_collections = record_table(
    "content_collections",
    ContentCollection,
    "content_collection_id",
    unique("collection_key"),
    unique("slug"),
    CheckConstraint("content_type IN ('static', 'coupon')", "content_type"),
    belongs_to_organization(),
    defaults={"content_version": "1"},
)

_NOT_DELETED = text("deleted_at IS NULL")
_SCOPE = ("organization_id", "content_collection_id", "locale", "status")

# The row of a deleted version stays; the same key and locale can then be written again, as a new row.
content_documents = record_table(
    "content_documents",
    ContentDocument,
    "content_document_id",
    # The time zone of the schedule, and its open hours of the week (0 to 167): queries do not read the schedule itself.
    Column("schedule_zone", Text),
    Column("schedule_hours", ARRAY(SmallInteger)),
    Column("coupon_book_key", Uuid(as_uuid=False)),
    Column("search", TSVECTOR, nullable=False, server_default=text("''")),
    instant("deleted_at"),
    CheckConstraint("status IN ('draft', 'published')", "status"),
    foreign_key("content_collections", "content_collection_id"),
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
    index(
        "ix_content_documents_slug",
        "content_collection_id",
        "slug",
        "content_document_id",
        where="deleted_at IS NULL AND slug IS NOT NULL",
    ),
    index("ix_content_documents_book", "coupon_book_key", where="deleted_at IS NULL AND coupon_book_key IS NOT NULL"),
    index(
        "ix_content_documents_zone",
        "content_collection_id",
        "schedule_zone",
        where="deleted_at IS NULL AND schedule_zone IS NOT NULL",
    ),
    Index(
        "ix_content_documents_search",
        "organization_id",
        "content_collection_id",
        "search",
        postgresql_using="gin",
        postgresql_where=_NOT_DELETED,
    ),
    types={"slug": Text(collation="C")},
)
execute_on("before_create", content_documents, "CREATE EXTENSION IF NOT EXISTS btree_gin")


def text_order(value: ColumnElement[str]) -> ColumnElement[str]:
    """The SQL expression that sorts texts; case and accents count only between texts that are equal without them.

    Only the first 64 characters are compared without case and accents, so that the longest text fits into an index.
    """
    # With the parentheses that PostgreSQL prints, since Alembic compares the two texts of an index.
    plain = func.regexp_replace(
        func.normalize(value, literal_column("NFKD")),
        literal_column(r"'[\u0300-\u036F]'"),
        literal_column("''"),
        literal_column("'g'"),
    )
    folded = func.left(func.lower(collate(plain, "default")), literal_column("64"))
    return collate(folded, "C").concat(Grouping(literal_column("chr(1)", Text).concat(value)))


# The values of a document's fields. `series` names collection, locale, status and field in one text, so that every
# search reads one range of an index, and the planner estimates the length of the range from one column.
content_values = tenant_table(
    "content_values",
    ("content_document_id", "series", "position"),
    Column("content_document_id", BigInteger, nullable=False),
    Column("series", Text(collation="C"), nullable=False),
    # 0 for a single value, by which documents are sorted; the elements of a list are numbered from 1.
    Column("position", SmallInteger, nullable=False),
    Column("text_value", Text(collation="C"), nullable=False),
    exact("number_value"),
    instant("instant_value"),
    ForeignKeyConstraint(
        ["organization_id", "content_document_id"],
        ["content_documents.organization_id", "content_documents.content_document_id"],
    ),
    index("ix_content_values_text", "series", "text_value", "content_document_id"),
    index(
        "ix_content_values_order",
        "series",
        text_order(column("text_value")).self_group(),
        "content_document_id",
        where="position = 0",
    ),
    index(
        "ix_content_values_number", "series", "number_value", "content_document_id", where="number_value IS NOT NULL"
    ),
    index(
        "ix_content_values_instant", "series", "instant_value", "content_document_id", where="instant_value IS NOT NULL"
    ),
)
