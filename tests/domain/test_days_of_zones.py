"""Days, weeks and months of campaigns and missions in time zones, compared with steps of a quarter of an hour."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import groupby
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import moment_in, next_period, start_of_day
from domain.missions.state import MissionProgressState, ProgressCause
from tests.builders.campaigns import Bench, action, campaign, facts, mint
from tests.builders.missions import NOON, mission

# Clocks change in spring and autumn, in the southern hemisphere, by half an hour, at midnight, or never.
ZONES = ["Europe/Madrid", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Asia/Beirut", "Asia/Kolkata"]
QUARTER = timedelta(minutes=15)
# About sixty days around each change of clocks in 2026: most other moments are far from any change.
BEGINS = [datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 10, tzinfo=UTC)]
moments = st.builds(
    lambda begin, quarters, seconds: begin + quarters * QUARTER + timedelta(seconds=seconds),
    st.sampled_from(BEGINS),
    st.integers(0, 40 * 96),
    st.integers(0, 899),
)
zones = st.sampled_from(ZONES)


@cache
def local_days(zone_name: str) -> tuple[tuple[date, datetime, datetime], ...]:
    """Every local day of 2026 with its begin and end, found by going through all quarters of an hour."""
    begin, zone = datetime(2025, 12, 30, tzinfo=UTC), ZoneInfo(zone_name)
    quarters = [begin + n * QUARTER for n in range(370 * 96)]
    days = [
        (day, list(quarters_of_day))
        for day, quarters_of_day in groupby(quarters, lambda quarter: quarter.astimezone(zone).date())
    ]
    return tuple((day, quarters_of_day[0], quarters_of_day[-1] + QUARTER) for day, quarters_of_day in days[1:-1])


def day_of(at: datetime, zone_name: str) -> date:
    """The local day that contains the moment."""
    [day] = [day for day, begin, end in local_days(zone_name) if begin <= at < end]
    return day


def period_of(at: datetime, zone_name: str, period: str) -> tuple[int, ...]:
    """The identity of the local day, week or month that contains the moment."""
    day = day_of(at, zone_name)
    return {"daily": (day.toordinal(),), "weekly": day.isocalendar()[:2], "monthly": (day.year, day.month)}[period]


@pytest.mark.parametrize("zone_name", ZONES)
def test_days_begin_and_end_where_the_local_date_changes(zone_name):
    lengths = set()
    for day, begin, end in local_days(zone_name):
        assert start_of_day(day, ZoneInfo(zone_name)) == begin
        assert start_of_day(next_period("daily", day), ZoneInfo(zone_name)) == end
        lengths.add((end - begin) / timedelta(hours=1))
    # Most clocks change by an hour, those of Lord Howe by half an hour, and those of Kolkata never.
    expected_lengths = {"Asia/Kolkata": {24}, "Australia/Lord_Howe": {23.5, 24, 24.5}}.get(zone_name, {23, 24, 25})
    assert lengths == expected_lengths


@given(
    st.lists(moments, min_size=1, max_size=12), zones, st.sampled_from(["daily", "weekly", "monthly"]), st.booleans()
)
def test_limits_count_the_days_of_the_campaigns_zone(moments_of_events, zone_name, period, has_own_zone):
    one_event_a_period = ({"scope": "member", "type": "transactions", "period": period, "limit": 1},)
    own_zone, default_zone = (zone_name, "Asia/Tokyo") if has_own_zone else (None, zone_name)
    limited_campaign = campaign(
        action(1, mint(1)), limit_rules=one_event_a_period, timezone=own_zone, default_timezone=default_zone
    )
    bench, periods_with_an_event = Bench(limited_campaign), set()
    for moment in moments_of_events:
        evaluation = bench.run(facts(at=moment))
        period_of_event = period_of(moment, zone_name, period)
        assert [outcome.status for outcome in evaluation.effects] == [
            "skipped" if period_of_event in periods_with_an_event else "executed"
        ]
        periods_with_an_event.add(period_of_event)
    # A point for the first event of each period.
    assert bench.balance() == len(periods_with_an_event)


@given(moments, zones, st.sets(st.integers(1, 7), min_size=1))
def test_campaigns_run_on_the_days_of_their_zone(at, zone_name, days):
    bench = Bench(campaign(action(1, mint(1)), days_of_week=tuple(days), timezone=zone_name))
    bench.run(facts(at=at))
    has_run = bench.balance() == 1
    assert has_run == (day_of(at, zone_name).isoweekday() in days)


@given(moments, zones)
def test_rules_read_times_in_the_zone_of_their_campaign(at, zone_name):
    day = day_of(at, zone_name)
    context = {**facts().context, "now": at}
    local_date = mint(("=", "now.getFullYear() * 10000 + (now.getMonth() + 1) * 100 + now.getDate()"))
    day_in_tokyo = mint(("=", "now.getDate('Asia/Tokyo')"))
    campaigns = (
        campaign(action(1, local_date), timezone=zone_name),
        campaign(action(2, day_in_tokyo), campaign_id=2, timezone=zone_name),
    )
    evaluation = Bench(*campaigns).run(facts(at=at, context=context))
    minted_amounts = [dict(effect.params)["amount"] for effect in evaluation.effects]
    assert minted_amounts == [Decimal(f"{day:%Y%m%d}"), at.astimezone(ZoneInfo("Asia/Tokyo")).day]


@given(st.lists(moments, min_size=1, max_size=12), zones, st.sampled_from(["daily", "weekly", "monthly"]))
def test_missions_are_repeated_by_the_days_of_their_zone(moments_of_events, zone_name, period):
    member_id = 1
    once_a_period = mission(goal_count=1, repetition_period=period, period_limit=1, timezone=zone_name)
    state = MissionProgressState({}, {})
    for event_id, moment in enumerate(moments_of_events, 1):
        event = ProgressCause(organization_id=1, member_id=member_id, at=moment, now=NOON, loyalty_event_id=event_id)
        state.count(once_a_period, 1, event)
    periods = {period_of(moment, zone_name, period) for moment in moments_of_events}
    assert state.progress(member_id, once_a_period).progress.times_achieved == len(periods)


@given(moments, zones)
def test_local_times_without_an_offset_are_read_in_the_zone(at, zone_name):
    zone = ZoneInfo(zone_name)
    local_time = at.astimezone(zone).replace(tzinfo=None)
    # A local time that occurs twice is the first of its moments: an hour earlier, or half an hour on Lord Howe.
    moments_before = (at - timedelta(hours=1), at - timedelta(minutes=30), at)
    assert moment_in(zone, local_time) == next(
        moment for moment in moments_before if moment.astimezone(zone).replace(tzinfo=None) == local_time
    )
    assert moment_in(zone, at) == at
