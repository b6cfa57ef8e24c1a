"""Let missions count by an expression

Follows: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("missions", sa.Column("count_expression", sa.Text(), nullable=True))


def downgrade() -> None:
    """Change it back."""
    op.drop_column("missions", "count_expression")
