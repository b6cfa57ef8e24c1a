"""Add currencies

Follows: 1011
"""

import sqlalchemy as sa
from alembic import op

revision = "1012"
down_revision = "1011"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the columns; older servers store orders without a currency, and have campaigns apply to all of them."""
    for table in ("organizations", "campaigns", "missions", "purchase_orders"):
        op.add_column(table, sa.Column("currency", sa.Text(), nullable=True))
