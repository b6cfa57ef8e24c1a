"""Remember what badge reverts missed

Follows: 0038
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Apply the change."""
    op.add_column("badge_trackings", sa.Column("missing", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.create_index(
        "ix_badge_trackings_missing",
        "badge_trackings",
        ["organization_id", "member_id"],
        unique=False,
        postgresql_where=sa.text("missing <> 0"),
    )
    op.execute(
        """
        UPDATE badge_trackings r SET missing = t.amount_assigned + r.amount_assigned FROM badge_trackings t
        WHERE t.organization_id = r.organization_id AND t.badge_tracking_id = r.reverted_badge_tracking_id
            AND t.amount_assigned + r.amount_assigned <> 0
        """
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("ix_badge_trackings_missing", table_name="badge_trackings", postgresql_where=sa.text("missing <> 0"))
    op.drop_column("badge_trackings", "missing")
