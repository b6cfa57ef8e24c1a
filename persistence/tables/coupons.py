"""Coupon books and their codes."""

from sqlalchemy import ARRAY, Index, SmallInteger

from domain.coupons.books import Coupon, CouponBook
from persistence.tables.base import belongs_to_organization, execute_on, index, record_table, refers_to, unique

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
    refers_to("loyalty_programs", "loyalty_program_id"),
    types={"days_of_week": ARRAY(SmallInteger)},
    defaults={"days_of_week": "'{}'", "coupon_count": "0", "total_assigned": "0", "total_usages": "0"},
    postgresql_with={"fillfactor": "70"},
)

# The expression of the index for searches.
execute_on("before_create", coupon_books, "CREATE EXTENSION IF NOT EXISTS pg_trgm")

coupons = record_table(
    "coupons",
    Coupon,
    "coupon_id",
    # A code once in a book, and the lack of one, too: a codeless book has one coupon.
    unique("coupon_book_id", "code", postgresql_nulls_not_distinct=True),
    # By place, a deep page of a book's codes is found as quickly as the first one.
    unique("coupon_book_id", "position"),
    index("ix_coupons_code", "code"),
    index("ix_coupons_expired_at", "expired_at", where="expired_at IS NOT NULL"),
    # The unassigned codes of a book.
    index("ix_coupons_unassigned", "coupon_book_id", "position", where="total_assigned = 0"),
    refers_to("coupon_books", "coupon_book_id"),
    defaults={"total_assigned": "0", "total_usages": "0"},
    postgresql_with={"fillfactor": "80"},
)
