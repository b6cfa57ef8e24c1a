"""Let other points than those of a mint qualify for tiers

Follows: 1006
"""

import sqlalchemy as sa
from alembic import op

revision = "1007"
down_revision = "1006"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the column. Older servers leave it empty, which means that the whole amount of the mint qualifies."""
    op.add_column("ledger_transactions", sa.Column("qualifying_amount", sa.Numeric(), nullable=True))
