"""Add coupon lots

Follows: 0016
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# What stands of each assignment becomes a lot, with the expiry and the data that all of the member's coupon had. Until
# now nobody could tell which assignment a use was of, and all had one expiry: the oldest assignments are the used ones.
_ADD_LOTS = """
INSERT INTO coupon_lots (organization_id, coupon_lot_id, member_id, coupon_id, coupon_book_id, amount, amount_used,
    custom_attributes, expired_at, created_at, updated_at)
SELECT organization_id, coupon_usage_id, member_id, coupon_id, coupon_book_id, amount,
    least(amount, greatest(0, coalesce(used, 0) - (through - amount))), custom_attributes, expired_at, created_at,
    updated_at
FROM (
    SELECT a.organization_id, a.coupon_usage_id, a.member_id, a.coupon_id, a.coupon_book_id, a.created_at, h.updated_at,
        a.amount_assigned + coalesce(r.amount_assigned, 0) AS amount, h.custom_attributes, h.expired_at,
        sum(a.amount_assigned + coalesce(r.amount_assigned, 0)) OVER (
            PARTITION BY a.organization_id, a.member_id, a.coupon_id ORDER BY a.coupon_usage_id) AS through
    FROM coupon_usages a JOIN member_coupons h USING (organization_id, member_id, coupon_id)
    LEFT JOIN coupon_usages r ON r.organization_id = a.organization_id AND r.coupon_usage_id = a.reversal_usage_id
    WHERE a.amount_assigned > 0
) assignment LEFT JOIN (
    SELECT organization_id, member_id, coupon_id, sum(amount_used) AS used FROM coupon_usages
    WHERE amount_used > 0 AND reversal_usage_id IS NULL GROUP BY organization_id, member_id, coupon_id
) standing USING (organization_id, member_id, coupon_id)
"""

_NAME_LOTS_OF_ASSIGNMENTS = "UPDATE coupon_usages SET coupon_lot_id = coupon_usage_id WHERE amount_assigned > 0"

# A use beyond all that was assigned, which a revert by force has left, keeps none.
_NAME_LOTS_OF_USES = """
UPDATE coupon_usages u SET coupon_lot_id = lot.coupon_lot_id
FROM (
    SELECT organization_id, coupon_lot_id, member_id, coupon_id, amount, sum(amount) OVER (
        PARTITION BY organization_id, member_id, coupon_id ORDER BY coupon_lot_id) AS through
    FROM coupon_lots
) lot JOIN (
    SELECT organization_id, coupon_usage_id, member_id, coupon_id, sum(amount_used) OVER (
        PARTITION BY organization_id, member_id, coupon_id ORDER BY coupon_usage_id) AS through
    FROM coupon_usages WHERE amount_used > 0 AND reversal_usage_id IS NULL
) used USING (organization_id, member_id, coupon_id)
WHERE used.through > lot.through - lot.amount AND used.through <= lot.through
    AND u.organization_id = used.organization_id AND u.coupon_usage_id = used.coupon_usage_id
"""

# One expiry for all that is left, the soonest: nothing that has expired comes alive.
_KEEP_SOONEST_EXPIRY = """
UPDATE member_coupons h SET expired_at = lot.expired_at
FROM (
    SELECT organization_id, member_id, coupon_id, min(expired_at) AS expired_at FROM coupon_lots
    WHERE amount > amount_used GROUP BY organization_id, member_id, coupon_id
) lot
WHERE h.organization_id = lot.organization_id AND h.member_id = lot.member_id AND h.coupon_id = lot.coupon_id
"""


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "coupon_lots",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_lot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_id", sa.BigInteger(), nullable=False),
        sa.Column("coupon_book_id", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("amount_used", sa.Numeric(), nullable=False),
        sa.Column("amount_owed", sa.Numeric(), server_default=sa.text("0"), nullable=False),
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
            ["organization_id", "coupon_lot_id"],
            ["coupon_usages.organization_id", "coupon_usages.coupon_usage_id"],
            name=op.f("fk_coupon_lots_organization_id_coupon_lot_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "coupon_lot_id", name=op.f("pk_coupon_lots")),
        postgresql_with={"fillfactor": "80"},
    )
    op.add_column("coupon_usages", sa.Column("coupon_lot_id", sa.BigInteger(), nullable=True))
    op.execute(_ADD_LOTS)
    op.execute(_NAME_LOTS_OF_ASSIGNMENTS)
    op.execute(_NAME_LOTS_OF_USES)
    op.create_index(
        "ix_coupon_lots_left",
        "coupon_lots",
        ["organization_id", "member_id", "coupon_book_id", "coupon_id"],
        unique=False,
        postgresql_where=sa.text("amount > amount_used"),
    )


def downgrade() -> None:
    """Change it back."""
    op.execute(_KEEP_SOONEST_EXPIRY)
    op.drop_column("coupon_usages", "coupon_lot_id")
    op.drop_index("ix_coupon_lots_left", table_name="coupon_lots", postgresql_where=sa.text("amount > amount_used"))
    op.drop_table("coupon_lots")
