"""Round dates of expiry

Follows: 1014
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1015"
down_revision = "1014"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add settings of accounts; older servers leave them as they are by default."""
    op.add_column("ledger_accounts", sa.Column("expiry_rounding", sa.Text(), server_default="none", nullable=False))
    op.add_column(
        "ledger_accounts",
        sa.Column("expiry_year_start_month", sa.SmallInteger(), server_default=sa.text("1"), nullable=False),
    )
    op.add_column("ledger_accounts", sa.Column("timezone", sa.Text(), nullable=True))
    op.add_column(
        "ledger_accounts",
        sa.Column("tier_expirations", postgresql.JSONB(none_as_null=True), server_default="[]", nullable=False),
    )
    op.add_column(
        "ledger_accounts",
        sa.Column("restored_expiry_days", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
    )
