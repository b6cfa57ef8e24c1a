"""Add referrals

Follows: 0009
"""

from __future__ import annotations

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""


def downgrade() -> None:
    """Change it back."""
