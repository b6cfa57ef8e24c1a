"""Let uses of coupons stay when orders are cancelled

Follows: 1010
"""

import sqlalchemy as sa
from alembic import op

revision = "1011"
down_revision = "1010"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the column; older servers restore every use."""
    op.add_column("coupon_books", sa.Column("restore_on_cancel", sa.Boolean(), server_default="true", nullable=False))
