"""Periods and days of the calendar."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import (
    DAILY,
    MONTHLY,
    PERIODS,
    TOTAL,
    WEEKLY,
    YEARLY,
    add_days,
    add_months,
    day_of_week,
    instant_of,
    is_zone,
    local_of,
    moment_in,
    next_period,
    period_start,
    start_of_day,
    with_offsets,
    zone_faults,
    zone_named,
)

MADRID = ZoneInfo("Europe/Madrid")

MOMENTS = st.datetimes(timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("at", "period", "start"),
    [
        pytest.param(datetime(2026, 3, 4, 23, 59, 59, 999999), DAILY, date(2026, 3, 4), id="end of a day"),
        pytest.param(datetime(2026, 3, 1, 23, 59, 59, 999999), WEEKLY, date(2026, 2, 23), id="end of a Sunday"),
        pytest.param(datetime(2026, 3, 2), WEEKLY, date(2026, 3, 2), id="begin of a Monday"),
        pytest.param(datetime(2027, 1, 1), WEEKLY, date(2026, 12, 28), id="week in two years"),
        pytest.param(datetime(2024, 2, 29, 12), MONTHLY, date(2024, 2, 1), id="leap day"),
        pytest.param(datetime(2026, 12, 31, 23, 59), MONTHLY, date(2026, 12, 1), id="end of a month"),
        pytest.param(datetime(2026, 12, 31, 23, 59), YEARLY, date(2026, 1, 1), id="end of a year"),
        pytest.param(datetime(2027, 1, 1), YEARLY, date(2027, 1, 1), id="begin of a year"),
        pytest.param(datetime(2026, 12, 31), TOTAL, date(1, 1, 1), id="all time"),
        pytest.param(datetime(1, 1, 1), WEEKLY, date(1, 1, 1), id="first week of the calendar"),
    ],
)
def test_a_period_begins_on_its_first_day(at, period, start):
    assert period_start(period, at.replace(tzinfo=UTC)) == start


def test_a_period_begins_and_ends_in_the_time_zone():
    # In Rome, it is half an hour past midnight.
    new_year = datetime(2025, 12, 31, 23, 30, tzinfo=UTC)
    rome = ZoneInfo("Europe/Rome")
    assert period_start(YEARLY, new_year) == date(2025, 1, 1)
    assert period_start(YEARLY, new_year, rome) == date(2026, 1, 1)
    # 31 December 2025 is a Wednesday.
    assert day_of_week(new_year) == 3
    assert day_of_week(new_year, rome) == 4
    # On the day on which clocks go forward, Rome is 2 hours ahead of UTC in the evening.
    half_past_midnight = datetime(2026, 3, 29, 22, 30, tzinfo=UTC)
    assert period_start(DAILY, half_past_midnight, rome) == date(2026, 3, 30)


def test_an_unknown_period_is_refused():
    with pytest.raises(ValueError, match="fortnightly"):
        period_start("fortnightly", datetime(2026, 1, 1, tzinfo=UTC))


@given(MOMENTS, st.sampled_from([DAILY, WEEKLY, MONTHLY, YEARLY]))
def test_moments_share_a_period_exactly_if_they_share_its_name(at, period):
    form_of_name = {DAILY: "%Y-%m-%d", WEEKLY: "%G-%V", MONTHLY: "%Y-%m", YEARLY: "%Y"}[period]
    first_day = period_start(period, at)
    assert first_day <= at.date()
    assert first_day.strftime(form_of_name) == at.date().strftime(form_of_name)
    if first_day > date(1, 1, 1):
        day_before = first_day - timedelta(days=1)
        assert day_before.strftime(form_of_name) != first_day.strftime(form_of_name)


@given(MOMENTS)
def test_days_of_the_week_are_numbered_from_monday(at):
    assert day_of_week(at) == (at.date() - date(1, 1, 1)).days % 7 + 1


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-04T12:00:00Z",
        "2026-03-04t12:00:00z",
        "2026-03-04T12:00:00",
        "2026-03-04 12:00:00Z",
        "2026-03-04T14:00:00+02:00",
        "2026-03-04T14:00:00+0200",
        "2026-03-03T22:00:00-1400",
        "2026-03-04T12:00:00.000000Z",
    ],
)
def test_a_moment_is_read_in_every_usual_form(text):
    assert instant_of(text) == datetime(2026, 3, 4, 12, tzinfo=UTC)
    assert instant_of(text).tzinfo is UTC


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-23 * 60, 23 * 60))
def test_moments_survive_being_written_in_any_zone(at, minutes):
    moment = at.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert instant_of(moment.isoformat()) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-02-30T00:00:00Z", "2026-03-04T25:00:00Z", "0001-01-01T00:00:00+01:00",
             "9999-12-31T23:59:59-00:01"]
)  # fmt: skip
def test_a_text_that_is_no_moment_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        instant_of(text)


@given(MOMENTS, st.sampled_from(PERIODS))
def test_every_moment_lies_between_its_period_and_the_next(at, period):
    first_day = period_start(period, at)
    next_first_day = next_period(period, first_day)
    assert first_day <= at.date() < next_first_day or next_first_day == date.max
    if next_first_day != date.max:
        assert period_start(period, datetime.combine(next_first_day, time.min, UTC)) == next_first_day


def test_the_last_period_ends_with_the_calendar():
    assert next_period(YEARLY, date(9999, 1, 1)) == date.max


@pytest.mark.parametrize("zone", [ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Pacific/Niue")])
@pytest.mark.parametrize("moment", [datetime.min, datetime.max])
def test_the_first_and_the_last_moment_have_a_period_and_a_day_in_every_zone(moment, zone):
    at = moment.replace(tzinfo=UTC)
    assert abs((period_start("daily", at, zone) - at.date()).days) <= 1
    assert abs(start_of_day(at.date(), zone) - at).days <= 2
    assert 1 <= day_of_week(at, zone) <= 7


@dataclass(frozen=True)
class Zoned:
    """A record with a zone and two moments."""

    timezone: str | None
    begin: datetime | None
    end: datetime | None = None


@pytest.mark.parametrize(
    ("zone", "hours_ahead"),
    [
        pytest.param("Asia/Tokyo", 9, id="zone of the record"),
        pytest.param(None, 1, id="default zone"),
        pytest.param("Mars/Olympus", 1, id="default zone in place of an unknown one"),
    ],
)
def test_moments_without_an_offset_are_read_in_the_zone_of_the_record(zone, hours_ahead):
    """Tokyo is 9 hours ahead of UTC. The default zone is that of Madrid, which is 1 hour ahead in winter."""
    begin = datetime(2026, 3, 4)
    record_with_offsets = with_offsets(Zoned(zone, begin=begin), ["begin", "end"], "Europe/Madrid")
    assert record_with_offsets == Zoned(zone, begin=begin.replace(tzinfo=UTC) - timedelta(hours=hours_ahead), end=None)


def test_moments_with_an_offset_are_unchanged():
    at = datetime(2026, 3, 4, tzinfo=UTC)
    assert with_offsets(Zoned("Asia/Tokyo", at), ["begin"], "UTC").begin == at


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-04T12:00:00+01:00", datetime(2026, 3, 4, 11, tzinfo=UTC)),
        ("2026-03-04T12:00:00+0100", datetime(2026, 3, 4, 11, tzinfo=UTC)),
        ("2026-03-04t12:00:00z", datetime(2026, 3, 4, 12, tzinfo=UTC)),
        ("2026-03-04 12:00:00", datetime(2026, 3, 4, 12)),
        ("2026-03-04", datetime(2026, 3, 4)),
    ],
)
def test_a_text_without_an_offset_is_a_local_time(text, moment):
    assert local_of(text) == moment
    assert instant_of(text) == moment.replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "0001-01-01T00:00:00+01:00", "9999-12-31T23:00:00-02:00", "2026-13-01"])
def test_a_malformed_text_is_refused_as_a_moment(text):
    with pytest.raises(ValueError, match=r"."):
        instant_of(text)


@pytest.mark.parametrize(
    ("moment", "months", "later_moment"),
    [
        pytest.param(datetime(2026, 1, 15, 10), 1, datetime(2026, 2, 15, 10), id="the same day"),
        pytest.param(datetime(2026, 1, 31, 10), 1, datetime(2026, 2, 28, 10), id="a shorter month"),
        pytest.param(datetime(2026, 11, 30), 3, datetime(2027, 2, 28), id="the next year"),
        pytest.param(datetime(2026, 3, 31), -1, datetime(2026, 2, 28), id="backwards"),
        pytest.param(datetime(9999, 12, 1), 1, datetime.max, id="beyond the calendar"),
    ],
)
def test_adding_months_leads_to_the_same_day_or_the_last_of_the_month(moment, months, later_moment):
    assert add_months(moment.replace(tzinfo=UTC), months, UTC) == later_moment.replace(tzinfo=UTC)


def test_months_and_days_keep_the_time_of_day_where_clocks_change():
    # Clocks go forward on 29 March: noon in Madrid is 11:00 UTC before it, and 10:00 UTC from then on.
    day_before_change = datetime(2026, 3, 28, 11, tzinfo=UTC)
    assert add_days(day_before_change, 1, MADRID) == datetime(2026, 3, 29, 10, tzinfo=UTC)
    assert add_months(day_before_change, 1, MADRID) == datetime(2026, 4, 28, 10, tzinfo=UTC)


def test_adding_a_day_to_the_last_moment_of_the_calendar_changes_nothing():
    assert add_days(datetime.max.replace(tzinfo=UTC), 1, MADRID) == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati", "Europe/Madrid"])
def test_the_first_day_of_the_calendar_has_a_next_day_in_every_zone(zone):
    assert add_days(datetime(1, 1, 1, tzinfo=UTC), 1, ZoneInfo(zone)) == datetime(1, 1, 2, tzinfo=UTC)


def test_no_month_precedes_the_first_one_of_the_calendar():
    with pytest.raises(ValueError, match="year"):
        add_months(datetime(1, 1, 1, tzinfo=UTC), -1, UTC)


def test_a_local_time_that_comes_twice_is_the_first_of_its_two_moments():
    # Clocks go back from 03:00 to 02:00 on 25 October, and Madrid is 2 hours ahead of UTC until then.
    assert moment_in(MADRID, datetime(2026, 10, 25, 2, 30)) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert moment_in(MADRID, datetime(2026, 7, 1, 12)) == datetime(2026, 7, 1, 10, tzinfo=UTC)


def test_an_unknown_zone_is_refused_with_a_suggestion():
    assert zone_faults(None) == zone_faults("Europe/Madrid") == []
    [fault] = zone_faults("Europe/Madird")
    assert fault.pointer == "/timezone"
    assert fault.detail.startswith("timezone Europe/Madird is not a time zone of the IANA database")
    assert fault.detail.endswith("Did you mean Europe/Madrid?")


def test_files_of_the_time_zone_database_that_are_no_zones_are_not_recognized():
    assert is_zone("UTC")
    assert not any(map(is_zone, ("Factory", "localtime", "posix/UTC", "right/UTC", "posixrules")))


def test_a_zone_without_a_name_is_utc():
    assert zone_named(None) == UTC
    assert zone_named("Asia/Tokyo") == ZoneInfo("Asia/Tokyo")
