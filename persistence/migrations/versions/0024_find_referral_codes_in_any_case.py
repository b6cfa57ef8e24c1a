"""Find referral codes in any case

Follows: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    # Not unique: codes that differ in case only may be there already, and stay.
    op.create_index("ix_referral_codes_folded", "referral_codes", ["organization_id", sa.text("lower(code)")])


def downgrade() -> None:
    """Take it back."""
    op.drop_index("ix_referral_codes_folded", table_name="referral_codes")
