"""Claim the ids of tracked payments

Follows: 0040
"""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Apply the change."""
    op.alter_column("partner_payments", "partner_api_key_id", existing_type=sa.BigInteger(), nullable=True)


def downgrade() -> None:
    """Take the change back."""
    op.execute("DELETE FROM partner_payments WHERE partner_api_key_id IS NULL")
    op.alter_column("partner_payments", "partner_api_key_id", existing_type=sa.BigInteger(), nullable=False)
