"""Bound the work on imports

Follows: 0042
"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Apply the change."""
    op.add_column("imports", sa.Column("crashes", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("imports", sa.Column("careful_until", sa.BigInteger(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("imports", "careful_until")
    op.drop_column("imports", "crashes")
