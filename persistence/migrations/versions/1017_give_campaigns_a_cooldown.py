"""Give campaigns a cooldown

Follows: 1016
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1017"
down_revision = "1016"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the columns; older servers keep no cooldown, and note of no event that a campaign with one had an effect."""
    op.add_column("campaigns", sa.Column("cooldown", sa.Text(), nullable=True))
    op.add_column("events", sa.Column("cooldown_campaign_ids", postgresql.ARRAY(sa.BigInteger()), nullable=True))
    op.create_index(
        "ix_events_cooldown",
        "events",
        ["organization_id", "member_id", sa.text("coalesce(external_event_date, created_at)")],
        postgresql_where=sa.text("cooldown_campaign_ids IS NOT NULL"),
    )
