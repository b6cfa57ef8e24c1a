"""The limits of coupon books, whose terms a process reads for each list of the books that a member can use."""

from collections.abc import Iterator
from contextlib import contextmanager

from domain.coupons.books import CouponBookLimit
from handlers.call import Call
from persistence import audit_log
from persistence.coupons import books

MAX_BOOKS = 10_000
MAX_TERMS_BYTES = 8 * 1024 * 1024


@contextmanager
def limit_books(call: Call) -> Iterator[None]:
    """Raise CouponBookLimit after the block if it has made the organization exceed a limit of coupon books.

    Books that exceed a limit already can become smaller. Waits for other calls that create or change books of the
    organization, so that this call counts their books.
    """
    organization_id = call.organization.organization_id
    audit_log.acquire_lock(call.db, organization_id, "coupon books")
    before = books.size_of_terms(call.db, organization_id)
    yield
    after = books.size_of_terms(call.db, organization_id)
    if after.book_count > max(before.book_count, MAX_BOOKS):
        raise CouponBookLimit(
            f"The organization has {MAX_BOOKS:,} coupon books that are not archived, the maximum. Archive one by"
            " updateCouponBookStatus."
        )
    if after.byte_count > max(before.byte_count, MAX_TERMS_BYTES):
        raise CouponBookLimit(
            f"The rules of the organization's coupon books would have {after.byte_count:,} bytes, more than the maximum"
            f" of {MAX_TERMS_BYTES:,}; make conditions, schedules or lists shorter, or archive books."
        )
