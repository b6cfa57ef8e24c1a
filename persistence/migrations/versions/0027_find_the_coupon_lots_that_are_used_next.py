"""Find the coupon lots that are used next

Follows: 0026
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_LEFT = sa.text("amount > amount_used")
_EXPIRY = sa.text("coalesce(expired_at, 'infinity'::timestamptz)")


def upgrade() -> None:
    """Change the schema."""
    for whose in ("book", "coupon"):
        id_of = "coupon_book_id" if whose == "book" else "coupon_id"
        op.create_index(
            f"ix_coupon_lots_left_of_{whose}",
            "coupon_lots",
            ["organization_id", "member_id", id_of, _EXPIRY, "created_at", "coupon_lot_id"],
            postgresql_where=_LEFT,
        )
    op.drop_index("ix_coupon_lots_left", table_name="coupon_lots", postgresql_where=_LEFT)


def downgrade() -> None:
    """Change it back."""
    op.create_index(
        "ix_coupon_lots_left",
        "coupon_lots",
        ["organization_id", "member_id", "coupon_book_id", "coupon_id"],
        postgresql_where=_LEFT,
    )
    op.drop_index("ix_coupon_lots_left_of_coupon", table_name="coupon_lots", postgresql_where=_LEFT)
    op.drop_index("ix_coupon_lots_left_of_book", table_name="coupon_lots", postgresql_where=_LEFT)
