"""Add imports

Follows: 0030
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "imports",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("import_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("emit_events", sa.Boolean(), nullable=False),
        sa.Column("ignore_unknown_columns", sa.Boolean(), nullable=False),
        sa.Column("delimiter", sa.Text(), nullable=True),
        sa.Column("encoding", sa.Text(), nullable=False),
        sa.Column(
            "column_names",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("rows_read", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("rows_done", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("rows_failed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("bytes_read", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("parts", sa.Integer(), nullable=True),
        sa.Column("header", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("next_byte", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_line", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("worked_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_imports_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "import_id", name=op.f("pk_imports")),
    )
    op.create_index(
        "ix_imports_to_do",
        "imports",
        ["updated_at"],
        unique=False,
        postgresql_where=sa.text("status IN ('queued', 'running')"),
    )
    op.create_table(
        "failed_import_rows",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("import_id", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("column_name", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("row", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("loyalty_member_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id", "import_id"],
            ["imports.organization_id", "imports.import_id"],
            name=op.f("fk_failed_import_rows_organization_id_import_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "import_id", "line", name=op.f("pk_failed_import_rows")),
    )
    op.create_index(
        "ix_failed_import_rows_member",
        "failed_import_rows",
        ["organization_id", "loyalty_member_id"],
        unique=False,
        postgresql_where=sa.text("loyalty_member_id IS NOT NULL"),
    )
    op.create_table(
        "import_parts",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("import_id", sa.BigInteger(), nullable=False),
        sa.Column("part_number", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "import_id"],
            ["imports.organization_id", "imports.import_id"],
            name=op.f("fk_import_parts_organization_id_import_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "import_id", "part_number", name=op.f("pk_import_parts")),
    )
    op.create_table(
        "import_blocks",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("import_id", sa.BigInteger(), nullable=False),
        sa.Column("part_number", sa.Integer(), nullable=False),
        sa.Column("block_number", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "import_id", "part_number"],
            ["import_parts.organization_id", "import_parts.import_id", "import_parts.part_number"],
            name=op.f("fk_import_blocks_organization_id_import_id_part_number"),
        ),
        sa.PrimaryKeyConstraint(
            "organization_id", "import_id", "part_number", "block_number", name=op.f("pk_import_blocks")
        ),
    )
    # Parts are packed already, or are read once.
    op.execute("ALTER TABLE import_blocks ALTER COLUMN content SET STORAGE EXTERNAL")


def downgrade() -> None:
    """Change it back."""
    op.drop_table("import_blocks")
    op.drop_table("import_parts")
    op.drop_index(
        "ix_failed_import_rows_member",
        table_name="failed_import_rows",
        postgresql_where=sa.text("loyalty_member_id IS NOT NULL"),
    )
    op.drop_table("failed_import_rows")
    op.drop_index("ix_imports_to_do", table_name="imports", postgresql_where=sa.text("status IN ('queued', 'running')"))
    op.drop_table("imports")
