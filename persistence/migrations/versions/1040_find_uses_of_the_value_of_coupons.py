"""Find uses of the value of coupons

Follows: 1039
"""

import sqlalchemy as sa
from alembic import op

revision = "1040"
down_revision = "1039"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the index by which codes with uses of their value are kept out of the stock."""
    op.create_index(
        "ix_coupon_usages_value",
        "coupon_usages",
        ["organization_id", "coupon_id"],
        postgresql_where=sa.text("remaining_value IS NOT NULL AND amount_assigned = 0 AND reverted_usage_id IS NULL"),
    )
