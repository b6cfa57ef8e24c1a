"""Let tiers move

Follows: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "member_tier_trackings",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("member_tier_tracking_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("loyalty_program_id", sa.BigInteger(), nullable=False),
        sa.Column("loyalty_tier_id", sa.BigInteger(), nullable=True),
        sa.Column("answered_tier_id", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("system_unique_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "loyalty_program_id"],
            ["loyalty_programs.organization_id", "loyalty_programs.loyalty_program_id"],
            name=op.f("fk_member_tier_trackings_organization_id_loyalty_program_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_member_tier_trackings_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "member_tier_tracking_id", name=op.f("pk_member_tier_trackings")),
        sa.UniqueConstraint(
            "organization_id",
            "system_unique_key",
            name=op.f("uq_member_tier_trackings_organization_id_system_unique_key"),
        ),
    )
    op.create_index(
        "ix_member_tier_trackings_member",
        "member_tier_trackings",
        ["organization_id", "member_id", "loyalty_program_id"],
    )
    op.add_column("member_tiers", sa.Column("is_manual", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.create_index(
        "ix_member_tiers_expires_at",
        "member_tiers",
        ["organization_id", "expires_at"],
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.add_column("events", sa.Column("cause_loyalty_event_id", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_events_cause",
        "events",
        ["organization_id", "cause_loyalty_event_id"],
        postgresql_where=sa.text("cause_loyalty_event_id IS NOT NULL"),
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_index("ix_events_cause", "events")
    op.drop_column("events", "cause_loyalty_event_id")
    op.drop_index("ix_member_tiers_expires_at", "member_tiers")
    op.drop_column("member_tiers", "is_manual")
    op.drop_table("member_tier_trackings")
