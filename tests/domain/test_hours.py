"""Hours of the week by local time, compared with a simple model, and the schedules that are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import instant_of
from domain.campaigns.restrictions import first_violated
from domain.coupons.eligibility import ASSIGN, USE, Attempt, MemberFacts, exclusions, exclusions_from_list
from domain.hours import Occasion, hours_faults, hours_of
from domain.organizations import location_faults
from tests.builders.campaigns import Bench, action, campaign, facts, mint
from tests.builders.coupon_values import coupon_book

MADRID, CANARY = ZoneInfo("Europe/Madrid"), ZoneInfo("Atlantic/Canary")
ZONES = ("Europe/Madrid", "Atlantic/Canary", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")


def window(day, begin, end):
    """A window of a schedule; day 1 is Monday."""
    return {"day": day, "from": begin, "to": end}


def daily(begin, end):
    """A schedule with the same window on each day."""
    return {"schedule": [window(day, begin, end) for day in range(1, 8)]}


def is_open(schedule, at, zone=MADRID):
    """True if a schedule of local times, by default in Madrid, is open at a moment in UTC."""
    return hours_of(schedule).is_open(instant_of(at), zone)


HAPPY_HOURS = daily("15:00", "17:00")


@pytest.mark.parametrize(
    ("at", "is_happy_hour"),
    [
        # 28 March is before the change to summer time, 24 October before the change back.
        ("2026-03-28T13:59:59Z", False),
        ("2026-03-28T14:00:00Z", True),
        ("2026-03-29T13:00:00Z", True),
        ("2026-03-29T14:59:59Z", True),
        ("2026-03-29T15:00:00Z", False),
        ("2026-10-24T13:30:00Z", True),
        ("2026-10-24T14:59:59Z", True),
        ("2026-10-24T15:00:00Z", False),
        ("2026-10-25T13:30:00Z", False),
        ("2026-10-25T14:30:00Z", True),
        ("2026-10-25T15:00:00Z", True),
        ("2026-10-25T16:00:00Z", False),
    ],
)
def test_happy_hours_keep_their_local_times_when_clocks_change(at, is_happy_hour):
    assert is_open(HAPPY_HOURS, at) is is_happy_hour


@pytest.mark.parametrize(
    ("at", "is_open_in_madrid", "is_open_on_canary"),
    [
        ("2026-07-01T13:30:00Z", True, False),
        ("2026-07-01T14:30:00Z", True, True),
        ("2026-07-01T15:30:00Z", False, True),
    ],
)
def test_happy_hours_depend_on_the_zone_of_the_location(at, is_open_in_madrid, is_open_on_canary):
    assert (is_open(HAPPY_HOURS, at), is_open(HAPPY_HOURS, at, CANARY)) == (is_open_in_madrid, is_open_on_canary)
    compiled_campaign = campaign(action(1, mint(5)), day_of_week_schedule=HAPPY_HOURS, timezone="Europe/Madrid")
    for zone, is_happy_hour in ((None, is_open_in_madrid), (CANARY, is_open_on_canary)):
        event = facts(at=instant_of(at), location_zone=zone)
        assert (first_violated(compiled_campaign.restrictions, event) is None) is is_happy_hour


def test_a_window_across_midnight_belongs_to_the_day_on_which_it_begins():
    friday = {"schedule": [window(5, "22:00", "02:00")]}
    # 6 March 2026 is a Friday, in winter time: 21:00 in UTC is 22:00 in Madrid.
    assert not is_open(friday, "2026-03-06T00:30:00Z")
    assert not is_open(friday, "2026-03-06T20:59:59Z")
    assert is_open(friday, "2026-03-06T21:00:00Z")
    assert is_open(friday, "2026-03-07T00:30:00Z")
    assert not is_open(friday, "2026-03-07T01:00:00Z")


def test_a_window_from_sunday_reaches_into_monday():
    sunday = {"schedule": [window(7, "22:00", "02:00")]}
    # 1 and 8 March 2026 are Sundays.
    assert is_open(sunday, "2026-03-08T22:00:00Z", UTC)
    assert is_open(sunday, "2026-03-09T01:59:00Z", UTC)
    assert not is_open(sunday, "2026-03-09T02:00:00Z", UTC)
    assert is_open(sunday, "2026-03-02T01:00:00Z", UTC)


def test_a_window_in_an_hour_that_clocks_skip_is_never_open_and_in_a_repeated_hour_twice():
    night = daily("02:00", "03:00")
    # In Madrid, 29 March begins at 23:00 in UTC. It has 23 hours, without the hour from 02:00 to 03:00.
    begin_of_day = datetime(2026, 3, 28, 23, tzinfo=UTC)
    minutes_of_day = [begin_of_day + timedelta(minutes=minute) for minute in range(23 * 60)]
    assert not any(hours_of(night).is_open(at, MADRID) for at in minutes_of_day)
    # On 25 October, 02:30 is at both of these moments.
    assert is_open(night, "2026-10-25T00:30:00Z")
    assert is_open(night, "2026-10-25T01:30:00Z")


def test_a_whole_day_is_up_to_24_00():
    sunday = {"schedule": [window(7, "00:00", "24:00")]}
    # 8 March 2026 is a Sunday.
    assert is_open(sunday, "2026-03-08T23:59:59Z", UTC)
    assert not is_open(sunday, "2026-03-09T00:00:00Z", UTC)
    # At this moment clocks go forward in Madrid, which is the zone if none is given.
    assert is_open(daily("00:00", "24:00"), "2026-03-29T01:00:00Z")


def test_a_schedule_of_whole_days_is_open_at_the_first_and_the_last_moment_of_the_calendar():
    first_moment, last_moment = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    always = daily("00:00", "24:00")
    for zone in (MADRID, ZoneInfo("America/New_York")):
        assert hours_of(always).is_open(first_moment, zone)
        assert hours_of(always).is_open(last_moment, zone)


# --- refused schedules -----------------------------------------------------------------------------------------------


def faults(*windows, has_days_of_week=False):
    """(pointer, detail) of each fault of a schedule."""
    faults_of_hours = hours_faults({"schedule": list(windows)}, has_days_of_week=has_days_of_week)
    return [(fault.pointer, fault.detail) for fault in faults_of_hours]


@pytest.mark.parametrize(
    # Each overlap has the position of the later one of its two windows in the schedule.
    ("windows", "overlaps"),
    [
        ([window(1, "09:00", "12:00"), window(1, "12:00", "15:00"), window(2, "09:00", "10:00")], []),
        ([window(7, "22:00", "02:00"), window(1, "02:00", "03:00")], []),
        ([window(7, "22:00", "00:00"), window(1, "00:00", "24:00"), window(2, "00:00", "24:00")], []),
        (
            [window(7, "22:00", "02:00"), window(1, "01:00", "03:00")],
            [(1, "schedule has overlapping windows, day 7 22:00 to 02:00 and day 1 01:00 to 03:00.")],
        ),
        (
            [window(1, "11:00", "13:00"), window(1, "09:00", "12:00")],
            [(0, "schedule has overlapping windows, day 1 09:00 to 12:00 and day 1 11:00 to 13:00.")],
        ),
        (
            [window(3, "09:00", "10:00"), window(3, "09:00", "10:00")],
            [(1, "schedule has overlapping windows, day 3 09:00 to 10:00 and day 3 09:00 to 10:00.")],
        ),
        (
            [window(1, "00:00", "24:00"), window(1, "01:00", "02:00"), window(1, "03:00", "04:00")],
            [(1, "schedule has overlapping windows, day 1 00:00 to 24:00 and day 1 01:00 to 02:00.")],
        ),
    ],
)
def test_windows_that_overlap_are_refused_even_from_sunday_to_monday(windows, overlaps):
    assert faults(*windows) == [(f"/dayOfWeekSchedule/schedule/{position}", detail) for position, detail in overlaps]


def test_a_window_whose_end_equals_its_start_is_refused():
    detail = "from is 09:00, the same as to; a whole day is from 00:00 to 24:00."
    assert faults(window(1, "09:00", "09:00")) == [("/dayOfWeekSchedule/schedule/0/from", detail)]


def test_a_schedule_together_with_days_of_the_week_is_refused():
    detail = "dayOfWeekSchedule names the days itself; send an empty daysOfWeek with it."
    assert faults(window(1, "09:00", "10:00"), has_days_of_week=True) == [("/dayOfWeekSchedule", detail)]
    assert hours_faults(None, has_days_of_week=True) == []


def test_locations_have_codes_that_orders_can_have_and_zones_that_exist():
    assert location_faults({"LPA": "Atlantic/Canary", "x" * 100: "UTC"}) == []
    zone_faults = location_faults({"a/b~c": "Europe/Madird", "": "UTC", "x" * 101: "UTC"})
    assert [fault.pointer for fault in zone_faults] == [
        "/locationTimezones/a~1b~0c",
        "/locationTimezones/",
        f"/locationTimezones/{'x' * 101}",
    ]
    assert zone_faults[0].detail.endswith("Did you mean Europe/Madrid?")


def test_the_first_20_faults_of_locations_are_reported_and_the_others_are_counted():
    many_faults = location_faults({str(number): "Mars/Olympus" for number in range(5000)})
    # The last fault has the number of the faults that are not reported: 5000 - 20.
    assert len(many_faults) == 20 + 1
    assert many_faults[-1].detail == "locationTimezones has 4980 more faulty entries."


# --- campaigns and coupon books --------------------------------------------------------------------------------------


def test_the_reason_of_a_closed_campaign_names_the_time_the_day_and_the_zone():
    bench = Bench(campaign(action(1, mint(5)), day_of_week_schedule=HAPPY_HOURS, timezone="Europe/Madrid"))
    at = instant_of("2026-10-25T13:30:00Z")  # 14:30 in Madrid, half an hour before the window
    reason = bench.run(facts(at=at), explaining=True).explanations[0].reason
    assert reason.code == "OUTSIDE_HOURS"
    assert reason.actual == {"localTime": "14:30", "day": 7, "timezone": "Europe/Madrid"}
    assert reason.label == "the campaign does not run at 14:30 on day 7 of the week (time zone Europe/Madrid)"


def test_a_window_is_the_same_as_a_rule_on_the_hours_of_the_event():
    rule = "event.externalEventDate.getHours() >= 15 && event.externalEventDate.getHours() < 17"
    by_window = Bench(campaign(action(1, mint(5)), day_of_week_schedule=HAPPY_HOURS, timezone="Europe/Madrid"))
    by_rule = Bench(campaign(action(1, mint(5), rule=rule), timezone="Europe/Madrid"))
    for begin in ("2026-03-28T00:00:00Z", "2026-07-01T00:00:00Z", "2026-10-24T00:00:00Z"):
        for quarter in range(4 * 72):
            at = instant_of(begin) + timedelta(minutes=15 * quarter)
            event = facts(at=at)
            event.context["event"]["externalEventDate"] = at
            has_run_by_window, has_run_by_rule = bool(by_window.run(event).effects), bool(by_rule.run(event).effects)
            assert has_run_by_window is has_run_by_rule, at


def test_the_zone_of_the_location_also_decides_about_days_and_not_about_limits():
    at = instant_of("2026-03-01T23:30:00Z")  # Monday in Madrid, Sunday on the Canary Islands
    compiled_campaign = campaign(days_of_week=(1,), timezone="Europe/Madrid")
    assert first_violated(compiled_campaign.restrictions, facts(at=at)) is None
    event_on_canary = facts(at=at, location_zone=CANARY)
    violation = first_violated(compiled_campaign.restrictions, event_on_canary)
    assert violation.code == "DAY_OF_WEEK"
    assert violation.reason(event_on_canary).actual == 7
    assert compiled_campaign.zone == MADRID


def reasons(book, at, attempt):
    """(slug, text) of each reason for which an attempt at a moment in UTC is refused."""
    return [(exclusion.slug, str(exclusion)) for exclusion in exclusions(book, MemberFacts(at=instant_of(at)), attempt)]


def test_a_coupon_book_is_closed_outside_its_hours():
    # In summer, the happy hours from 15:00 to 17:00 in Madrid are from 13:00 to 15:00 in UTC.
    book = coupon_book(day_of_week_schedule=HAPPY_HOURS, timezone="Europe/Madrid")
    for purpose in (ASSIGN, USE):
        assert reasons(book, "2026-07-01T13:00:00Z", Attempt(purpose)) == []
        detail = "The coupon book is closed at 17:00 on day 3 of the week (time zone Europe/Madrid)."
        assert reasons(book, "2026-07-01T15:00:00Z", Attempt(purpose)) == [("coupon-book-hours", detail)]
    exclusions_in_list = exclusions_from_list(book, MemberFacts(at=instant_of("2026-07-01T15:00:00Z")))
    assert [exclusion.slug for exclusion in exclusions_in_list] == ["coupon-book-hours"]


def test_a_coupon_book_uses_the_time_of_the_event_and_the_zone_of_its_location():
    time_of_request = "2026-07-01T20:00:00Z"
    book = coupon_book(day_of_week_schedule=HAPPY_HOURS, timezone="Europe/Madrid")
    at = instant_of("2026-07-01T15:30:00Z")  # 17:30 in Madrid, 16:30 on the Canary Islands
    assert reasons(book, time_of_request, Attempt(USE, occasion=Occasion(at, CANARY))) == []
    [(slug, detail)] = reasons(book, time_of_request, Attempt(USE, occasion=Occasion(at)))
    assert slug == "coupon-book-hours"
    assert detail.endswith(" at 17:30 on day 3 of the week (time zone Europe/Madrid).")
    tuesdays = coupon_book(days_of_week=[2], timezone="Europe/Madrid")
    at = instant_of("2026-06-30T22:30:00Z")  # Wednesday in Madrid, Tuesday on the Canary Islands
    assert reasons(tuesdays, time_of_request, Attempt(USE, occasion=Occasion(at, CANARY))) == []
    [(slug, _)] = reasons(tuesdays, time_of_request, Attempt(USE, occasion=Occasion(at)))
    assert slug == "coupon-book-day"


# --- the model -------------------------------------------------------------------------------------------------------


def is_open_by_model(schedule, local_time):
    """True if the local time is in a window, by comparing the texts of times."""
    day, clock = local_time.isoweekday(), f"{local_time:%H:%M}"
    for hours in schedule["schedule"]:
        next_day = hours["day"] % 7 + 1
        if hours["from"] < hours["to"]:
            is_inside = day == hours["day"] and hours["from"] <= clock < hours["to"]
        else:
            is_inside = (day == hours["day"] and hours["from"] <= clock) or (day == next_day and clock < hours["to"])
        if is_inside:
            return True
    return False


TIMES = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
SCHEDULES = st.lists(
    st.builds(window, st.integers(1, 7), TIMES, TIMES | st.just("24:00")).filter(lambda w: w["from"] != w["to"]),
    min_size=1,
    max_size=8,
).map(lambda windows: {"schedule": windows})


@given(SCHEDULES, st.integers(0, 365 * 24 * 3600 - 1), st.sampled_from(ZONES))
def test_any_schedule_is_open_exactly_when_it_is_open_by_the_model(schedule, second, zone_name):
    at, zone = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second), ZoneInfo(zone_name)
    assert hours_of(schedule).is_open(at, zone) == is_open_by_model(schedule, at.astimezone(zone))


@given(SCHEDULES)
def test_windows_overlap_exactly_if_two_are_open_at_one_minute(schedule):
    windows = schedule["schedule"]
    # Two windows overlap if one begins while the other is open; 2 March 2026 is a Monday.
    begins = [datetime.fromisoformat(f"2026-03-0{1 + hours['day']}T{hours['from']}") for hours in windows]
    open_windows = [[hours for hours in windows if is_open_by_model({"schedule": [hours]}, begin)] for begin in begins]
    has_overlap = any(len(windows_at_begin) > 1 for windows_at_begin in open_windows)
    assert bool(hours_faults(schedule, has_days_of_week=False)) is has_overlap


@pytest.mark.stress
@pytest.mark.parametrize("zone_name", ZONES)
def test_each_minute_of_a_year_agrees_with_the_model(zone_name):
    schedule = {
        "schedule": [
            window(1, "09:00", "12:30"),
            window(2, "15:00", "17:00"),
            window(5, "22:00", "02:00"),
            window(7, "01:30", "02:30"),
            window(7, "22:00", "00:15"),
        ]
    }
    hours, zone = hours_of(schedule), ZoneInfo(zone_name)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    while at.year == 2026:
        assert hours.is_open(at, zone) == is_open_by_model(schedule, at.astimezone(zone)), at
        at += timedelta(minutes=1)
