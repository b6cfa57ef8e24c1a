"""Mark organizations that await events

Follows: 1033
"""

import sqlalchemy as sa
from alembic import op

revision = "1034"
down_revision = "1033"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Mark organizations in which points have waited for an event; the others do not look for such points."""
    op.add_column(
        "organizations", sa.Column("awaits_events", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.execute(
        "UPDATE organizations SET awaits_events = true WHERE organization_id IN"
        " (SELECT organization_id FROM ledger_transactions WHERE available_on IS NOT NULL)"
    )
