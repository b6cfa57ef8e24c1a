"""Add coupon books

Follows: 0007
"""

from __future__ import annotations

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""


def downgrade() -> None:
    """Change it back."""
