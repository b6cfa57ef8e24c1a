"""Keep payments of orders

Follows: 1025
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1026"
down_revision = "1025"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add how orders are paid; older servers store orders without it, and refund nothing."""
    op.add_column("purchase_orders", sa.Column("payments", postgresql.JSONB(none_as_null=True), nullable=True))
