"""Keep campaign versions

Follows: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column(
        "campaigns", sa.Column("campaign_version_id", sa.BigInteger(), server_default=sa.text("1"), nullable=False)
    )
    op.execute("UPDATE campaign_actions SET campaign_version_id = 1")
    op.alter_column("campaign_actions", "campaign_version_id", existing_type=sa.BigInteger(), nullable=False)
    op.add_column("ledger_transactions", sa.Column("pending_expires_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Change it back."""
    op.drop_column("ledger_transactions", "pending_expires_at")
    op.alter_column("campaign_actions", "campaign_version_id", existing_type=sa.BigInteger(), nullable=True)
    op.drop_column("campaigns", "campaign_version_id")
