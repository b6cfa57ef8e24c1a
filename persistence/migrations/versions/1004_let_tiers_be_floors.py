"""Let tiers be floors

Follows: 1003
"""

import sqlalchemy as sa
from alembic import op

revision = "1004"
down_revision = "1003"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the floors of tiers.

    Older servers leave these columns unchanged, and treat a tier that comes from a floor as fixed.
    """
    op.add_column("member_tiers", sa.Column("floor_tier_id", sa.BigInteger(), nullable=True))
    op.add_column("member_tiers", sa.Column("floor_expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("member_tier_trackings", sa.Column("tier_hold", sa.Text(), nullable=True))
    op.add_column("member_tier_trackings", sa.Column("previous_floor_tier_id", sa.BigInteger(), nullable=True))
    op.add_column(
        "member_tier_trackings", sa.Column("previous_floor_expires_at", sa.DateTime(timezone=True), nullable=True)
    )
