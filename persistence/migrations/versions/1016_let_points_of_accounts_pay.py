"""Let points of accounts pay

Follows: 1015
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1016"
down_revision = "1015"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add how the points of accounts pay; none do at first."""
    op.add_column("ledger_accounts", sa.Column("redemption", postgresql.JSONB(none_as_null=True), nullable=True))
