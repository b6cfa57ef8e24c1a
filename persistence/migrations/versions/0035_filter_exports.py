"""Note the filters of exports

Follows: 0034
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Apply the change."""
    op.add_column(
        "exports",
        sa.Column(
            "filters",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("exports", "filters")
