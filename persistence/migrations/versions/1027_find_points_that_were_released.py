"""Find points that were released

Follows: 1026
"""

import sqlalchemy as sa
from alembic import op

revision = "1027"
down_revision = "1026"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the index by which tiers of calendar years find points that were released in a later year."""
    op.create_index(
        "ix_ledger_transactions_timed",
        "ledger_transactions",
        ["organization_id", "to_wallet_id", "ledger_account_id"],
        postgresql_where=sa.text("available_at IS NOT NULL"),
    )
