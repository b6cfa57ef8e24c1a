"""Expire idle balances

Follows: 1017
"""

import sqlalchemy as sa
from alembic import op

revision = "1018"
down_revision = "1017"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the dates of activities; older servers do not count them."""
    op.add_column("ledger_balances", sa.Column("last_activity_date", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "ledger_accounts",
        sa.Column("late_activity_days", sa.SmallInteger(), server_default=sa.text("3"), nullable=False),
    )
    op.create_index(
        "ix_ledger_transactions_expiry",
        "ledger_transactions",
        ["organization_id", "from_wallet_id", "external_event_date"],
        postgresql_where=sa.text("is_expiry"),
    )
