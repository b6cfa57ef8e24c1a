"""Count crashes of exports

Follows: 1040
"""

import sqlalchemy as sa
from alembic import op

revision = "1041"
down_revision = "1040"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add how many workers have died while they wrote an export."""
    op.add_column("exports", sa.Column("crashes", sa.Integer(), server_default=sa.text("0"), nullable=False))
