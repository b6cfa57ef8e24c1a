"""Hours of the week by the clocks of a zone, also where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.content.documents import hour_of_week, hours_of_week_now, open_hours, schedule_faults

MADRID = ZoneInfo("Europe/Madrid")
windows = st.builds(
    lambda day, hours: {"day": day, "fromHour": min(hours), "toHour": max(hours)},
    st.integers(1, 7),
    st.tuples(st.integers(0, 23), st.integers(0, 23)),
)
zones = st.sampled_from(["UTC", "Europe/Madrid", "America/Buenos_Aires", "Asia/Kolkata", "Pacific/Apia"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(windows, min_size=1, max_size=5), zones, st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)))
def test_an_hour_is_open_if_the_local_time_is_in_a_window(schedule, zone, at):
    at = at.replace(tzinfo=UTC)
    local_time = at.astimezone(ZoneInfo(zone))
    is_in_window = any(
        window["day"] == local_time.isoweekday() and window["fromHour"] <= local_time.hour <= window["toHour"]
        for window in schedule
    )
    hour_now = hours_of_week_now([zone], at)[zone]
    assert (hour_now in open_hours({"timezone": zone, "schedule": schedule})) == is_in_window


def test_the_hour_that_summer_time_skips_is_no_hour_of_that_week():
    # On 29 March 2026 clocks in Madrid go from 01:59 to 03:00.
    minute_before_change = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)
    hours_of_day = [hour_of_week(minute_before_change + timedelta(minutes=n), MADRID) % 24 for n in range(3)]
    assert hours_of_day == [1, 3, 3]


def test_an_hour_that_comes_twice_is_the_same_hour_of_the_week_both_times():
    # On 25 October 2026, a Sunday, clocks in Madrid go from 02:59 back to 02:00.
    first_half_past_two = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    second_half_past_two = first_half_past_two + timedelta(hours=1)
    assert hour_of_week(first_half_past_two, MADRID) == 6 * 24 + 2
    assert hour_of_week(second_half_past_two, MADRID) == 6 * 24 + 2


@pytest.mark.parametrize("at", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_the_first_and_the_last_moment_of_the_calendar_have_an_hour_of_the_week(at):
    # Their local time in some zones is outside the calendar of Python.
    for zone in ("Pacific/Apia", "America/Buenos_Aires"):
        assert 0 <= hour_of_week(at, ZoneInfo(zone)) < 168


def test_an_unknown_time_zone_and_a_reversed_window_are_reported():
    schedule = {"timezone": "Mars/Base", "schedule": [{"day": 1, "fromHour": 9, "toHour": 8}]}
    pointers = [fault.pointer for fault in schedule_faults(schedule, frozenset({"UTC"}))]
    assert pointers == ["/dayOfWeekSchedule/timezone", "/dayOfWeekSchedule/schedule/0/fromHour"]
    assert schedule_faults(None, frozenset()) == []
