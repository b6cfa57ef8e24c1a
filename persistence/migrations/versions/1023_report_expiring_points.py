"""Report expiring points

Follows: 1022
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1023"
down_revision = "1022"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add settings of notices, and how far they have come; older servers report none."""
    for table in ("ledger_accounts", "organizations"):
        op.add_column(table, sa.Column("points_expiring", postgresql.JSONB(none_as_null=True), nullable=True))
    op.create_table(
        "expiry_notices",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("ledger_account_id", sa.BigInteger(), nullable=False),
        sa.Column("done_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("moment", sa.DateTime(timezone=True), nullable=True),
        sa.Column("after_wallet_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "ledger_account_id"],
            ["ledger_accounts.organization_id", "ledger_accounts.ledger_account_id"],
            name=op.f("fk_expiry_notices_organization_id_ledger_account_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "ledger_account_id", name=op.f("pk_expiry_notices")),
    )
