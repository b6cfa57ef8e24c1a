"""Read mints of wallets from the index

Follows: 0027
"""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_KEY = "organization_id, level, label, bucket, wallet_id, ledger_account_id"


def upgrade() -> None:
    """Apply the change."""
    _key_with(" INCLUDE (minted, mints)")
    # Only pages that were looked over are not looked up again.
    op.execute(
        "ALTER TABLE report_wallet_totals"
        " SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02)"
    )


def downgrade() -> None:
    """Take the change back."""
    op.execute(
        "ALTER TABLE report_wallet_totals RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor)"
    )
    _key_with("")


def _key_with(more: str) -> None:
    op.execute(
        "ALTER TABLE report_wallet_totals DROP CONSTRAINT pk_report_wallet_totals,"
        f" ADD CONSTRAINT pk_report_wallet_totals PRIMARY KEY ({_KEY}){more}"
    )
