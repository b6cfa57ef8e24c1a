"""The missions of members in one unit of work: what is counted, rewarded, reversed and stored."""

from __future__ import annotations

from datetime import date, timedelta
from typing import NamedTuple

import pytest

from domain.missions.progress import Progress
from domain.missions.records import MissionTracking
from domain.missions.state import MissionProgress, MissionProgressState, ProgressCause
from tests.builders.missions import NOON, mission

ANA = 7
DAY = timedelta(days=1)


def cause(at=NOON, event=1, **values):
    """An event of Ana's with the id `event`, or a request if that is None; it is counted a day after NOON."""
    return ProgressCause(organization_id=1, member_id=ANA, at=at, now=NOON + DAY, loyalty_event_id=event, **values)


def state(count=0, achievements=0, goal=3, in_period=None, **values):
    """Ana's progress in mission 1, whose goal is 3; `in_period` has her achievements by mission and period."""
    progress = MissionProgress(Progress(goal, count, achievements), **values)
    return MissionProgressState({(ANA, 1): progress}, in_period or {})


class Numbers(NamedTuple):
    """The count and achievements of one advance, and the totals after it."""

    counted: int
    achieved: int
    total_counted: int
    total_achieved: int


def numbers(advance):
    """The numbers of an advance."""
    return Numbers(advance.counted, advance.achieved, advance.after.counted, advance.after.times_achieved)


def test_counts_add_up_to_an_achievement():
    missions = MissionProgressState({}, {})
    mission_of_three = mission(goal_count=3)
    assert numbers(missions.count(mission_of_three, 2, cause())) == Numbers(
        counted=2, achieved=0, total_counted=2, total_achieved=0
    )
    assert numbers(missions.count(mission_of_three, 2, cause(event=2))) == Numbers(
        counted=2, achieved=1, total_counted=2 + 2, total_achieved=1
    )
    balance = missions.progress(ANA, mission()).balance(ANA)
    assert (balance.member_id, balance.times_achieved, balance.current_counter_count) == (ANA, 1, 1)
    assert (balance.last_counter_count_when_achieved, balance.last_achieved_at) == (3, NOON)


def test_progress_is_reported_towards_the_present_goal():
    assert state(count=3, goal=3, achievements=1).progress(ANA, mission(goal_count=5)).progress == Progress(
        goal=5, counted=5, times_achieved=1
    )
    assert MissionProgressState({}, {}).progress(ANA, mission(goal_count=5)).progress == Progress(5)


def test_the_last_achievement_is_that_of_the_latest_event():
    missions = state(last_counter=9, last_achieved_at=NOON)
    missions.count(mission(), 3, cause(at=NOON - DAY))
    progress_after_earlier_event = missions.progress(ANA, mission())
    assert (progress_after_earlier_event.last_counter, progress_after_earlier_event.last_achieved_at) == (9, NOON)
    for moment in (NOON, NOON + DAY):
        missions.count(mission(), 3, cause(at=moment))
        progress_after_later_event = missions.progress(ANA, mission())
        assert (progress_after_later_event.last_counter, progress_after_later_event.last_achieved_at) == (3, moment)


def test_a_count_that_achieves_nothing_leaves_the_last_achievement():
    missions = state(last_counter=9, last_achieved_at=NOON)
    missions.count(mission(), 1, cause(at=NOON + DAY))
    assert missions.progress(ANA, mission()).last_achieved_at == NOON


def test_a_mission_is_achieved_up_to_its_maximum():
    mission_of_two = mission(max_repetitions=2)
    missions = state(count=3, achievements=1)
    assert missions.remaining_achievements(ANA, mission_of_two, NOON) == 1
    assert numbers(missions.count(mission_of_two, 9, cause())) == Numbers(
        counted=3, achieved=1, total_counted=6, total_achieved=2
    )
    assert missions.remaining_achievements(ANA, mission_of_two, NOON) == 0
    assert numbers(missions.count(mission_of_two, 1, cause())) == Numbers(
        counted=0, achieved=0, total_counted=6, total_achieved=2
    )
    assert state(achievements=3).remaining_achievements(ANA, mission_of_two, NOON) == 0


