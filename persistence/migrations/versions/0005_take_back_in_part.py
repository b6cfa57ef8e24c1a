"""Take back in part

Follows: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column(
        "ledger_transactions", sa.Column("is_partial", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.create_index(
        "ix_ledger_transactions_partial",
        "ledger_transactions",
        ["organization_id", "reverted_ledger_transaction_id"],
        postgresql_where=sa.text("is_partial"),
    )
    op.add_column(
        "purchase_orders", sa.Column("returned_total", sa.Numeric(), server_default=sa.text("0"), nullable=False)
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_column("purchase_orders", "returned_total")
    op.drop_index("ix_ledger_transactions_partial", "ledger_transactions")
    op.drop_column("ledger_transactions", "is_partial")
