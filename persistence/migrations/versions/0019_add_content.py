"""Add content

Follows: 0018
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.execute("CREATE EXTENSION IF NOT EXISTS btree_gin")
    op.create_table(
        "content_collections",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("content_collection_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("collection_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("fts_fields", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "facet_fields",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "jsonschema",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column(
            "custom_attributes",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("content_type IN ('static', 'coupon')", name=op.f("ck_content_collections_content_type")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_content_collections_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "content_collection_id", name=op.f("pk_content_collections")),
        sa.UniqueConstraint(
            "organization_id", "collection_key", name=op.f("uq_content_collections_organization_id_collection_key")
        ),
        sa.UniqueConstraint("organization_id", "slug", name=op.f("uq_content_collections_organization_id_slug")),
    )
    op.create_table(
        "content_documents",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("content_document_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("content_collection_id", sa.BigInteger(), nullable=False),
        sa.Column("document_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("locale", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(collation="C"), nullable=True),
        sa.Column(
            "attrs",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("from_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("to_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("audience_keys", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("days_of_week", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("day_of_week_schedule", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("schedule_zone", sa.Text(), nullable=True),
        sa.Column("schedule_hours", sa.ARRAY(sa.SmallInteger()), nullable=True),
        sa.Column("coupon_book_key", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("search", postgresql.TSVECTOR(), server_default=sa.text("''"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("status IN ('draft', 'published')", name=op.f("ck_content_documents_status")),
        sa.ForeignKeyConstraint(
            ["organization_id", "content_collection_id"],
            ["content_collections.organization_id", "content_collections.content_collection_id"],
            name=op.f("fk_content_documents_organization_id_content_collection_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "content_document_id", name=op.f("pk_content_documents")),
    )
    op.create_index(
        "ix_content_documents_book",
        "content_documents",
        ["organization_id", "coupon_book_key"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL AND coupon_book_key IS NOT NULL"),
    )
    op.create_index(
        "ix_content_documents_by_slug",
        "content_documents",
        ["organization_id", "content_collection_id", "locale", "status", "slug", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_content_documents_created",
        "content_documents",
        ["organization_id", "content_collection_id", "locale", "status", "created_at", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_content_documents_from",
        "content_documents",
        ["organization_id", "content_collection_id", "locale", "status", "from_date", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_content_documents_newest",
        "content_documents",
        ["organization_id", "content_collection_id", "locale", "status", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_content_documents_search",
        "content_documents",
        ["organization_id", "content_collection_id", "search"],
        unique=False,
        postgresql_using="gin",
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_content_documents_slug",
        "content_documents",
        ["organization_id", "content_collection_id", "slug", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL AND slug IS NOT NULL"),
    )
    op.create_index(
        "ix_content_documents_to",
        "content_documents",
        ["organization_id", "content_collection_id", "locale", "status", "to_date", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_content_documents_updated",
        "content_documents",
        ["organization_id", "content_collection_id", "locale", "status", "updated_at", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_content_documents_zone",
        "content_documents",
        ["organization_id", "content_collection_id", "schedule_zone"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL AND schedule_zone IS NOT NULL"),
    )
    op.create_index(
        "uq_content_documents_version",
        "content_documents",
        ["organization_id", "content_collection_id", "document_key", "locale"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "content_values",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("content_document_id", sa.BigInteger(), nullable=False),
        sa.Column("series", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("text_value", sa.Text(collation="C"), nullable=False),
        sa.Column("number_value", sa.Numeric(), nullable=True),
        sa.Column("instant_value", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id", "content_document_id"],
            ["content_documents.organization_id", "content_documents.content_document_id"],
            name=op.f("fk_content_values_organization_id_content_document_id"),
        ),
        sa.PrimaryKeyConstraint(
            "organization_id", "content_document_id", "series", "position", name=op.f("pk_content_values")
        ),
    )
    op.create_index(
        "ix_content_values_instant",
        "content_values",
        ["organization_id", "series", "instant_value", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("instant_value IS NOT NULL"),
    )
    op.create_index(
        "ix_content_values_number",
        "content_values",
        ["organization_id", "series", "number_value", "content_document_id"],
        unique=False,
        postgresql_where=sa.text("number_value IS NOT NULL"),
    )
    op.create_index(
        "ix_content_values_text",
        "content_values",
        ["organization_id", "series", "text_value", "content_document_id"],
        unique=False,
    )


def downgrade() -> None:
    """Change it back."""

    op.drop_index("ix_content_values_text", table_name="content_values")
    op.drop_index(
        "ix_content_values_number", table_name="content_values", postgresql_where=sa.text("number_value IS NOT NULL")
    )
    op.drop_index(
        "ix_content_values_instant", table_name="content_values", postgresql_where=sa.text("instant_value IS NOT NULL")
    )
    op.drop_table("content_values")
    op.drop_index(
        "uq_content_documents_version", table_name="content_documents", postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.drop_index(
        "ix_content_documents_zone",
        table_name="content_documents",
        postgresql_where=sa.text("deleted_at IS NULL AND schedule_zone IS NOT NULL"),
    )
    op.drop_index(
        "ix_content_documents_updated", table_name="content_documents", postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.drop_index(
        "ix_content_documents_to", table_name="content_documents", postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.drop_index(
        "ix_content_documents_slug",
        table_name="content_documents",
        postgresql_where=sa.text("deleted_at IS NULL AND slug IS NOT NULL"),
    )
    op.drop_index(
        "ix_content_documents_search",
        table_name="content_documents",
        postgresql_using="gin",
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.drop_index(
        "ix_content_documents_newest", table_name="content_documents", postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.drop_index(
        "ix_content_documents_from", table_name="content_documents", postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.drop_index(
        "ix_content_documents_created", table_name="content_documents", postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.drop_index(
        "ix_content_documents_by_slug", table_name="content_documents", postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.drop_index(
        "ix_content_documents_book",
        table_name="content_documents",
        postgresql_where=sa.text("deleted_at IS NULL AND coupon_book_key IS NOT NULL"),
    )
    op.drop_table("content_documents")
    op.drop_table("content_collections")
