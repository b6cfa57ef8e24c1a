"""Rounded dates of expiry: months are added to a moment, and then the end of its unit, such as a quarter, is taken."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import LAST_MOMENT
from domain.ledger.expiry import MONTHS_OF_UNIT, NO_ROUNDING, ExpiryCalendar, IdlePolicy
from tests.builders.campaigns import account

MADRID = ZoneInfo("Europe/Madrid")
SILVER, GOLD = "5f9d0c9e-2d5b-4c57-9df0-1a2b3c4d5e6f", "7a1e0f3c-6b2d-4a8e-8f1c-0d9e8f7a6b5c"


def local(text: str) -> datetime:
    """A moment by its local time in Madrid."""
    return datetime.fromisoformat(text).replace(tzinfo=MADRID)


@pytest.mark.parametrize(
    # Points live for some months after the moment, and then to the end of the unit that the rounding names.
    ("moment", "months", "rounding", "expiry"),
    [
        pytest.param("2025-02-10T10:00", 12, "quarter", "2026-04-01T00:00", id="example-1"),
        pytest.param("2020-07-06T10:00", 12, "month", "2021-08-01T00:00", id="example-2"),
        pytest.param("2025-08-31T10:00", 6, "none", "2026-02-28T10:00", id="example-3-none"),
        pytest.param("2025-08-31T10:00", 6, "month", "2026-03-01T00:00", id="example-3-month"),
        pytest.param("2024-02-29T10:00", 12, "none", "2025-02-28T10:00", id="example-4-none"),
        pytest.param("2024-02-29T10:00", 12, "month", "2025-03-01T00:00", id="example-4-month"),
        pytest.param("2025-07-01T00:00", 12, "month", "2026-08-01T00:00", id="example-5"),
        pytest.param("2025-07-01T00:00", 12, "half-year", "2027-01-01T00:00", id="first-moment-of-a-half-year"),
        pytest.param("2025-06-30T23:59:59", 12, "half-year", "2026-07-01T00:00", id="last-second-of-a-half-year"),
        pytest.param("2025-12-31T23:59:59", 12, "year", "2027-01-01T00:00", id="last-second-of-a-year"),
    ],
)
def test_points_expire_at_the_end_of_the_unit(moment, months, rounding, expiry):
    assert ExpiryCalendar(MADRID).expiry(local(moment), months, rounding) == local(expiry)


def test_a_unit_ends_at_midnight_in_the_zone():
    end = ExpiryCalendar(MADRID).expiry(datetime(2025, 2, 10, 9, tzinfo=UTC), months=12, rounding="quarter")
    # The quarter ends when 1 April begins in Madrid, where clocks went forward three days before.
    assert end == datetime(2026, 3, 31, 22, tzinfo=UTC)
    assert end.tzinfo is UTC


@pytest.mark.parametrize(
    # A year begins in the start month. The unrounded expiry is 10 February 2026.
    ("rounding", "start_month", "unit_end"),
    [
        ("quarter", 2, "2026-05-01"),
        ("quarter", 3, "2026-03-01"),
        ("half-year", 3, "2026-03-01"),
        ("half-year", 12, "2026-06-01"),
        ("year", 2, "2027-02-01"),
        ("year", 3, "2026-03-01"),
        ("month", 7, "2026-03-01"),
    ],
)
def test_units_are_counted_from_the_first_month_of_a_year(rounding, start_month, unit_end):
    end = ExpiryCalendar(MADRID, start_month).expiry(local("2025-02-10T10:00"), months=12, rounding=rounding)
    assert end == local(f"{unit_end}T00:00")


def first_day_of_next_unit(day: date, months: int, start_month: int) -> date:
    """The first day after `day` on which a unit of `months` months begins, found day by day."""
    while True:
        day += timedelta(days=1)
        if day.day == 1 and (day.month - start_month) % months == 0:
            return day


@pytest.mark.parametrize("start_month", [1, 2, 6])
def test_every_day_of_five_years_is_rounded_to_the_end_of_its_quarter(start_month):
    day = date(2024, 1, 1)
    while day < date(2029, 1, 1):
        for at in (time(0), time(23, 59, 59)):
            end = ExpiryCalendar(MADRID, start_month).expiry(
                datetime.combine(day, at, MADRID), months=0, rounding="quarter"
            )
            next_quarter = first_day_of_next_unit(day, 3, start_month)
            assert end.astimezone(MADRID) == datetime.combine(next_quarter, time(0), MADRID)
        day += timedelta(days=1)


@given(
    st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2400, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 1200),
    st.sampled_from(sorted(MONTHS_OF_UNIT)),
    st.integers(1, 12),
)
def test_rounding_adds_more_than_nothing_and_at_most_one_unit(moment, months, rounding, start_month):
    calendar, months_of_unit = ExpiryCalendar(MADRID, start_month), MONTHS_OF_UNIT[rounding]
    unrounded_end, end = calendar.expiry(moment, months), calendar.expiry(moment, months, rounding)
    # The end is the local midnight at which the next unit begins: the first day of a month.
    local_end = end.astimezone(MADRID)
    assert (local_end.day, local_end.time()) == (1, time(0))
    # Units begin in the start month of the year, and every `months_of_unit` months after it.
    assert (local_end.month - start_month) % months_of_unit == 0
    # Months have at most 31 days; the day more allows for changes of the clocks.
    assert unrounded_end < end <= unrounded_end + timedelta(days=31 * months_of_unit + 1)


@pytest.mark.parametrize(
    # The start of the unit that contains the moment.
    ("rounding", "start_month", "moment", "unit_start"),
    [
        ("none", 1, "2026-05-15T10:00", "2026-05-15T10:00"),
        ("month", 1, "2026-05-15T10:00", "2026-05-01T00:00"),
        ("quarter", 1, "2026-04-01T00:00", "2026-04-01T00:00"),
        ("quarter", 1, "2026-05-15T10:00", "2026-04-01T00:00"),
        ("quarter", 3, "2026-05-15T10:00", "2026-03-01T00:00"),
        ("half-year", 1, "2026-05-15T10:00", "2026-01-01T00:00"),
        ("year", 6, "2026-05-15T10:00", "2025-06-01T00:00"),
    ],
)
def test_points_have_expired_only_if_their_unrounded_end_precedes_the_current_unit(
    rounding, start_month, moment, unit_start
):
    calendar = ExpiryCalendar(MADRID, start_month)
    start = calendar.start_of_unit(local(moment), rounding)
    assert start == local(unit_start)
    if rounding != "none":
        # Points whose unrounded end is before the start of the unit have expired, and those at the start have not.
        end_before_start = start - timedelta(microseconds=1)
        assert calendar.expiry(end_before_start, months=0, rounding=rounding) <= local(moment)
        assert calendar.expiry(start, months=0, rounding=rounding) > local(moment)


def test_a_moment_beyond_the_calendar_is_its_last_moment():
    assert ExpiryCalendar().expiry(datetime(9999, 12, 1, tzinfo=UTC), months=0, rounding="year") == LAST_MOMENT


def test_an_account_has_its_own_calendar():
    account_in_madrid = account(timezone="Europe/Madrid", expiry_year_start_month=4)
    assert account_in_madrid.expiry_calendar(UTC) == ExpiryCalendar(MADRID, year_start_month=4)
    assert account().expiry_calendar(MADRID) == ExpiryCalendar(MADRID, year_start_month=1)


def test_points_of_a_member_with_several_tiers_live_for_the_longest_time_of_these_tiers():
    by_tier = account(
        expires_in_months=12,
        tier_expirations=({"loyaltyTierKey": SILVER, "months": 6}, {"loyaltyTierKey": GOLD, "months": 24}),
    )
    assert by_tier.months_to_expiry(()) == 12
    assert by_tier.months_to_expiry({SILVER}) == 6
    assert by_tier.months_to_expiry({SILVER, GOLD}) == 24
    assert account().months_to_expiry({GOLD}) is None


@given(
    st.sampled_from(["Europe/Madrid", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]),
    st.datetimes(min_value=datetime(2008, 1, 1), max_value=datetime(2014, 1, 1), timezones=st.just(UTC)),
    st.integers(1, 30) | st.sampled_from([120, 1200]),
    st.sampled_from([NO_ROUNDING, "month", "quarter"]),
    st.floats(-9 * 86_400, 9 * 86_400, allow_nan=False) | st.sampled_from([0.0, 1e-6, -1e-6]),
)
def test_the_last_begins_of_a_policy_separate_idle_periods_that_have_ended_from_running_ones(
    zone, moment, months, rounding, seconds
):
    """Idle periods that began up to the first moment have ended, and periods that began after the second have not."""
    policy = IdlePolicy(ExpiryCalendar(ZoneInfo(zone)), months, rounding)
    last_ended_begin, last_uncertain_begin = policy.bounds_of_start(moment)
    for bound in (last_ended_begin, last_uncertain_begin):
        begin = bound + timedelta(seconds=seconds)
        has_ended = policy.end(begin, last_activity_date=None) <= moment
        if begin <= last_ended_begin:
            assert has_ended
        if begin > last_uncertain_begin:
            assert not has_ended


def test_a_balance_expires_when_its_policy_is_set_if_its_months_have_passed():
    noon = datetime(2026, 5, 20, 12, tzinfo=UTC)
    policy = IdlePolicy(ExpiryCalendar(), months=1, since=noon)
    assert policy.end(noon - timedelta(days=40), last_activity_date=None) == noon
    assert policy.end(noon - timedelta(days=10), last_activity_date=None) == datetime(2026, 6, 10, 12, tzinfo=UTC)
    # No balance has expired by the policy before it was set.
    beginning_of_calendar = datetime.min.replace(tzinfo=UTC)
    assert policy.bounds_of_start(noon - timedelta(seconds=1)) == (beginning_of_calendar, beginning_of_calendar)
    a_month_earlier = datetime(2026, 4, 20, 12, tzinfo=UTC)
    assert policy.bounds_of_start(noon) == (a_month_earlier, a_month_earlier)


def test_the_last_begins_of_a_policy_are_one_moment_on_most_days():
    policy = IdlePolicy(ExpiryCalendar(MADRID), months=12)
    a_year_earlier = local("2025-05-20T10:00")
    assert policy.bounds_of_start(local("2026-05-20T10:00")) == (a_year_earlier, a_year_earlier)
    # A quarter has ended: periods that began before its first day a year earlier have ended, too.
    policy = IdlePolicy(ExpiryCalendar(MADRID), months=12, rounding="quarter")
    last = local("2025-07-01T00:00") - timedelta(microseconds=1)
    assert policy.bounds_of_start(local("2026-07-01T00:00")) == (last, last)
    # Clocks change on 29 March 2026.
    first, second = policy.bounds_of_start(local("2026-04-01T00:00"))
    assert first < second
