"""Give points and coupons a worth

Follows: 1013
"""

import sqlalchemy as sa
from alembic import op

revision = "1014"
down_revision = "1013"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the worth of points by account, and that of coupons by book."""
    op.add_column("ledger_accounts", sa.Column("fiat_per_point", sa.Numeric(), nullable=True))
    op.add_column("coupon_books", sa.Column("face_value", sa.Numeric(), nullable=True))
