"""Re-evaluate grants on return

Follows: 1029
"""

import sqlalchemy as sa
from alembic import op

revision = "1030"
down_revision = "1029"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add how campaigns reverse grants, and the grants of events; older servers reverse in proportion."""
    op.add_column("campaigns", sa.Column("on_return", sa.Text(), server_default=sa.text("'prorate'"), nullable=False))
    op.add_column("events", sa.Column("grants", sa.JSON(none_as_null=True), nullable=True))
