"""Queue events

Follows: 0010
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "periodic_jobs",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("next_run_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_result", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_periodic_jobs")),
    )
    op.create_table(
        "queued_events",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("loyalty_event_id", sa.BigInteger(), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("dead_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id", "loyalty_event_id"],
            ["events.organization_id", "events.loyalty_event_id"],
            name=op.f("fk_queued_events_organization_id_loyalty_event_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "loyalty_event_id", name=op.f("pk_queued_events")),
    )
    op.create_index(
        "ix_queued_events_dead",
        "queued_events",
        ["organization_id", "loyalty_event_id"],
        unique=False,
        postgresql_where=sa.text("dead_at IS NOT NULL"),
    )
    op.create_index(
        "ix_queued_events_line",
        "queued_events",
        ["organization_id", "member_id", "place"],
        unique=False,
        postgresql_where=sa.text("dead_at IS NULL"),
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_index("ix_queued_events_line", table_name="queued_events", postgresql_where=sa.text("dead_at IS NULL"))
    op.drop_index("ix_queued_events_dead", table_name="queued_events", postgresql_where=sa.text("dead_at IS NOT NULL"))
    op.drop_table("queued_events")
    op.drop_table("periodic_jobs")
