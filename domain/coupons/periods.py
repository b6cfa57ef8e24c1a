"""Days and periods of a coupon book in its time zone, in which days may have 23 or 25 hours.

`zone` is the organization's, for books without a time zone of their own.
"""

from datetime import date, datetime, tzinfo

from domain.calendar import DAILY, MONTHLY, WEEKLY, day_of_week, period_start, zone_named
from domain.coupons.books import CouponBook

PERIODS = (DAILY, WEEKLY, MONTHLY)


def zone_of(book: CouponBook, zone: tzinfo) -> tzinfo:
    """The time zone of the book's days and periods."""
    return zone if book.timezone is None else zone_named(book.timezone)


def day_of(book: CouponBook, at: datetime, zone: tzinfo) -> int:
    """1 = Monday ... 7 = Sunday, in the book's zone."""
    return day_of_week(at, zone_of(book, zone))


def usage_period(book: CouponBook, at: datetime, zone: tzinfo) -> date | None:
    """The first day of the period in which a use at `at` counts; None if uses are not limited by period."""
    if book.max_usages_per_period is None or book.usage_period_type is None:
        return None
    return period_start(book.usage_period_type, at, zone_of(book, zone))


def discount_period(book: CouponBook, at: datetime, zone: tzinfo) -> date | None:
    """The first day of the period in which a discount at `at` counts; None if discounts are not limited by period."""
    if book.max_discount_per_period is None or book.discount_period_type is None:
        return None
    return period_start(book.discount_period_type, at, zone_of(book, zone))
