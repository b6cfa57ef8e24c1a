"""Cooldowns of campaigns: which moments are too near to each other, and what an event that comes too early gets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.campaigns.cooldowns import Application, Applications, faults_of_cooldown, span_around
from domain.durations import duration_of
from tests.builders.campaigns import NOON, Bench, action, campaign, campaign_action_and_reason, facts, mint, statuses

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
MADRID = ZoneInfo("Europe/Madrid")


CAMPAIGN_ID, MEMBER_ID = 1, 7


def near(at, *moments, cooldown="PT24H", zone=UTC):
    """The last of the moments that is too near to `at`, or None; by default, less than 24 hours are too near."""
    applications = Applications(
        Application(CAMPAIGN_ID, MEMBER_ID, event_id, moment) for event_id, moment in enumerate(moments)
    )
    return applications.last_within_cooldown(CAMPAIGN_ID, MEMBER_ID, at, duration_of(cooldown), zone)


@pytest.mark.parametrize(
    ("distance", "is_near"),
    [
        (timedelta(), True),
        (DAY - SECOND, True),
        (DAY, False),
        (DAY + SECOND, False),
    ],
)
def test_two_moments_in_either_order_are_too_near_unless_the_whole_cooldown_is_between_them(distance, is_near):
    assert near(NOON + distance, NOON) == (NOON if is_near else None)
    assert near(NOON - distance, NOON) == (NOON if is_near else None)


def test_the_last_moment_is_reported_and_other_campaigns_and_members_do_not_count():
    assert near(NOON, NOON - SECOND, NOON + SECOND, NOON - 2 * SECOND) == NOON + SECOND
    of_other_campaign = Application(CAMPAIGN_ID + 1, MEMBER_ID, loyalty_event_id=1, at=NOON)
    of_other_member = Application(CAMPAIGN_ID, MEMBER_ID + 1, loyalty_event_id=2, at=NOON)
    applications = Applications([of_other_campaign, of_other_member])

    def last_within_an_hour():
        return applications.last_within_cooldown(CAMPAIGN_ID, MEMBER_ID, NOON, duration_of("PT1H"), UTC)

    assert last_within_an_hour() is None
    event_id = 3
    applications.add(Application(CAMPAIGN_ID, MEMBER_ID, event_id, NOON))
    assert last_within_an_hour() == NOON
    applications.remove(event_id)
    assert last_within_an_hour() is None


def test_days_are_those_of_the_calendar_and_hours_are_exact():
    # Clocks go forward on 29 March at 02:00: the day has 23 hours.
    noon_before = datetime(2026, 3, 28, 12, tzinfo=MADRID)
    at = datetime(2026, 3, 29, 12, tzinfo=MADRID)
    assert at.astimezone(UTC) - noon_before.astimezone(UTC) == timedelta(hours=23)
    assert near(at, noon_before, cooldown="P1D", zone=MADRID) is None
    assert near(at - SECOND, noon_before, cooldown="P1D", zone=MADRID) == noon_before
    assert near(at, noon_before, cooldown="PT24H", zone=MADRID) == noon_before
    assert near(at, noon_before, cooldown="P1D", zone=UTC) == noon_before


@given(
    first_moment=st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC)),
    distance=st.timedeltas(timedelta(), timedelta(days=800)),
    cooldown=st.sampled_from(["PT1S", "PT24H", "P1D", "P1W", "P1M", "P1Y", "P1M2DT3H"]),
)
def test_moments_within_the_cooldown_lie_in_the_span_that_is_read(first_moment, distance, cooldown):
    last_moment, duration = first_moment + distance, duration_of(cooldown)
    for at, other_moment in ((last_moment, first_moment), (first_moment, last_moment)):
        begin, end = span_around([at], [duration])
        if near(at, other_moment, cooldown=cooldown, zone=MADRID) is not None:
            assert begin <= other_moment <= end


def test_a_span_ends_with_the_calendar():
    begin, end = span_around([NOON], [duration_of("P9999Y")])
    assert (begin.year, end.year) == (1, 9999)


@pytest.mark.parametrize("text", ["PT", "P", "PT0S", "P0D", "1 day"])
def test_a_malformed_cooldown_is_refused(text):
    assert [fault.pointer for fault in faults_of_cooldown(text)] == ["/cooldown"]
    assert faults_of_cooldown(None) == []
    assert faults_of_cooldown("P1M") == []


def test_all_actions_of_an_event_apply_and_those_of_the_next_one_are_skipped():
    bench = Bench(campaign(action(1, mint(5)), action(2, mint(7)), cooldown="PT24H"))
    evaluation = bench.run(facts(at=NOON), explaining=True)
    assert statuses(evaluation) == [(1, "evaluated"), (2, "evaluated")]
    assert evaluation.cooldown_campaign_ids == (1,)
    evaluation_too_early = bench.run(facts(at=NOON + DAY - SECOND, loyalty_event_id=2), explaining=True)
    assert statuses(evaluation_too_early) == [(1, "skipped"), (2, "skipped")]
    problem = evaluation_too_early.effects[0].error
    assert problem["type"] == "/problems/cooldown"
    assert problem["detail"].endswith("and its cooldown is PT24H.")
    # The first explanation is about the whole campaign, the others about its actions 1 and 2.
    assert campaign_action_and_reason(evaluation_too_early)[1:] == [(1, 1, "COOLDOWN"), (1, 2, "COOLDOWN")]
    assert evaluation_too_early.explanations[1].reason.actual == NOON
    assert (evaluation_too_early.limit_discarded, evaluation_too_early.cooldown_campaign_ids) == (0, ())
    evaluation_after_a_day = bench.run(facts(at=NOON + DAY, loyalty_event_id=3))
    assert statuses(evaluation_after_a_day) == [(1, "executed"), (2, "executed")]


def test_an_event_without_an_effect_does_not_begin_a_cooldown():
    bench = Bench(campaign(action(1, mint(("=", "0"))), action(2, mint(1), rule="false"), cooldown="P1D"))
    assert statuses(bench.run(facts())) == [(1, "skipped")]
    assert statuses(bench.run(facts())) == [(1, "skipped")]
    assert bench.counters.applications.last_within_cooldown(1, facts().member_id, NOON, duration_of("P1D"), UTC) is None


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.randoms())
def test_events_with_one_neighbour_within_the_cooldown_give_equal_results_in_any_order(sizes, random):
    """Of two events a second apart exactly one applies, whichever is evaluated first."""
    # Each group has at most two events; the groups are three days apart.
    groups = [min(size, 2) for size in sizes]
    events = [
        facts(at=NOON + 3 * number * DAY + part * SECOND, loyalty_event_id=10 * number + part)
        for number, size in enumerate(groups)
        for part in range(size)
    ]
    random.shuffle(events)
    bench = Bench(campaign(action(1, mint(5)), cooldown="P1D"))
    for event in events:
        bench.run(event)
    assert bench.balance() == 5 * sum(1 for size in groups if size)
