"""Date expiries not before their policy

Follows: 1036
"""

import sqlalchemy as sa
from alembic import op

revision = "1037"
down_revision = "1036"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add when the policy of an account was set; no policy was changed before."""
    op.add_column("ledger_accounts", sa.Column("idle_policy_since", sa.DateTime(timezone=True), nullable=True))
