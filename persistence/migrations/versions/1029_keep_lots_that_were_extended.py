"""Keep lots that were extended

Follows: 1028
"""

import sqlalchemy as sa
from alembic import op

revision = "1029"
down_revision = "1028"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add extensions, and the moment until which an idle balance keeps a lot, with the index of such lots."""
    op.add_column("ledger_lots", sa.Column("kept_until", sa.DateTime(timezone=True)))
    op.create_index(
        "ix_ledger_lots_kept",
        "ledger_lots",
        ["organization_id", "wallet_id", "ledger_account_id"],
        postgresql_where=sa.text("remaining > 0 AND kept_until IS NOT NULL"),
    )
    op.create_table(
        "expiry_extensions",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("expiry_extension_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("ledger_account_id", sa.BigInteger(), nullable=False),
        sa.Column("system_unique_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("months", sa.BigInteger(), nullable=True),
        sa.Column("is_dry_run", sa.Boolean(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("after_wallet_id", sa.BigInteger(), nullable=False),
        sa.Column("lots", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "ledger_account_id"],
            ["ledger_accounts.organization_id", "ledger_accounts.ledger_account_id"],
            name=op.f("fk_expiry_extensions_organization_id_ledger_account_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "expiry_extension_id", name=op.f("pk_expiry_extensions")),
        sa.UniqueConstraint(
            "organization_id",
            "system_unique_key",
            name=op.f("uq_expiry_extensions_organization_id_system_unique_key"),
        ),
    )
    op.create_index(
        "ix_expiry_extensions_running",
        "expiry_extensions",
        ["organization_id", "expiry_extension_id"],
        postgresql_where=sa.text("status = 'running'"),
    )
    op.add_column(
        "ledger_transactions", sa.Column("is_extension", sa.Boolean, nullable=False, server_default=sa.text("false"))
    )
