"""Add triggers

Follows: 0011
"""

from __future__ import annotations

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""


def downgrade() -> None:
    """Change it back."""
