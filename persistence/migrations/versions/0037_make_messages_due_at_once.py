"""Make messages due at once

Follows: 0036
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Apply the change."""
    op.alter_column("trigger_deliveries", "next_attempt_at", server_default=sa.text("now()"))


def downgrade() -> None:
    """Take the change back."""
    op.alter_column("trigger_deliveries", "next_attempt_at", server_default=None)
