"""Import the progress in missions

Follows: 1007
"""

import sqlalchemy as sa
from alembic import op

revision = "1008"
down_revision = "1007"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the column; older servers take imported achievements for some of the day of the import."""
    op.add_column("mission_trackings", sa.Column("is_imported", sa.Boolean(), server_default="false", nullable=False))