def test_a_mission_is_achieved_up_to_the_maximum_of_a_local_period():
    daily_mission = mission(repetition_period="daily", period_limit=2, timezone="Asia/Tokyo")
    # NOON is 4 March in UTC and in Tokyo; four hours later it is 5 March in Tokyo.
    missions = state(in_period={(ANA, 1, date(2026, 3, 4)): 1})
    assert missions.remaining_achievements(ANA, daily_mission, NOON) == 1
    assert missions.remaining_achievements(ANA, daily_mission, NOON + timedelta(hours=4)) == 2
    missions_without_achievements = MissionProgressState({}, {})
    missions_without_achievements.count(daily_mission, 3, cause())
    assert missions_without_achievements.remaining_achievements(ANA, daily_mission, NOON) == 1
    missions.count(daily_mission, 9, cause())
    assert missions.remaining_achievements(ANA, daily_mission, NOON) == 0
    assert missions.remaining_achievements(ANA, daily_mission, NOON + DAY) == 2
    mission_without_limit = mission(repetition_period="daily", timezone="Asia/Tokyo")
    assert missions.remaining_achievements(ANA, mission_without_limit, NOON) > 2


@pytest.mark.parametrize(
    # The goal is 3.
    ("count", "achievements", "remaining"),
    [
        (0, 0, 3),
        (2, 0, 1),
        (3, 1, 3),
        (4, 1, 2),
        # After a reversal of counts: the goal that was rewarded needs 3 counts again, and then 3 more for the next one.
        (2, 1, 4),
        # After a reversal of an achievement: the counts still reach the goal, which the next count achieves.
        (4, 0, 1),
    ],
)
def test_the_remaining_count_is_the_minimum_that_achieves_the_mission_again(count, achievements, remaining):
    assert state(count, achievements).remaining_count(ANA, mission(), NOON) == remaining
    assert state(count, achievements).count(mission(), remaining, cause()).achieved == 1
    assert remaining == 1 or state(count, achievements).count(mission(), remaining - 1, cause()).achieved == 0


def test_a_mission_that_cannot_be_achieved_again_has_no_remaining_count():
    missions = state(count=3, achievements=1)
    assert missions.remaining_count(ANA, mission(max_repetitions=1), NOON) is None
    assert missions.remaining_count(ANA, mission(max_repetitions=2), NOON) == 3


def test_assumed_progress_replaces_the_stored_one():
    missions = MissionProgressState({}, {})
    missions.assume(ANA, mission(), Progress(goal=3, counted=5, times_achieved=1))
    assert missions.progress(ANA, mission()).progress == Progress(goal=3, counted=5, times_achieved=1)
    assert missions.remaining_count(ANA, mission(), NOON) == 1


def test_an_import_sets_the_progress_to_that_of_another_system():
    """From 4 counts and one achievement to 8 and two: nothing is achieved by it, but the difference is tracked."""
    missions = state(count=4, achievements=1, last_counter=3, last_achieved_at=NOON)
    missions.import_progress(mission(), Progress(goal=3, counted=8, times_achieved=2), cause(event=None))
    changes = missions.take_changes()
    member_progress = changes.progress_of_members[ANA, 1]
    assert member_progress.progress == Progress(goal=3, counted=8, times_achieved=2)
    assert (member_progress.last_counter, member_progress.last_achieved_at) == (3, NOON)
    [new_tracking] = changes.trackings
    assert (new_tracking.counted, new_tracking.achieved, new_tracking.is_imported) == (8 - 4, 2 - 1, True)
    # The same again changes nothing.
    missions.import_progress(mission(), Progress(goal=3, counted=8, times_achieved=2), cause(event=None))
    assert (missions.take_changes().trackings, missions.take_changes().progress_of_members) == ((), {})


def test_an_import_creates_the_progress_of_a_member_without_one():
    missions = MissionProgressState({}, {})
    missions.import_progress(mission(), Progress.from_counts(3, count=2, times_achieved=1), cause(event=None))
    changes = missions.take_changes()
    assert changes.progress_of_members[ANA, 1] == MissionProgress(Progress(goal=3, counted=5, times_achieved=1))
    [new_tracking] = changes.trackings
    assert (new_tracking.counted, new_tracking.achieved) == (3 + 2, 1)


@pytest.mark.parametrize(("count", "achievements", "has_begun"), [(0, 0, False), (1, 0, True), (0, 1, True)])
def test_progress_has_begun_with_the_first_count_or_achievement(count, achievements, has_begun):
    assert MissionProgress(Progress(3, count, achievements)).has_begun is has_begun


def test_no_mission_is_achieved_more_than_nine_billion_times():
    assert state().remaining_achievements(ANA, mission(max_repetitions=2**53), NOON) == 9_000_000_000


