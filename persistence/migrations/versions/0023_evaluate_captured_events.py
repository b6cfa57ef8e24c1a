"""Evaluate captured events

Follows: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("events", sa.Column("evaluated_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Change it back."""
    op.drop_column("events", "evaluated_at")
