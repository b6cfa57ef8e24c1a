"""Add stacking groups

Follows: 1024
"""

import sqlalchemy as sa
from alembic import op

revision = "1025"
down_revision = "1024"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the groups, which actions name, and exclusive campaigns; older servers apply every action."""
    op.create_table(
        "stacking_groups",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("stacking_group_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("stacking_group_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("external_key", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.organization_id"],
            name=op.f("fk_stacking_groups_organization_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "stacking_group_id", name=op.f("pk_stacking_groups")),
        sa.UniqueConstraint(
            "organization_id", "external_key", name=op.f("uq_stacking_groups_organization_id_external_key")
        ),
        sa.UniqueConstraint(
            "organization_id",
            "stacking_group_key",
            name=op.f("uq_stacking_groups_organization_id_stacking_group_key"),
        ),
    )
    op.add_column("campaign_actions", sa.Column("stacking_group_key", sa.Uuid(as_uuid=False), nullable=True))
    op.add_column("campaigns", sa.Column("exclusive", sa.Boolean(), server_default=sa.text("false"), nullable=False))
