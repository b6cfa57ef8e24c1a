"""Add missions

Follows: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "missions",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("mission_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("mission_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("campaign_id", sa.BigInteger(), nullable=True),
        sa.Column("loyalty_program_id", sa.BigInteger(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("short_description", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("picture_url", sa.Text(), nullable=True),
        sa.Column(
            "custom_attributes",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("audience_id", sa.BigInteger(), nullable=True),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("matcher_id", sa.BigInteger(), nullable=True),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("valid_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("valid_to", sa.DateTime(timezone=True), nullable=True),
        sa.Column("max_repetitions", sa.BigInteger(), nullable=False),
        sa.Column("repetition_period", sa.Text(), nullable=True),
        sa.Column("period_limit", sa.BigInteger(), nullable=True),
        sa.Column("goal_count", sa.BigInteger(), nullable=False),
        sa.Column("points_accrual", sa.Numeric(), nullable=True),
        sa.Column("ledger_id", sa.BigInteger(), nullable=True),
        sa.Column("ledger_account_id", sa.BigInteger(), nullable=True),
        sa.Column("coupon_book_key", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("badge_key", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("ledger_transaction_description", sa.Text(), nullable=True),
        sa.Column("inline_matcher", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("badge_matcher", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("min_spend_value", sa.Numeric(), nullable=True),
        sa.Column("manual_expiration", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "audience_id"],
            ["audiences.organization_id", "audiences.audience_id"],
            name=op.f("fk_missions_organization_id_audience_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "campaign_id"],
            ["campaigns.organization_id", "campaigns.campaign_id"],
            name=op.f("fk_missions_organization_id_campaign_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "ledger_account_id"],
            ["ledger_accounts.organization_id", "ledger_accounts.ledger_account_id"],
            name=op.f("fk_missions_organization_id_ledger_account_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "ledger_id"],
            ["ledgers.organization_id", "ledgers.ledger_id"],
            name=op.f("fk_missions_organization_id_ledger_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "loyalty_program_id"],
            ["loyalty_programs.organization_id", "loyalty_programs.loyalty_program_id"],
            name=op.f("fk_missions_organization_id_loyalty_program_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "matcher_id"],
            ["matchers.organization_id", "matchers.matcher_id"],
            name=op.f("fk_missions_organization_id_matcher_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_missions_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "mission_id", name=op.f("pk_missions")),
        sa.UniqueConstraint("organization_id", "code", name=op.f("uq_missions_organization_id_code")),
        sa.UniqueConstraint("organization_id", "mission_key", name=op.f("uq_missions_organization_id_mission_key")),
    )
    op.create_table(
        "member_missions",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("mission_id", sa.BigInteger(), nullable=False),
        sa.Column("goal_count", sa.BigInteger(), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=False),
        sa.Column("times_achieved", sa.BigInteger(), nullable=False),
        sa.Column("last_counter_count_when_achieved", sa.BigInteger(), nullable=True),
        sa.Column("last_achieved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_member_missions_organization_id_member_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "mission_id"],
            ["missions.organization_id", "missions.mission_id"],
            name=op.f("fk_member_missions_organization_id_mission_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "member_id", "mission_id", name=op.f("pk_member_missions")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index("ix_member_missions_mission", "member_missions", ["organization_id", "mission_id"])
    op.create_table(
        "mission_trackings",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("mission_tracking_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("mission_id", sa.BigInteger(), nullable=False),
        sa.Column("loyalty_event_id", sa.BigInteger(), nullable=True),
        sa.Column("counted", sa.BigInteger(), nullable=False),
        sa.Column("achieved", sa.BigInteger(), nullable=False),
        sa.Column("goal_count", sa.BigInteger(), nullable=False),
        sa.Column("happened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("system_unique_key", sa.Text(), nullable=True),
        sa.Column("request_digest", sa.LargeBinary(), nullable=True),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("answer", postgresql.JSON(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("reversal_loyalty_event_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_mission_trackings_organization_id_member_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "mission_id"],
            ["missions.organization_id", "missions.mission_id"],
            name=op.f("fk_mission_trackings_organization_id_mission_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "mission_tracking_id", name=op.f("pk_mission_trackings")),
        sa.UniqueConstraint(
            "organization_id", "system_unique_key", name=op.f("uq_mission_trackings_organization_id_system_unique_key")
        ),
    )
    op.create_index(
        "ix_mission_trackings_achieved",
        "mission_trackings",
        ["organization_id", "member_id", "mission_id", "happened_at"],
        postgresql_where=sa.text("achieved > 0 AND reversal_loyalty_event_id IS NULL"),
    )
    op.create_index(
        "ix_mission_trackings_event",
        "mission_trackings",
        ["organization_id", "loyalty_event_id"],
        postgresql_where=sa.text("loyalty_event_id IS NOT NULL"),
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_table("mission_trackings")
    op.drop_table("member_missions")
    op.drop_table("missions")
