"""Keep who tracked an event or advanced a mission

Follows: 0039
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None
EXPANDS = True

_TABLES = ("events", "mission_trackings")


def upgrade() -> None:
    """Apply the change."""
    for table in _TABLES:
        op.add_column(table, sa.Column("actor", sa.Text(), nullable=True))
        op.add_column(table, sa.Column("user_id", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo the change."""
    for table in _TABLES:
        op.drop_column(table, "user_id")
        op.drop_column(table, "actor")
