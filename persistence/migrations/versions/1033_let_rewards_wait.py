"""Let rewards wait until they are available

Follows: 1032
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1033"
down_revision = "1032"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the terms of availability of rewards; those without any wait by the terms of their account."""
    for table in ("missions", "referral_programs"):
        op.add_column(table, sa.Column("available_at", sa.DateTime(timezone=True), nullable=True))
        op.add_column(table, sa.Column("available_after", sa.Text(), nullable=True))
        rounding = sa.Column("available_rounding", sa.Text(), server_default=sa.text("'none'"), nullable=False)
        op.add_column(table, rounding)
        op.add_column(table, sa.Column("available_on", postgresql.JSONB(none_as_null=True), nullable=True))
