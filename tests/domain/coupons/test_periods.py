"""Days and periods of books across changes of the clock, ends of months and leap days, in three time zones and UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import day_of_week, is_zone, local_time
from domain.coupons.lots import period_starts, zone_of
from tests.builders.coupon_values import coupon_book

NEW_YORK, SAO_PAULO, APIA = "America/New_York", "America/Sao_Paulo", "Pacific/Apia"


def periods(book, at, zone):
    """The first days of the periods of uses and of discounts."""
    return [start and local_time(start, zone_of(book, zone)).date() for start in period_starts(book, at, zone)]


def usage_period(book, at, zone):
    """The first day of the period of uses."""
    return periods(book, at, zone)[0]


def period(zone, kind, at):
    """The first local day of the period of a moment."""
    book = coupon_book(timezone=zone, max_usages_per_period=1, usage_period_type=kind)
    return usage_period(book, datetime.fromisoformat(at).astimezone(UTC), UTC)


@pytest.mark.parametrize(
    ("zone", "at", "daily", "weekly", "monthly"),
    [
        # The clock goes forward on Sunday 8 March 2026: that day has 23 hours, from 05:00 to 04:00 UTC.
        (NEW_YORK, "2026-03-08T04:59:59Z", "2026-03-07", "2026-03-02", "2026-03-01"),
        (NEW_YORK, "2026-03-08T05:00:00Z", "2026-03-08", "2026-03-02", "2026-03-01"),
        (NEW_YORK, "2026-03-09T03:59:59Z", "2026-03-08", "2026-03-02", "2026-03-01"),
        (NEW_YORK, "2026-03-09T04:00:00Z", "2026-03-09", "2026-03-09", "2026-03-01"),
        # It goes back on Sunday 1 November 2026: 01:30 comes twice on a day of 25 hours.
        (NEW_YORK, "2026-11-01T03:59:59Z", "2026-10-31", "2026-10-26", "2026-10-01"),
        (NEW_YORK, "2026-11-01T05:30:00Z", "2026-11-01", "2026-10-26", "2026-11-01"),
        (NEW_YORK, "2026-11-01T06:30:00Z", "2026-11-01", "2026-10-26", "2026-11-01"),
        (NEW_YORK, "2026-11-02T04:59:59Z", "2026-11-01", "2026-10-26", "2026-11-01"),
        (NEW_YORK, "2026-11-02T05:00:00Z", "2026-11-02", "2026-11-02", "2026-11-01"),
        # Midnight of 4 November 2018 did not exist in Sao Paulo: the day began at 01:00.
        (SAO_PAULO, "2018-11-04T02:59:59Z", "2018-11-03", "2018-10-29", "2018-11-01"),
        (SAO_PAULO, "2018-11-04T03:00:00Z", "2018-11-04", "2018-10-29", "2018-11-01"),
        # 30 December 2011 did not exist in Apia: Thursday was followed by Saturday.
        (APIA, "2011-12-30T09:59:59Z", "2011-12-29", "2011-12-26", "2011-12-01"),
        (APIA, "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-26", "2011-12-01"),
        # Leap days, and the months around them.
        (NEW_YORK, "2024-03-01T04:59:59Z", "2024-02-29", "2024-02-26", "2024-02-01"),
        (NEW_YORK, "2024-03-01T05:00:00Z", "2024-03-01", "2024-02-26", "2024-03-01"),
        (SAO_PAULO, "2023-03-01T02:59:59Z", "2023-02-28", "2023-02-27", "2023-02-01"),
        (APIA, "2024-02-29T10:59:59Z", "2024-02-29", "2024-02-26", "2024-02-01"),
        (None, "2000-02-29T23:59:59Z", "2000-02-29", "2000-02-28", "2000-02-01"),
        # The ends of months and of the year, far east and far west of Greenwich.
        (APIA, "2026-01-31T10:59:59Z", "2026-01-31", "2026-01-26", "2026-01-01"),
        (APIA, "2026-01-31T11:00:00Z", "2026-02-01", "2026-01-26", "2026-02-01"),
        (NEW_YORK, "2027-01-01T04:59:59Z", "2026-12-31", "2026-12-28", "2026-12-01"),
        (SAO_PAULO, "2027-01-01T03:00:00Z", "2027-01-01", "2026-12-28", "2027-01-01"),
    ],
)
def test_a_period_begins_on_its_first_local_day(zone, at, daily, weekly, monthly):
    first_days = [period(zone, kind, at) for kind in ("daily", "weekly", "monthly")]
    assert first_days == [date.fromisoformat(day) for day in (daily, weekly, monthly)]


@pytest.mark.parametrize(
    ("zone", "at", "day"),
    [
        (NEW_YORK, "2026-03-09T03:59:59Z", 7),
        (NEW_YORK, "2026-03-09T04:00:00Z", 1),
        (NEW_YORK, "2026-11-02T04:59:59Z", 7),
        (SAO_PAULO, "2018-11-04T03:00:00Z", 7),
        (APIA, "2011-12-30T09:59:59Z", 4),
        (APIA, "2011-12-30T10:00:00Z", 6),
        (None, "2024-02-29T00:00:00Z", 4),
    ],
)
def test_the_day_of_the_week_is_local(zone, at, day):
    assert day_of_week(datetime.fromisoformat(at), zone_of(coupon_book(timezone=zone), UTC)) == day


def test_a_book_without_a_zone_has_the_days_of_the_organization():
    # Monday in UTC, and Sunday, 23:30, in Los Angeles.
    at, los_angeles = datetime(2026, 3, 9, 6, 30, tzinfo=UTC), ZoneInfo("America/Los_Angeles")
    limits = {"max_usages_per_period": 1, "usage_period_type": "daily"}
    assert day_of_week(at, zone_of(coupon_book(), los_angeles)) == 7
    assert day_of_week(at, zone_of(coupon_book(timezone="UTC"), los_angeles)) == 1
    assert usage_period(coupon_book(**limits), at, los_angeles) == date(2026, 3, 8)
    assert usage_period(coupon_book(**limits, timezone="UTC"), at, los_angeles) == date(2026, 3, 9)


def test_without_a_limit_there_is_no_period():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert usage_period(coupon_book(usage_period_type="daily"), at, UTC) is None
    assert periods(coupon_book(), at, UTC) == [None, None]
    limited_book = coupon_book(max_discount_per_period=1, discount_period_type="weekly")
    assert periods(limited_book, at, UTC) == [None, date(2025, 12, 29)]


@given(
    at=st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
    zone=st.sampled_from([NEW_YORK, SAO_PAULO, APIA, "Asia/Kathmandu"]),
    kind=st.sampled_from(["daily", "weekly", "monthly"]),
    distance=st.timedeltas(timedelta(0), timedelta(days=40)),
)
def test_a_period_contains_its_moment_and_that_of_a_later_moment_does_not_begin_earlier(at, zone, kind, distance):
    first_day = period(zone, kind, at.isoformat())
    day = at.astimezone(ZoneInfo(zone)).date()
    max_days = {"daily": 1, "weekly": 7, "monthly": 31}[kind]
    assert first_day <= day < first_day + timedelta(days=max_days)
    later_moment = at + distance
    assert period(zone, kind, later_moment.isoformat()) >= first_day


def test_zones_are_found_by_their_names():
    assert all(map(is_zone, [NEW_YORK, SAO_PAULO, APIA, "UTC"]))
    assert not any(map(is_zone, ["", "Mars/Olympus", "../zoneinfo/UTC", "america/new_york", "+03:00"]))
    # Files of the time zone database that are not time zones.
    assert not any(map(is_zone, ["localtime", "Factory", "posixrules", "posix/UTC", "right/Europe/Madrid"]))
