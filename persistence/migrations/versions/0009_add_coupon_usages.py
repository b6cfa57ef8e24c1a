"""Add coupon usages

Follows: 0008
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "coupon_usages",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_usage_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("coupon_usage_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("coupon_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_book_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_book_version_id", sa.BigInteger(), nullable=True),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("system_unique_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=True),
        sa.Column(
            "custom_attributes",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("amount_used", sa.Numeric(), nullable=False),
        sa.Column("amount_assigned", sa.Numeric(), nullable=False),
        sa.Column("updated_total_usages", sa.Numeric(), nullable=False),
        sa.Column("updated_total_assigned", sa.Numeric(), nullable=False),
        sa.Column("reversal_usage_id", sa.BigInteger(), nullable=True),
        sa.Column("reverted_usage_id", sa.BigInteger(), nullable=True),
        sa.Column("amount_discounted", sa.Numeric(), nullable=True),
        sa.Column("ledger_transaction_id", sa.BigInteger(), nullable=True),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("loyalty_event_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "coupon_id"],
            ["coupons.organization_id", "coupons.coupon_id"],
            name=op.f("fk_coupon_usages_organization_id_coupon_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_coupon_usages_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "coupon_usage_id", name=op.f("pk_coupon_usages")),
        sa.UniqueConstraint(
            "organization_id", "coupon_usage_key", name=op.f("uq_coupon_usages_organization_id_coupon_usage_key")
        ),
        sa.UniqueConstraint(
            "organization_id", "system_unique_key", name=op.f("uq_coupon_usages_organization_id_system_unique_key")
        ),
    )
    op.create_index(
        "ix_coupon_usages_book",
        "coupon_usages",
        ["organization_id", "member_id", "coupon_book_id", "created_at"],
        unique=False,
    )
    op.create_index(
        "ix_coupon_usages_event",
        "coupon_usages",
        ["organization_id", "loyalty_event_id"],
        unique=False,
        postgresql_where=sa.text("loyalty_event_id IS NOT NULL"),
    )
    op.create_index(
        "ix_coupon_usages_member", "coupon_usages", ["organization_id", "member_id", "coupon_usage_id"], unique=False
    )
    op.create_table(
        "member_coupons",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("member_coupon_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_book_id", sa.BigInteger(), nullable=False),
        sa.Column("amount_assigned", sa.Numeric(), nullable=False),
        sa.Column("amount_used", sa.Numeric(), nullable=False),
        sa.Column(
            "custom_attributes",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("expired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "coupon_id"],
            ["coupons.organization_id", "coupons.coupon_id"],
            name=op.f("fk_member_coupons_organization_id_coupon_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_member_coupons_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "member_coupon_id", name=op.f("pk_member_coupons")),
        sa.UniqueConstraint(
            "organization_id",
            "member_id",
            "coupon_id",
            name=op.f("uq_member_coupons_organization_id_member_id_coupon_id"),
        ),
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index(
        "ix_member_coupons_book", "member_coupons", ["organization_id", "member_id", "coupon_book_id"], unique=False
    )


def downgrade() -> None:
    """Change it back."""
    op.drop_index("ix_member_coupons_book", table_name="member_coupons")
    op.drop_table("member_coupons")
    op.drop_index("ix_coupon_usages_member", table_name="coupon_usages")
    op.drop_index(
        "ix_coupon_usages_event", table_name="coupon_usages", postgresql_where=sa.text("loyalty_event_id IS NOT NULL")
    )
    op.drop_index("ix_coupon_usages_book", table_name="coupon_usages")
    op.drop_table("coupon_usages")
