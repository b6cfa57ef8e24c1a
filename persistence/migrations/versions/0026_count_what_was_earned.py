"""Count what was earned, and let loyalty programs say by which points their tiers go

Follows: 0025
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

# Of mints that stand, what was taken back in part, and what was to be taken and had been spent.
_UNEARNED = """
UPDATE ledger_transactions t SET unearned = least(t.amount, parts.amount + coalesce(t.missing, 0))
FROM (
    SELECT p.organization_id, p.reverted_ledger_transaction_id AS ledger_transaction_id, sum(p.amount) AS amount
    FROM ledger_transactions p WHERE p.is_partial AND p.status = 1
    GROUP BY p.organization_id, p.reverted_ledger_transaction_id
) parts
WHERE t.organization_id = parts.organization_id AND t.ledger_transaction_id = parts.ledger_transaction_id
    AND t.transaction_type = 1 AND t.status = 1
"""

_EARNED = """
UPDATE ledger_balances b SET earned = mints.amount
FROM (
    SELECT t.organization_id, t.to_wallet_id AS wallet_id, t.ledger_account_id,
        sum(t.amount - coalesce(t.unearned, 0)) AS amount
    FROM ledger_transactions t
    WHERE t.transaction_type = 1 AND t.status = 1 AND t.to_wallet_id IS NOT NULL
    GROUP BY t.organization_id, t.to_wallet_id, t.ledger_account_id
) mints
WHERE b.organization_id = mints.organization_id AND b.wallet_id = mints.wallet_id
    AND b.ledger_account_id = mints.ledger_account_id
"""

# Programs that there are keep what they have.
_BALANCE = '{"basis": "balance", "period": "lifetime", "months": null, "startMonth": null, "timezone": null}'


def upgrade() -> None:
    """Change the schema."""
    op.add_column("ledger_balances", sa.Column("earned", sa.Numeric(), server_default=sa.text("0"), nullable=False))
    op.add_column("ledger_transactions", sa.Column("unearned", sa.Numeric(), nullable=True))
    op.create_index(
        "ix_ledger_transactions_earned",
        "ledger_transactions",
        [
            "organization_id",
            "to_wallet_id",
            "ledger_account_id",
            sa.text("coalesce(external_event_date, captured_at, created_at)"),
        ],
        postgresql_where=sa.text("transaction_type = 1"),
    )
    op.add_column("loyalty_programs", sa.Column("tier_policy", postgresql.JSONB(), nullable=True))
    connection = op.get_bind()
    connection.exec_driver_sql("UPDATE loyalty_programs SET tier_policy = %s", (_BALANCE,))
    op.alter_column("loyalty_programs", "tier_policy", nullable=False)
    connection.exec_driver_sql(_UNEARNED)
    connection.exec_driver_sql(_EARNED)


def downgrade() -> None:
    """Change it back."""
    op.drop_column("loyalty_programs", "tier_policy")
    op.drop_index("ix_ledger_transactions_earned", table_name="ledger_transactions")
    op.drop_column("ledger_transactions", "unearned")
    op.drop_column("ledger_balances", "earned")
