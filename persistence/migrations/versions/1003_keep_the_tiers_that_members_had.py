"""Keep the tiers that members had

Follows: 1002
"""

import sqlalchemy as sa
from alembic import op

revision = "1003"
down_revision = "1002"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the table of past tiers; existing organizations evaluate late events by the present tiers, as before."""
    op.create_table(
        "past_member_tiers",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("past_member_tier_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("loyalty_program_id", sa.BigInteger(), nullable=False),
        sa.Column("loyalty_tier_id", sa.BigInteger(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "loyalty_program_id"],
            ["loyalty_programs.organization_id", "loyalty_programs.loyalty_program_id"],
            name=op.f("fk_past_member_tiers_organization_id_loyalty_program_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_past_member_tiers_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "past_member_tier_id", name=op.f("pk_past_member_tiers")),
    )
    op.create_index("ix_past_member_tiers_member", "past_member_tiers", ["organization_id", "member_id"])
    op.add_column(
        "organizations",
        sa.Column("late_event_tiers", sa.Text(), server_default=sa.text("'evaluation'"), nullable=False),
    )
    op.create_check_constraint(
        op.f("ck_organizations_late_event_tiers"),
        "organizations",
        "late_event_tiers IN ('event-date', 'evaluation')",
    )
