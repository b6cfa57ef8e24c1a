"""Let points wait until they are available

Follows: 1020
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "1021"
down_revision = "1020"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add what mints wait for; older servers know of no mint that waits, and make none."""
    for name in ("available_at", "policy_expires_at"):
        op.add_column("ledger_transactions", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    op.add_column("ledger_transactions", sa.Column("available_on", JSONB, nullable=True))
    op.create_index(
        "ix_ledger_transactions_waiting",
        "ledger_transactions",
        ["organization_id", sa.text("coalesce(available_at, held_until)"), "to_wallet_id"],
        postgresql_where=sa.text(
            "status = 0 AND transaction_type = 1 AND (available_at IS NOT NULL OR available_on IS NOT NULL)"
        ),
    )
    op.add_column("ledger_accounts", sa.Column("default_availability", JSONB, nullable=True))
