"""Add badges, and let events set tiers

Follows: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    _add_badges()
    _add_member_badges()
    _add_trackings()
    _let_events_set_tiers()


def _add_badges() -> None:
    op.create_table(
        "badges",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("badge_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("badge_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("picture_url", sa.Text(), nullable=True),
        sa.Column("max_amount", sa.BigInteger(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "custom_attributes",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_badges_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "badge_id", name=op.f("pk_badges")),
        sa.UniqueConstraint("organization_id", "badge_key", name=op.f("uq_badges_organization_id_badge_key")),
    )


def _add_member_badges() -> None:
    op.create_table(
        "member_badges",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("badge_id", sa.BigInteger(), nullable=False),
        sa.Column("assigned_balance", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("assigned_balance >= 0", name=op.f("ck_member_badges_assigned_balance")),
        sa.ForeignKeyConstraint(
            ["organization_id", "badge_id"],
            ["badges.organization_id", "badges.badge_id"],
            name=op.f("fk_member_badges_organization_id_badge_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_member_badges_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "member_id", "badge_id", name=op.f("pk_member_badges")),
    )


def _add_trackings() -> None:
    op.create_table(
        "badge_trackings",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("badge_tracking_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("badge_tracking_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("badge_id", sa.BigInteger(), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("amount_assigned", sa.BigInteger(), nullable=False),
        sa.Column("updated_total_assigned", sa.BigInteger(), nullable=False),
        sa.Column("system_unique_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=False),
        sa.Column(
            "custom_attributes",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("loyalty_event_id", sa.BigInteger(), nullable=True),
        sa.Column("reverted_badge_tracking_id", sa.BigInteger(), nullable=True),
        sa.Column("reversal_badge_tracking_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        *(
            sa.ForeignKeyConstraint(
                ["organization_id", column],
                [f"{table}.organization_id", f"{table}.{target}"],
                name=op.f(f"fk_badge_trackings_organization_id_{column}"),
            )
            for column, table, target in (
                ("badge_id", "badges", "badge_id"),
                ("member_id", "members", "member_id"),
                ("reverted_badge_tracking_id", "badge_trackings", "badge_tracking_id"),
                ("reversal_badge_tracking_id", "badge_trackings", "badge_tracking_id"),
            )
        ),
        sa.PrimaryKeyConstraint("organization_id", "badge_tracking_id", name=op.f("pk_badge_trackings")),
        sa.UniqueConstraint(
            "organization_id", "badge_tracking_key", name=op.f("uq_badge_trackings_organization_id_badge_tracking_key")
        ),
        sa.UniqueConstraint(
            "organization_id", "system_unique_key", name=op.f("uq_badge_trackings_organization_id_system_unique_key")
        ),
    )
    op.create_index(
        "ix_badge_trackings_member",
        "badge_trackings",
        ["organization_id", "member_id", "badge_id", "badge_tracking_id"],
    )
    op.create_index(
        "ix_badge_trackings_event",
        "badge_trackings",
        ["organization_id", "loyalty_event_id"],
        postgresql_where=sa.text("loyalty_event_id IS NOT NULL"),
    )


def _let_events_set_tiers() -> None:
    op.add_column("member_tier_trackings", sa.Column("loyalty_event_id", sa.BigInteger(), nullable=True))
    op.add_column("member_tier_trackings", sa.Column("previous_tier_id", sa.BigInteger(), nullable=True))
    op.add_column(
        "member_tier_trackings",
        sa.Column("previous_is_manual", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.add_column("member_tier_trackings", sa.Column("previous_expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("member_tier_trackings", sa.Column("reversal_loyalty_event_id", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_member_tier_trackings_event",
        "member_tier_trackings",
        ["organization_id", "loyalty_event_id"],
        postgresql_where=sa.text("loyalty_event_id IS NOT NULL"),
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_index("ix_member_tier_trackings_event", "member_tier_trackings")
    for column in (
        "loyalty_event_id",
        "previous_tier_id",
        "previous_is_manual",
        "previous_expires_at",
        "reversal_loyalty_event_id",
    ):
        op.drop_column("member_tier_trackings", column)
    op.drop_table("badge_trackings")
    op.drop_table("member_badges")
    op.drop_table("badges")
