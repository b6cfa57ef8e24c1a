"""Give days and periods a time zone

Follows: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("campaigns", sa.Column("timezone", sa.Text(), nullable=True))
    op.add_column("missions", sa.Column("timezone", sa.Text(), nullable=True))
    op.add_column("organizations", sa.Column("timezone", sa.Text(), server_default="UTC", nullable=False))
    op.add_column("referral_programs", sa.Column("timezone", sa.Text(), nullable=True))


def downgrade() -> None:
    """Change it back."""
    op.drop_column("referral_programs", "timezone")
    op.drop_column("organizations", "timezone")
    op.drop_column("missions", "timezone")
    op.drop_column("campaigns", "timezone")
