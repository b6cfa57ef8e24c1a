"""Keep campaign versions

Follows: 0012
"""

from __future__ import annotations

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""


def downgrade() -> None:
    """Change it back."""
