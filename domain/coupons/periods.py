"""Days and periods of a coupon book, in its own time zone: days of a change to or from summer time are real days."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from domain.calendar import DAILY, MONTHLY, WEEKLY, day_of_week, period_start
from domain.coupons.books import CouponBook

PERIODS = (DAILY, WEEKLY, MONTHLY)


def zone_of(book: CouponBook) -> tzinfo:
    """The time zone in which the book's days and periods are taken; UTC unless it names one."""
    return UTC if book.timezone is None else ZoneInfo(book.timezone)


def is_zone(name: str) -> bool:
    """True for the name of a zone of the IANA time zone database."""
    return name in zone_names()


@cache
def zone_names() -> frozenset[str]:
    """The names of all zones of the IANA time zone database."""
    return frozenset(available_timezones())


def day_of(book: CouponBook, at: datetime) -> int:
    """1 = Monday ... 7 = Sunday, in the book's zone."""
    return day_of_week(at, zone_of(book))


def usage_period(book: CouponBook, at: datetime) -> date | None:
    """The first day of the period in which a use at `at` counts; None where uses are not limited by period."""
    if book.max_usages_per_period is None or book.usage_period_type is None:
        return None
    return period_start(book.usage_period_type, at, zone_of(book))


def discount_period(book: CouponBook, at: datetime) -> date | None:
    """The first day of the period in which a discount at `at` counts; None where discounts are not limited so."""
    if book.max_discount_per_period is None or book.discount_period_type is None:
        return None
    return period_start(book.discount_period_type, at, zone_of(book))
