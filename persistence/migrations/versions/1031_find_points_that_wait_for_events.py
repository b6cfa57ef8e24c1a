"""Find points that wait for events

Follows: 1030
"""

import sqlalchemy as sa
from alembic import op

revision = "1031"
down_revision = "1030"
branch_labels = None
depends_on = None

EXPANDS = True

_AWAITS_EVENT = "status = 0 AND transaction_type = 1 AND available_at IS NULL AND available_on IS NOT NULL"


def upgrade() -> None:
    """Add the indexes by which an event finds the points that wait for it, by their wallet and by their order."""
    op.create_index(
        "ix_ledger_transactions_awaiting",
        "ledger_transactions",
        ["organization_id", "to_wallet_id"],
        postgresql_where=sa.text(_AWAITS_EVENT),
    )
    op.create_index(
        "ix_ledger_transactions_awaiting_order",
        "ledger_transactions",
        ["organization_id", sa.text("(available_on ->> 'orderExternalId')")],
        postgresql_where=sa.text(_AWAITS_EVENT),
    )
