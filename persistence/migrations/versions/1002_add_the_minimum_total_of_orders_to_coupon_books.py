"""Add the minimum total of orders to coupon books

Follows: 1001
"""

import sqlalchemy as sa
from alembic import op

revision = "1002"
down_revision = "1001"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the column; older servers leave it empty."""
    op.add_column("coupon_books", sa.Column("min_order_total", sa.Numeric(), nullable=True))
