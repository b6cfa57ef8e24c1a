"""Ranges of reports: their defaults, and the days they consist of in a zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from domain.problems import InvalidRequest
from domain.reports import (
    DAY,
    MONTH,
    QUARTER,
    QUARTER_HOUR,
    YEAR,
    DailySeries,
    ReportRange,
    ceiling,
    days_of,
    floor,
    report_range,
    zone_of,
)

MADRID = ZoneInfo("Europe/Madrid")
# 4 March in UTC, and 5 March in Madrid.
NOW = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)


def utc(*parts):
    """A moment in UTC by its year, month, day, hour and so on."""
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    ("level", "begin", "end"),
    [
        (QUARTER_HOUR, utc(2026, 11, 4, 7, 30), utc(2026, 11, 4, 7, 45)),
        (DAY, utc(2026, 11, 4), utc(2026, 11, 5)),
        (MONTH, utc(2026, 11, 1), utc(2026, 12, 1)),
        (QUARTER, utc(2026, 10, 1), utc(2027, 1, 1)),
        (YEAR, utc(2026, 1, 1), utc(2027, 1, 1)),
    ],
)
def test_a_moment_lies_in_one_bucket_of_each_level(level, begin, end):
    at = utc(2026, 11, 4, 7, 44, 59, 5)
    assert (floor(at, level), ceiling(at, level)) == (begin, end)
    assert ceiling(begin, level) == begin
    assert ceiling(utc(9999, 12, 31, 23, 59), level) is None


def requested_range(since_from=None, since_to=None, tz=None, **default_zone):
    """The range of a report that is requested at NOW."""
    return report_range(since_from, since_to, tz, NOW, **default_zone)


def test_the_default_range_is_the_last_30_days_with_today():
    assert requested_range() == ReportRange(utc(2026, 2, 3), utc(2026, 3, 5), UTC)
    # Days in Madrid begin at 23:00 in UTC.
    assert requested_range(tz="Europe/Madrid") == ReportRange(utc(2026, 2, 3, 23), utc(2026, 3, 5, 23), MADRID)
    assert requested_range(default=MADRID).zone == MADRID


def test_a_range_without_an_end_lasts_until_today():
    assert requested_range(since_from=utc(2026, 3, 1)) == ReportRange(utc(2026, 3, 1), utc(2026, 3, 5))
    begin_after_today = utc(2026, 4, 1)
    assert requested_range(since_from=begin_after_today) == ReportRange(begin_after_today, begin_after_today)


def test_a_range_without_a_beginning_has_30_days():
    assert requested_range(since_to=utc(2026, 2, 1)).begin == utc(2026, 1, 2)
    # The day that contains the end is the last one.
    a_minute_later, a_microsecond_later = utc(2026, 2, 1, 0, 1), utc(2026, 2, 1, 0, 0, 0, 1)
    for end in (a_minute_later, a_microsecond_later):
        assert requested_range(since_to=end).begin == utc(2026, 1, 3)


@pytest.mark.parametrize("zone", [None, "America/Buenos_Aires", "Asia/Tokyo"])
def test_a_range_does_not_begin_before_the_calendar(zone):
    first_moment = datetime.min.replace(tzinfo=UTC)
    assert requested_range(since_to=utc(1, 1, 3), tz=zone).begin == first_moment
    assert requested_range(since_to=first_moment, tz=zone).begin == first_moment


def test_a_range_that_ends_before_it_begins_is_refused():
    assert requested_range(since_from=NOW, since_to=NOW) == ReportRange(NOW, NOW)
    with pytest.raises(InvalidRequest) as caught:
        requested_range(since_from=NOW, since_to=NOW - timedelta(seconds=1))
    assert [(fault.parameter, fault.detail) for fault in caught.value.faults] == [
        ("sinceTo", "sinceTo is before sinceFrom.")
    ]


def test_an_unknown_zone_is_refused():
    assert zone_of(None, default=MADRID) == MADRID
    assert zone_of("Asia/Tokyo", default=MADRID) == ZoneInfo("Asia/Tokyo")
    with pytest.raises(InvalidRequest) as caught:
        requested_range(tz="Mars/Olympus")
    assert [fault.parameter for fault in caught.value.faults] == ["tz"]


def test_days_begin_and_end_in_the_zone_and_the_range_cuts_the_first_and_the_last():
    begin, end = utc(2026, 3, 28, 12), utc(2026, 3, 30, 12)
    # In Madrid, days begin at 23:00 in UTC, and at 22:00 after 29 March, when clocks go forward.
    assert [(day.date, day.begin, day.end) for day in days_of(ReportRange(begin, end, MADRID))] == [
        (date(2026, 3, 28), begin, utc(2026, 3, 28, 23)),
        (date(2026, 3, 29), utc(2026, 3, 28, 23), utc(2026, 3, 29, 22)),
        (date(2026, 3, 30), utc(2026, 3, 29, 22), end),
    ]
    assert days_of(ReportRange(begin, begin, MADRID)) == []


def test_a_range_that_ends_with_a_day_has_no_empty_day():
    assert [day.date for day in days_of(ReportRange(utc(2026, 3, 1), utc(2026, 3, 2)))] == [date(2026, 3, 1)]


def test_a_day_that_a_zone_skipped_is_not_reported():
    # Samoa went from the 29th to the 31st of December 2011.
    apia = ZoneInfo("Pacific/Apia")
    days = days_of(ReportRange(utc(2011, 12, 29, 12), utc(2011, 12, 31), apia))
    assert [day.date for day in days] == [date(2011, 12, 29), date(2011, 12, 31)]


def test_the_first_and_the_last_day_of_the_calendar_are_days():
    last_moment = datetime.max.replace(tzinfo=UTC)
    assert [day.date for day in days_of(ReportRange(utc(9999, 12, 30), last_moment))] == [
        date(9999, 12, 30),
        date(9999, 12, 31),
    ]
    days_in_tokyo = days_of(ReportRange(utc(9999, 12, 31, 12), last_moment, ZoneInfo("Asia/Tokyo")))
    assert days_in_tokyo[-1].end == last_moment
    first_moment, zone_behind_utc = datetime.min.replace(tzinfo=UTC), timezone(timedelta(hours=-3))
    first_days = days_of(ReportRange(first_moment, utc(1, 1, 1, 1), zone_behind_utc))
    assert first_days[0].begin == first_moment


def test_a_series_covers_less_than_3661_times_24_hours():
    begin = utc(2016, 1, 1)
    assert len(days_of(ReportRange(begin, begin + timedelta(days=3_660)))) == 3_660
    assert len(days_of(ReportRange(begin, begin + timedelta(days=3_660, hours=23)))) == 3_661
    with pytest.raises(InvalidRequest) as caught:
        days_of(ReportRange(begin, begin + timedelta(days=3_661)))
    assert [(fault.parameter, fault.detail) for fault in caught.value.faults] == [
        ("sinceFrom", "sinceFrom is 3,661 days or more before sinceTo; request a shorter range.")
    ]


def test_a_series_has_a_figure_of_each_name_for_every_day():
    figures_of_the_day = (Decimal(5), Decimal(2))
    series = DailySeries("Points", ("minted", "burned"), [date(2026, 3, 1)], [figures_of_the_day])
    assert dict(zip(series.names, series.rows[0], strict=True)) == {"minted": 5, "burned": 2}
