"""Add exports

Follows: 0031
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "exports",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("export_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("updated_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("after", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("parts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("rows", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_exports_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "export_id", name=op.f("pk_exports")),
    )
    op.create_index(
        "ix_exports_kept", "exports", ["finished_at"], unique=False, postgresql_where=sa.text("status = 'done'")
    )
    op.create_index(
        "ix_exports_to_do",
        "exports",
        ["updated_at"],
        unique=False,
        postgresql_where=sa.text("status IN ('queued', 'running')"),
    )
    op.create_table(
        "export_parts",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("export_id", sa.BigInteger(), nullable=False),
        sa.Column("part_number", sa.Integer(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "export_id"],
            ["exports.organization_id", "exports.export_id"],
            name=op.f("fk_export_parts_organization_id_export_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "export_id", "part_number", name=op.f("pk_export_parts")),
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_table("export_parts")
    op.drop_index("ix_exports_to_do", table_name="exports", postgresql_where=sa.text("status IN ('queued', 'running')"))
    op.drop_index("ix_exports_kept", table_name="exports", postgresql_where=sa.text("status = 'done'"))
    op.drop_table("exports")
