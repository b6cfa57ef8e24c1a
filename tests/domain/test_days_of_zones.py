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
def local_days(name: str) -> tuple[tuple[date, datetime, datetime], ...]:
    """Every local day of 2026 with its begin and end, found by going through all quarters of an hour."""
    begin, zone = datetime(2025, 12, 30, tzinfo=UTC), ZoneInfo(name)
    quarters = [begin + n * QUARTER for n in range(370 * 96)]
    days = [
        (day, list(quarters_of_day))
        for day, quarters_of_day in groupby(quarters, lambda quarter: quarter.astimezone(zone).date())
    ]
    return tuple((day, quarters_of_day[0], quarters_of_day[-1] + QUARTER) for day, quarters_of_day in days[1:-1])


def day_of(at: datetime, name: str) -> date:
    [day] = [day for day, begin, end in local_days(name) if begin <= at < end]
    return day


def period_of(at: datetime, name: str, period: str) -> tuple[int, ...]:
    day = day_of(at, name)
    return {"daily": (day.toordinal(),), "weekly": day.isocalendar()[:2], "monthly": (day.year, day.month)}[period]


@pytest.mark.parametrize("name", ZONES)
def test_days_begin_and_end_where_the_local_date_changes(name):
    lengths = set()
    for day, begin, end in local_days(name):
        assert (start_of_day(day, ZoneInfo(name)), start_of_day(next_period("daily", day), ZoneInfo(name))) == (
            begin,
            end,
        )
        lengths.add((end - begin) / timedelta(hours=1))
    expected_lengths = {"Asia/Kolkata": {24}, "Australia/Lord_Howe": {23.5, 24, 24.5}}.get(name, {23, 24, 25})
    assert lengths == expected_lengths


@given(
    st.lists(moments, min_size=1, max_size=12), zones, st.sampled_from(["daily", "weekly", "monthly"]), st.booleans()
)
def test_limits_count_the_days_of_the_campaigns_zone(moments_of_events, name, period, has_own_zone):
    limits = ({"scope": "member", "type": "transactions", "period": period, "limit": 1},)
    own_zone, default_zone = (name, "Asia/Tokyo") if has_own_zone else (None, name)
    limited_campaign = campaign(
        action(1, mint(1)), limit_rules=limits, timezone=own_zone, default_timezone=default_zone
    )
    bench, periods = Bench(limited_campaign), set()
    for moment in moments_of_events:
        evaluation = bench.run(facts(at=moment))
        assert [outcome.status for outcome in evaluation.effects] == [
            "skipped" if period_of(moment, name, period) in periods else "executed"
        ]
        periods.add(period_of(moment, name, period))
    assert bench.balance() == len(periods)


@given(moments, zones, st.sets(st.integers(1, 7), min_size=1))
def test_campaigns_run_on_the_days_of_their_zone(at, name, days):
    bench = Bench(campaign(action(1, mint(1)), days_of_week=tuple(days), timezone=name))
    bench.run(facts(at=at))
    assert bench.balance() == (day_of(at, name).isoweekday() in days)


@given(moments, zones)
def test_rules_read_times_in_the_zone_of_their_campaign(at, name):
    day = day_of(at, name)
    context = {**facts().context, "now": at}
    local_date = mint(("=", "now.getFullYear() * 10000 + (now.getMonth() + 1) * 100 + now.getDate()"))
    day_in_tokyo = mint(("=", "now.getDate('Asia/Tokyo')"))
    campaigns = (
        campaign(action(1, local_date), timezone=name),
        campaign(action(2, day_in_tokyo), campaign_id=2, timezone=name),
    )
    evaluation = Bench(*campaigns).run(facts(at=at, context=context))
    amounts = [effect.params[0][1] for effect in evaluation.effects]
    assert amounts == [Decimal(f"{day:%Y%m%d}"), at.astimezone(ZoneInfo("Asia/Tokyo")).day]


@given(st.lists(moments, min_size=1, max_size=12), zones, st.sampled_from(["daily", "weekly", "monthly"]))
def test_missions_are_repeated_by_the_days_of_their_zone(moments_of_events, name, period):
    record = mission(goal_count=1, repetition_period=period, period_limit=1, timezone=name)
    state = MissionProgressState({}, {})
    for number, moment in enumerate(moments_of_events, 1):
        state.count(record, 1, ProgressCause(1, 1, moment, NOON, loyalty_event_id=number))
    periods = {period_of(moment, name, period) for moment in moments_of_events}
    assert state.progress(1, record).progress.times_achieved == len(periods)


@given(moments, zones)
def test_local_times_without_an_offset_are_read_in_the_zone(at, name):
    zone = ZoneInfo(name)
    local_time = at.astimezone(zone).replace(tzinfo=None)
    # A local time that comes twice is the first of its moments: an hour earlier, or half an hour on Lord Howe.
    assert moment_in(zone, local_time) in (at, at - timedelta(hours=1), at - timedelta(minutes=30))
    assert moment_in(zone, local_time).astimezone(zone).replace(tzinfo=None) == local_time
    assert moment_in(zone, at) == at
