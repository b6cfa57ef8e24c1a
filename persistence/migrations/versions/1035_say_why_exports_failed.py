"""Say why exports failed

Follows: 1034
"""

import sqlalchemy as sa
from alembic import op

revision = "1035"
down_revision = "1034"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the reason of a failed export; exports that failed before have none."""
    op.add_column("exports", sa.Column("error", sa.Text(), nullable=True))
