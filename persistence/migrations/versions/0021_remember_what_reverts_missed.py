"""Remember what reverts missed, what expired of lots, and what came back of orders

Follows: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_EXPIRED = """
UPDATE ledger_lots l SET expired = used.amount
FROM (
    SELECT u.organization_id, u.ledger_lot_id, sum(u.amount) AS amount
    FROM ledger_lot_uses u
    JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
    WHERE t.is_expiry GROUP BY u.organization_id, u.ledger_lot_id
) used
WHERE l.organization_id = used.organization_id AND l.ledger_lot_id = used.ledger_lot_id
"""

_EVENTS_OF_ORDERS = """
UPDATE purchase_orders o SET event_ids = o.loyalty_event_id || coalesce((
    SELECT array_agg(c.loyalty_event_id ORDER BY c.loyalty_event_id) FROM confirmed c
    WHERE c.organization_id = o.organization_id AND c.external_id = o.external_id AND c.member_id = o.member_id
), ARRAY[]::bigint[])
"""

_CONFIRMED = """
CREATE TEMPORARY TABLE confirmed ON COMMIT DROP AS
SELECT organization_id, member_id, payload #>> '{order,externalId}' AS external_id, loyalty_event_id FROM events
WHERE event_type = 'member-purchase-order-confirmed' AND status = 'success' AND reverted_loyalty_event_id IS NULL
"""


def upgrade() -> None:
    """Change the schema."""
    op.add_column("ledger_transactions", sa.Column("missing", sa.Numeric()))
    op.add_column("ledger_transactions", sa.Column("clamped_by_ledger_transaction_id", sa.BigInteger()))
    op.add_column("ledger_transactions", sa.Column("part_of_ledger_transaction_id", sa.BigInteger()))
    op.create_index(
        "ix_ledger_transactions_missing",
        "ledger_transactions",
        ["organization_id", "to_wallet_id"],
        postgresql_where=sa.text("missing > 0"),
    )
    op.create_index(
        "ix_ledger_transactions_part_of",
        "ledger_transactions",
        ["organization_id", "part_of_ledger_transaction_id"],
        postgresql_where=sa.text("part_of_ledger_transaction_id IS NOT NULL"),
    )
    op.add_column("ledger_lots", sa.Column("expired", sa.Numeric(), server_default=sa.text("0"), nullable=False))
    op.execute(_EXPIRED)
    op.add_column(
        "order_items", sa.Column("returned_quantity", sa.Numeric(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("order_items", sa.Column("returned_total", sa.Numeric(), server_default=sa.text("0"), nullable=False))
    op.add_column("purchase_orders", sa.Column("event_ids", sa.ARRAY(sa.BigInteger())))
    op.execute(_CONFIRMED)
    op.execute("CREATE INDEX ON confirmed (organization_id, external_id)")
    op.execute(_EVENTS_OF_ORDERS)
    op.alter_column("purchase_orders", "event_ids", nullable=False)


def downgrade() -> None:
    """Change it back."""
    op.drop_column("purchase_orders", "event_ids")
    op.drop_column("order_items", "returned_total")
    op.drop_column("order_items", "returned_quantity")
    op.drop_column("ledger_lots", "expired")
    op.drop_index("ix_ledger_transactions_part_of", table_name="ledger_transactions")
    op.drop_index("ix_ledger_transactions_missing", table_name="ledger_transactions")
    op.drop_column("ledger_transactions", "part_of_ledger_transaction_id")
    op.drop_column("ledger_transactions", "clamped_by_ledger_transaction_id")
    op.drop_column("ledger_transactions", "missing")
