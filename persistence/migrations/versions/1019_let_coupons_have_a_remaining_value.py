"""Let coupons have a remaining value

Follows: 1018
"""

import sqlalchemy as sa
from alembic import op

revision = "1019"
down_revision = "1018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. An older server would use a coupon at once, whatever its value, so it does not work with them."""
    op.add_column("coupon_books", sa.Column("is_value_coupon", sa.Boolean(), server_default="false", nullable=False))
    op.add_column("coupon_lots", sa.Column("value", sa.Numeric(), nullable=True))
    op.add_column("coupon_lots", sa.Column("remaining_value", sa.Numeric(), nullable=True))
    op.add_column("coupon_usages", sa.Column("remaining_value", sa.Numeric(), nullable=True))
