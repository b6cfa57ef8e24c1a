"""Limit the balance of wallets"""

import sqlalchemy as sa
from alembic import op

revision = "1013"
down_revision = "1012"

EXPANDS = True


def upgrade() -> None:
    """Add the column; older servers limit no balance."""
    op.add_column("ledger_accounts", sa.Column("max_balance", sa.Numeric(), nullable=True))
