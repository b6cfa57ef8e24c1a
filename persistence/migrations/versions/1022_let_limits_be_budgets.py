"""Let limits be budgets

Follows: 1021
"""

import sqlalchemy as sa
from alembic import op

revision = "1022"
down_revision = "1021"
branch_labels = None
depends_on = None

_TABLE = "campaign_limit_counters"
_KEY = ("organization_id", "member_id", "campaign_id", "type", "period", "period_start", "ledger_account_id")


def upgrade() -> None:
    """Add the columns, some of them to the key. An older server cannot count with this key, so it refuses to start."""
    empty, zero = sa.text("''"), sa.text("0")
    for column in (
        sa.Column("shared_key", sa.Text(), server_default=empty, nullable=False),
        sa.Column("location", sa.Text(), server_default=empty, nullable=False),
        sa.Column("part", sa.SmallInteger(), server_default=zero, nullable=False),
        sa.Column("parts", sa.SmallInteger(), server_default=zero, nullable=False),
        sa.Column("alerts", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("waits", sa.Integer(), server_default=zero, nullable=False),
        sa.Column("quota", sa.Numeric(), nullable=True),
        sa.Column("until", sa.Numeric(), nullable=True),
        sa.Column("counted_at", sa.DateTime(timezone=True), nullable=True),
    ):
        op.add_column(_TABLE, column)
    # A counter that campaigns share is none of a campaign.
    op.drop_constraint(op.f(f"fk_{_TABLE}_organization_id_campaign_id"), _TABLE, type_="foreignkey")
    op.create_foreign_key(
        op.f(f"fk_{_TABLE}_organization_id"), _TABLE, "organizations", ["organization_id"], ["organization_id"]
    )
    op.drop_constraint(op.f(f"pk_{_TABLE}"), _TABLE, type_="primary")
    op.create_primary_key(op.f(f"pk_{_TABLE}"), _TABLE, [*_KEY, "shared_key", "location", "part"])