def test_an_event_that_counts_nothing_is_not_stored():
    missions = state()
    missions.count(mission(), 0, cause())
    changes = missions.take_changes()
    assert (changes.trackings, changes.progress_of_members) == ((), {})


def test_a_request_that_counts_nothing_is_not_stored():
    missions = state()
    assert missions.count(mission(), 0, cause(event=None, system_unique_key="key")).counted == 0
    changes = missions.take_changes()
    assert (changes.trackings, changes.progress_of_members) == ((), {})


def test_a_count_is_stored_with_its_cause():
    missions = state()
    cause_fields = {
        "system_unique_key": "key",
        "request_digest": b"digest",
        "external_id": "till-1",
        "description": "By hand",
        "tags": ("a",),
        "actor": "ana@shop",
        "user_id": 5,
    }
    missions.count(mission(), 4, cause(at=NOON - DAY, event=None, **cause_fields))
    missions.store_response({"counted": 4})
    assert missions.take_changes().trackings == (
        MissionTracking(
            organization_id=1,
            mission_tracking_id=0,
            member_id=ANA,
            mission_id=1,
            loyalty_event_id=None,
            counted=4,
            achieved=1,
            goal_count=3,
            happened_at=NOON - DAY,
            answer={"counted": 4},
            reversal_loyalty_event_id=None,
            created_at=NOON + DAY,
            **cause_fields,
        ),
    )


def test_the_response_of_a_request_is_stored_with_its_own_count():
    missions = state()
    missions.count(mission(), 1, cause(event=1))
    missions.count(mission(), 2, cause(event=None, system_unique_key="key"))
    missions.store_response({"counted": 2})
    tracking_of_event, tracking_of_request = missions.take_changes().trackings
    assert (tracking_of_event.counted, tracking_of_event.answer) == (1, None)
    assert (tracking_of_request.counted, tracking_of_request.answer) == (2, {"counted": 2})


def tracking(count=3, achievements=1, number=20):
    """The stored tracking of a count by the event 4, with the id `number`."""
    missions = MissionProgressState({}, {})
    missions.count(mission(), count, cause(event=4))
    [new_tracking] = missions.take_changes().trackings
    values = {name: getattr(new_tracking, name) for name in new_tracking.__slots__}
    return MissionTracking(**values | {"mission_tracking_id": number, "achieved": achievements})


def test_a_reversed_count_is_subtracted():
    daily_mission = mission(repetition_period="daily", period_limit=1)
    missions = state(count=4, achievements=1, in_period={(ANA, 1, date(2026, 3, 4)): 1})
    reversed_count = tracking(count=3, achievements=1, number=20)
    assert missions.remaining_achievements(ANA, daily_mission, NOON) == 0
    assert numbers(missions.reverse(reversed_count, daily_mission, by_event_id=9)) == Numbers(
        counted=-3, achieved=-1, total_counted=1, total_achieved=0
    )
    assert missions.remaining_achievements(ANA, daily_mission, NOON) == 1
    assert missions.is_reversed(reversed_count)
    assert not missions.is_reversed(tracking(number=21))
    changes = missions.take_changes()
    # The tracking 20 was reversed by the event 9.
    assert changes.reversals == {20: 9}
    assert changes.reversed_achievements == {(ANA, 1)}
    assert changes.progress_of_members[ANA, 1].progress == Progress(goal=3, counted=1, times_achieved=0)


def test_a_reversed_count_that_achieved_nothing_loses_no_achievement():
    missions = state(count=2)
    missions.reverse(tracking(count=1, achievements=0), mission(), by_event_id=9)
    assert missions.take_changes().reversed_achievements == frozenset()


def test_drained_changes_are_not_drained_again():
    missions = state()
    missions.count(mission(), 1, cause())
    stored_tracking = tracking()
    missions.reverse(stored_tracking, mission(), by_event_id=9)
    missions.take_changes()
    changes = missions.take_changes()
    assert (changes.progress_of_members, changes.trackings, changes.reversals) == ({}, (), {})
    assert changes.reversed_achievements == set()
    # The unit of work still reports the reversal.
    assert missions.is_reversed(stored_tracking)


def test_changes_are_sorted_by_member_and_mission():
    missions = MissionProgressState({}, {})
    for number in (3, 1, 2):
        missions.count(mission(mission_id=number), 1, cause())
    assert list(missions.take_changes().progress_of_members) == [(ANA, 1), (ANA, 2), (ANA, 3)]
