"""Tell releases of points in timelines

Follows: 1027
"""

import sqlalchemy as sa
from alembic import op

revision = "1028"
down_revision = "1027"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the index by which timelines find the releases of a member's points."""
    op.create_index(
        "ix_events_release",
        "events",
        ["organization_id", "member_id", "loyalty_event_id"],
        postgresql_where=sa.text("event_type = 'points-available'"),
    )
