"""Limit the balance of wallets

Follows: 1012
"""

import sqlalchemy as sa
from alembic import op

revision = "1013"
down_revision = "1012"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the column; older servers limit no balance."""
    op.add_column("ledger_accounts", sa.Column("max_balance", sa.Numeric(), nullable=True))
