"""Let members be erased

Follows: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# Of what there is: members' and orders' records, events and notifications.
_WHOM_MESSAGES_TELL_OF = """
UPDATE trigger_deliveries SET member_id = CAST(coalesce(
    payload -> 'data' ->> 'memberId', payload -> 'data' -> 'record' ->> 'memberId',
    payload -> 'data' -> 'event' ->> 'memberId'
) AS bigint)
"""


def upgrade() -> None:
    """Change the schema."""
    op.add_column("members", sa.Column("erased_at", sa.DateTime(timezone=True)))
    op.add_column("trigger_deliveries", sa.Column("member_id", sa.BigInteger()))
    op.execute(_WHOM_MESSAGES_TELL_OF)
    for name, table, columns, where in _INDEXES:
        op.create_index(name, table, columns, postgresql_where=sa.text(where))


def downgrade() -> None:
    """Change it back."""
    for name, table, _, _ in _INDEXES:
        op.drop_index(name, table_name=table)
    op.drop_column("trigger_deliveries", "member_id")
    op.drop_column("members", "erased_at")


_INDEXES = (
    (
        "ix_trigger_deliveries_member",
        "trigger_deliveries",
        ["organization_id", "member_id"],
        "member_id IS NOT NULL",
    ),
    (
        "ix_purchase_orders_referral_code",
        "purchase_orders",
        ["organization_id", "referral_code"],
        "referral_code IS NOT NULL",
    ),
    (
        "ix_mission_trackings_request",
        "mission_trackings",
        ["organization_id", "member_id"],
        "loyalty_event_id IS NULL",
    ),
    ("ix_ledger_transactions_pending_to", "ledger_transactions", ["organization_id", "to_wallet_id"], "status = 0"),
)
