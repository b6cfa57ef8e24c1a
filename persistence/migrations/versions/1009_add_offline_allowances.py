"""Add offline allowances

Follows: 1008
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "1009"
down_revision = "1008"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the allowances of members, and what accounts allow of them."""
    op.add_column("ledger_accounts", sa.Column("offline_allowance", postgresql.JSONB(none_as_null=True), nullable=True))
    op.create_table(
        "offline_allowances",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("offline_allowance_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("offline_allowance_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("ledger_account_id", sa.BigInteger(), nullable=False),
        sa.Column("ledger_transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("held_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("issued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("redeemed_amount", sa.Numeric(), nullable=True),
        sa.Column("redemption_key", sa.Text(), nullable=True),
        sa.Column("redemption_digest", sa.LargeBinary(), nullable=True),
        sa.Column("order_external_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "ledger_transaction_id"],
            ["ledger_transactions.organization_id", "ledger_transactions.ledger_transaction_id"],
            name=op.f("fk_offline_allowances_organization_id_ledger_transaction_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_offline_allowances_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "offline_allowance_id", name=op.f("pk_offline_allowances")),
        sa.UniqueConstraint(
            "organization_id",
            "ledger_transaction_id",
            name=op.f("uq_offline_allowances_organization_id_ledger_transaction_id"),
        ),
        sa.UniqueConstraint(
            "organization_id",
            "offline_allowance_key",
            name=op.f("uq_offline_allowances_organization_id_offline_allowance_key"),
        ),
        sa.UniqueConstraint(
            "organization_id", "redemption_key", name=op.f("uq_offline_allowances_organization_id_redemption_key")
        ),
    )
    op.create_index(
        "ix_offline_allowances_member", "offline_allowances", ["organization_id", "member_id", "ledger_account_id"]
    )
