"""Date captures

Follows: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("ledger_transactions", sa.Column("captured_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_ledger_transactions_pending",
        "ledger_transactions",
        ["organization_id", "from_wallet_id", "ledger_account_id"],
        postgresql_where=sa.text("status = 0"),
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_index("ix_ledger_transactions_pending", "ledger_transactions")
    op.drop_column("ledger_transactions", "captured_at")
