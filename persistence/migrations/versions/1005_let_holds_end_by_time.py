"""Let holds end by time

Follows: 1004
"""

import sqlalchemy as sa
from alembic import op

revision = "1005"
down_revision = "1004"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the end of a hold; without one it stays until its capture or revert."""
    op.add_column("ledger_transactions", sa.Column("held_until", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_ledger_transactions_held",
        "ledger_transactions",
        ["organization_id", "from_wallet_id"],
        postgresql_where=sa.text("status = 0 AND held_until IS NOT NULL"),
    )
