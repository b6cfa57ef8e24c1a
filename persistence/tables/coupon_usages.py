"""Members' coupons, and every assignment, use and reversal of them."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from persistence.tables.base import (
    created_and_updated,
    document,
    exact,
    instant,
    key,
    metadata,
    refers_to,
    tenant_table,
)

# The sums of a member's usages of a coupon, kept so that nobody has to add them up. Expiry and attributes are those of
# the last lot, and mean something only where nothing is left of any.
member_coupons = tenant_table(
    "member_coupons",
    "member_coupon_id",
    Column("member_id", BigInteger, nullable=False),
    Column("coupon_id", BigInteger, nullable=False),
    Column("coupon_book_id", BigInteger, nullable=False),
    exact("amount_assigned", nullable=False),
    exact("amount_used", nullable=False),
    document("custom_attributes"),
    instant("expired_at"),
    *created_and_updated(),
    UniqueConstraint("organization_id", "member_id", "coupon_id"),
    Index("ix_member_coupons_book", "organization_id", "member_id", "coupon_book_id"),
    refers_to("members", "member_id"),
    refers_to("coupons", "coupon_id"),
    # Amounts change with every use; room in the page keeps those changes out of the indexes.
    postgresql_with={"fillfactor": "80"},
)

# Never changed but for the link to a reversal. Reversals have negative amounts, so that they cancel out in sums.
coupon_usages = tenant_table(
    "coupon_usages",
    "coupon_usage_id",
    key("coupon_usage_key"),
    Column("coupon_id", BigInteger, nullable=False),
    Column("coupon_book_id", BigInteger, nullable=False),
    Column("coupon_book_version_id", BigInteger),
    # The lot that the usage moved: an assignment's own id. Null for uses beyond all that was assigned.
    Column("coupon_lot_id", BigInteger),
    Column("member_id", BigInteger, nullable=False),
    Column("system_unique_key", Text, nullable=False),
    # Null where the server itself caused the usage.
    Column("request_digest", LargeBinary),
    document("custom_attributes"),
    exact("amount_used", nullable=False),
    exact("amount_assigned", nullable=False),
    # The member's used and assigned totals of the coupon after this usage.
    exact("updated_total_usages", nullable=False),
    exact("updated_total_assigned", nullable=False),
    Column("reversal_usage_id", BigInteger),
    Column("reverted_usage_id", BigInteger),
    exact("amount_discounted"),
    Column("ledger_transaction_id", BigInteger),
    Column("external_id", Text),
    Column("description", Text),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("loyalty_event_id", BigInteger),
    *created_and_updated(),
    UniqueConstraint("organization_id", "system_unique_key"),
    UniqueConstraint("organization_id", "coupon_usage_key"),
    Index("ix_coupon_usages_member", "organization_id", "member_id", "coupon_usage_id"),
    # Period limits add up what a member used of a book since a moment.
    Index("ix_coupon_usages_book", "organization_id", "member_id", "coupon_book_id", "created_at"),
    Index("ix_coupon_usages_created_at", "organization_id", "created_at"),
    Index(
        "ix_coupon_usages_event",
        "organization_id",
        "loyalty_event_id",
        postgresql_where=text("loyalty_event_id IS NOT NULL"),
    ),
    refers_to("members", "member_id"),
    refers_to("coupons", "coupon_id"),
)

# One for each assignment that gave something, with its id: its unreversed amount, and the used amount.
coupon_lots = Table(
    "coupon_lots",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("coupon_lot_id", BigInteger, nullable=False, autoincrement=False),
    Column("member_id", BigInteger, nullable=False),
    Column("coupon_id", BigInteger, nullable=False),
    Column("coupon_book_id", BigInteger, nullable=False),
    exact("amount", nullable=False),
    exact("amount_used", nullable=False),
    # The used part of a reversed assignment, which is taken as soon as the use is reverted.
    exact("amount_owed", nullable=False, default="0"),
    document("custom_attributes"),
    instant("expired_at"),
    *created_and_updated(),
    PrimaryKeyConstraint("organization_id", "coupon_lot_id"),
    # Searches need only lots with an amount left, in the order of use: of a whole book, and of one coupon.
    Index(
        "ix_coupon_lots_left_of_book",
        "organization_id",
        "member_id",
        "coupon_book_id",
        text("coalesce(expired_at, 'infinity'::timestamptz)"),
        "created_at",
        "coupon_lot_id",
        postgresql_where=text("amount > amount_used"),
    ),
    Index(
        "ix_coupon_lots_left_of_coupon",
        "organization_id",
        "member_id",
        "coupon_id",
        text("coalesce(expired_at, 'infinity'::timestamptz)"),
        "created_at",
        "coupon_lot_id",
        postgresql_where=text("amount > amount_used"),
    ),
    refers_to("coupon_usages", "coupon_lot_id", target=("coupon_usage_id",)),
    postgresql_with={"fillfactor": "80"},
)
