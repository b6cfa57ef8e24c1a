"""Count the changes of content

Follows: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Change the schema."""
    op.add_column(
        "content_collections",
        sa.Column("content_version", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_column("content_collections", "content_version")
