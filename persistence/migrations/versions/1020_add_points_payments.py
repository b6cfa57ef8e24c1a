"""Add points payments

Follows: 1019
"""

import sqlalchemy as sa
from alembic import op

revision = "1020"
down_revision = "1019"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the payments of members with points."""
    op.create_table(
        "points_payments",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("points_payment_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("points_payment_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("ledger_account_id", sa.BigInteger(), nullable=False),
        sa.Column("ledger_transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("points", sa.Numeric(), nullable=False),
        sa.Column("value", sa.Numeric(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("points_per_unit", sa.Numeric(), nullable=False),
        sa.Column("multiple_of", sa.Numeric(), nullable=False),
        sa.Column("held_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("order_external_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "ledger_transaction_id"],
            ["ledger_transactions.organization_id", "ledger_transactions.ledger_transaction_id"],
            name=op.f("fk_points_payments_organization_id_ledger_transaction_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_points_payments_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "points_payment_id", name=op.f("pk_points_payments")),
        sa.UniqueConstraint(
            "organization_id",
            "ledger_transaction_id",
            name=op.f("uq_points_payments_organization_id_ledger_transaction_id"),
        ),
        sa.UniqueConstraint(
            "organization_id",
            "points_payment_key",
            name=op.f("uq_points_payments_organization_id_points_payment_key"),
        ),
    )
    op.create_index(
        "ix_points_payments_member", "points_payments", ["organization_id", "member_id", "ledger_account_id"]
    )
