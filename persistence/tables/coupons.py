"""Coupon books, their codes, and the coupons that members have and used."""

from sqlalchemy import ARRAY, Index, SmallInteger, text

from domain.coupons.books import Coupon, CouponBook
from domain.coupons.locks import CouponLock
from domain.coupons.lots import CouponLot
from domain.coupons.usages import CouponUsage, MemberCoupon
from persistence.tables.base import belongs_to_organization, execute_on, foreign_key, index, record_table, unique

coupon_books = record_table(
    "coupon_books",
    CouponBook,
    "coupon_book_id",
    unique("coupon_book_key"),
    index("ix_coupon_books_external_id", "external_id"),
    index("ix_coupon_books_loyalty_program", "loyalty_program_id", "coupon_book_id"),
    index("ix_coupon_books_publishing_status", "publishing_status", "coupon_book_id"),
    index("ix_coupon_books_valid_from_date", "valid_from_date"),
    index("ix_coupon_books_valid_to_date", "valid_to_date"),
    # One index for any combination of lists in a filter.
    Index(
        "ix_coupon_books_lists",
        "tags",
        "audience_keys",
        "tier_keys",
        "locations",
        "categories",
        "product_categories",
        "payment_methods",
        "channels",
        postgresql_using="gin",
    ),
    Index(
        "ix_coupon_books_search",
        "name",
        "description",
        "external_id",
        postgresql_using="gin",
        postgresql_ops={"name": "gin_trgm_ops", "description": "gin_trgm_ops", "external_id": "gin_trgm_ops"},
    ),
    belongs_to_organization(),
    foreign_key("loyalty_programs", "loyalty_program_id"),
    types={"days_of_week": ARRAY(SmallInteger)},
    defaults={
        "days_of_week": "'{}'",
        "restore_on_cancel": "true",
        "is_value_coupon": "false",
        "coupon_count": "0",
        "total_assigned": "0",
        "total_usages": "0",
    },
    postgresql_with={"fillfactor": "70"},
)

# For `gin_trgm_ops`, the operators of the index for searches.
execute_on("before_create", coupon_books, "CREATE EXTENSION IF NOT EXISTS pg_trgm")

coupons = record_table(
    "coupons",
    Coupon,
    "coupon_id",
    # A code is unique in its book, and so is null: a codeless book has one coupon.
    unique("coupon_book_id", "code", postgresql_nulls_not_distinct=True),
    # By position, the last page of a book's codes is found as quickly as the first one.
    unique("coupon_book_id", "position"),
    index("ix_coupons_code", "code"),
    index("ix_coupons_expired_at", "expired_at", where="expired_at IS NOT NULL"),
    # The unassigned codes of a book.
    index("ix_coupons_unassigned", "coupon_book_id", "position", where="total_assigned = 0"),
    foreign_key("coupon_books", "coupon_book_id"),
    defaults={"total_assigned": "0", "total_usages": "0"},
    postgresql_with={"fillfactor": "80"},
)

# The sums of a member's usages of a coupon, stored so that no query adds them up. Expiry and attributes are those of
# the member's last lot of the coupon, and are only used if none of its lots has an amount left.
member_coupons = record_table(
    "member_coupons",
    MemberCoupon,
    "member_coupon_id",
    unique("member_id", "coupon_id"),
    index("ix_member_coupons_book", "member_id", "coupon_book_id"),
    foreign_key("members", "member_id"),
    foreign_key("coupons", "coupon_id"),
    postgresql_with={"fillfactor": "80"},
)

# Only the link to the reversal of a usage is ever changed. Amounts of reversals are negative, so that sums are right.
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
    # The uses of the value of a coupon.
    index(
        "ix_coupon_usages_value",
        "coupon_id",
        where="remaining_value IS NOT NULL AND amount_assigned = 0 AND reverted_usage_id IS NULL",
    ),
    foreign_key("members", "member_id"),
    foreign_key("coupons", "coupon_id"),
    without=("code", "coupon_book_key"),
)

coupon_locks = record_table(
    "coupon_locks",
    CouponLock,
    "coupon_lock_id",
    unique("coupon_lock_key"),
    unique("system_unique_key"),
    index("ix_coupon_locks_member", "member_id", "coupon_lock_id"),
    # The locks of a book that were not ended; `expires_at` excludes locks that have expired.
    index("ix_coupon_locks_book", "coupon_book_id", "expires_at", where="ended_at IS NULL"),
    foreign_key("members", "member_id"),
    foreign_key("coupons", "coupon_id"),
)

# One lot for each assignment that gave something, with the id of the assignment: the amount that is not reversed, and
# how much of it is used.
coupon_lots = record_table(
    "coupon_lots",
    CouponLot,
    ("coupon_lot_id",),
    # Searches need only the lots with an amount left, in the order of use: of a member's book, and of one coupon.
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
    foreign_key("coupon_usages", "coupon_lot_id", target=("coupon_usage_id",)),
    defaults={"amount_owed": "0"},
    postgresql_with={"fillfactor": "80"},
)
