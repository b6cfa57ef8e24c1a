"""Add external keys

Follows: 0035
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None
EXPANDS = True

_TABLES = (
    "audiences",
    "badges",
    "campaign_actions",
    "campaigns",
    "content_collections",
    "coupon_books",
    "custom_event_types",
    "ledger_accounts",
    "ledgers",
    "loyalty_programs",
    "loyalty_tiers",
    "matchers",
    "missions",
    "referral_programs",
    "triggers",
)


def upgrade() -> None:
    """Apply the change."""
    for table in _TABLES:
        op.add_column(table, sa.Column("external_key", sa.Text(), nullable=True))
        op.create_unique_constraint(_constraint(table), table, ["organization_id", "external_key"])


def downgrade() -> None:
    """Take the change back."""
    for table in reversed(_TABLES):
        op.drop_constraint(_constraint(table), table, type_="unique")
        op.drop_column(table, "external_key")


def _constraint(table: str) -> str:
    return op.f(f"uq_{table}_organization_id_external_key")
