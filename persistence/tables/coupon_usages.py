"""Members' coupons, and every assignment, use and reversal of them."""

from sqlalchemy import text

from domain.coupons.lots import CouponLot
from domain.coupons.usages import CouponUsage, MemberCoupon
from persistence.tables.base import index, record_table, refers_to, unique

# The sums of a member's usages of a coupon, kept so that nobody has to add them up. Expiry and attributes are those of
# the last lot, and mean something only where nothing is left of any.
member_coupons = record_table(
    "member_coupons",
    MemberCoupon,
    "member_coupon_id",
    unique("member_id", "coupon_id"),
    index("ix_member_coupons_book", "member_id", "coupon_book_id"),
    refers_to("members", "member_id"),
    refers_to("coupons", "coupon_id"),
    postgresql_with={"fillfactor": "80"},
)

# Never changed but for the link to a reversal. Reversals have negative amounts, so that they cancel out in sums.
coupon_usages = record_table(
    "coupon_usages",
    CouponUsage,
    "coupon_usage_id",
    unique("system_unique_key"),
    unique("coupon_usage_key"),
    index("ix_coupon_usages_member", "member_id", "coupon_usage_id"),
    # Period limits add up what a member used of a book since a moment.
    index("ix_coupon_usages_book", "member_id", "coupon_book_id", "created_at"),
    index("ix_coupon_usages_created_at", "created_at"),
    index("ix_coupon_usages_event", "loyalty_event_id", where="loyalty_event_id IS NOT NULL"),
    refers_to("members", "member_id"),
    refers_to("coupons", "coupon_id"),
    without=("code", "coupon_book_key"),
)

# One for each assignment that gave something, with its id: its unreversed amount, and the used amount.
coupon_lots = record_table(
    "coupon_lots",
    CouponLot,
    ("coupon_lot_id",),
    # Searches need only lots with an amount left, in the order of use: of a whole book, and of one coupon.
    index(
        "ix_coupon_lots_left_of_book",
        "member_id",
        "coupon_book_id",
        text("coalesce(expired_at, 'infinity'::timestamptz)"),
        "created_at",
        "coupon_lot_id",
        where="amount > amount_used",
    ),
    index(
        "ix_coupon_lots_left_of_coupon",
        "member_id",
        "coupon_id",
        text("coalesce(expired_at, 'infinity'::timestamptz)"),
        "created_at",
        "coupon_lot_id",
        where="amount > amount_used",
    ),
    refers_to("coupon_usages", "coupon_lot_id", target=("coupon_usage_id",)),
    defaults={"amount_owed": "0"},
    postgresql_with={"fillfactor": "80"},
)
