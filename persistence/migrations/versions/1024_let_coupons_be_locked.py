"""Let coupons be locked

Follows: 1023
"""

import sqlalchemy as sa
from alembic import op

revision = "1024"
down_revision = "1023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the locks. An older server would give away what is locked, so it does not work with them."""
    for table in ("coupons", "coupon_books"):
        op.add_column(table, sa.Column("locked_until", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "coupon_locks",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_lock_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("coupon_lock_key", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_book_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_lot_id", sa.BigInteger(), nullable=True),
        sa.Column("coupon_usage_id", sa.BigInteger(), nullable=True),
        sa.Column("system_unique_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_coupon_locks_organization_id_member_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "coupon_id"],
            ["coupons.organization_id", "coupons.coupon_id"],
            name=op.f("fk_coupon_locks_organization_id_coupon_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "coupon_lock_id", name=op.f("pk_coupon_locks")),
        sa.UniqueConstraint(
            "organization_id", "coupon_lock_key", name=op.f("uq_coupon_locks_organization_id_coupon_lock_key")
        ),
        sa.UniqueConstraint(
            "organization_id", "system_unique_key", name=op.f("uq_coupon_locks_organization_id_system_unique_key")
        ),
    )
    op.create_index("ix_coupon_locks_member", "coupon_locks", ["organization_id", "member_id", "coupon_lock_id"])
    op.create_index(
        "ix_coupon_locks_book",
        "coupon_locks",
        ["organization_id", "coupon_book_id", "expires_at"],
        postgresql_where=sa.text("ended_at IS NULL"),
    )
