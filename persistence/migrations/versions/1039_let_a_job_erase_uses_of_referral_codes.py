"""Let a job erase uses of referral codes

Follows: 1038
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1039"
down_revision = "1038"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the former referral codes of erased members; erasings under way have none, since their call erased all uses."""
    op.add_column(
        "unfinished_erasings",
        sa.Column("referral_codes", postgresql.JSONB(), nullable=False, server_default=sa.text("'{}'")),
    )
