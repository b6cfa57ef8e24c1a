"""Add hours of campaigns and coupon books

Follows: 1005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "1006"
down_revision = "1005"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the schedules and the time zones of locations; older servers open everything at all hours."""
    for table in ("campaigns", "coupon_books"):
        op.add_column(table, sa.Column("day_of_week_schedule", JSONB(none_as_null=True), nullable=True))
    op.add_column(
        "organizations",
        sa.Column("location_timezones", JSONB(none_as_null=True), server_default=sa.text("'{}'"), nullable=False),
    )
