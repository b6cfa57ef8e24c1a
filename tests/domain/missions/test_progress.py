"""How counts become achievements, also after a reversal of some counts.

`Progress(goal, counted, times_achieved)` has the total of all counts; the counter towards the next achievement is
the rest of the total and the goal. The `remaining` of `advance` is the number of further achievements that are allowed,
and the `achieved` of `after_reversal` is the number of achievements that are reversed.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.missions.progress import Progress

GOALS = st.integers(1, 6)


@st.composite
def progresses(draw):
    """Any progress towards a goal of at most 6."""
    goal = draw(GOALS)
    return Progress(goal, draw(st.integers(0, 5 * goal)), draw(st.integers(0, 5)))


@pytest.mark.parametrize(
    ("total", "counter", "current_count"), [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 0), (4, 1, 1), (6, 3, 0), (7, 1, 1)]
)
def test_the_counter_stays_at_the_goal_until_the_next_count(total, counter, current_count):
    progress = Progress(goal=3, counted=total)
    assert progress.counter == counter
    # It returns to 0 when the goal is achieved.
    assert progress.current_count == current_count


def test_the_goal_is_achieved_by_the_count_that_reaches_it():
    achievements = []
    progress = Progress(3)
    for _ in range(7):
        advance = progress.advance(1, remaining=100)
        achievements.append(advance.achieved)
        progress = advance.after
    assert achievements == [0, 0, 1, 0, 0, 1, 0]
    assert progress == Progress(3, counted=7, times_achieved=2)


def test_an_amount_achieves_every_goal_that_it_covers_up_to_the_maximum():
    progress = Progress(goal=3, counted=2)
    assert progress.advance(8, remaining=9).after == Progress(3, counted=2 + 8, times_achieved=3)
    # Two more achievements are allowed, so only 4 of the 8 count.
    advance = progress.advance(8, remaining=2)
    assert (advance.counted, advance.achieved) == (4, 2)
    assert advance.after == Progress(3, counted=2 + 4, times_achieved=2)
    assert progress.advance(8, remaining=0).counted == 0
    assert progress.advance(0, remaining=1).counted == 0


@pytest.mark.parametrize(("count", "total"), [(0, 6), (1, 7), (2, 8), (3, 6)])
def test_an_imported_member_has_a_count_towards_the_present_goal(count, total):
    """The goal of 3 was achieved twice; the other system may leave the count at the goal, or at 0."""
    progress = Progress.from_counts(3, count, 2)
    # The total has 3 counts of each achievement, and the count towards the next one.
    assert (progress.counted, progress.times_achieved) == (total, 2)
    assert progress.current_count == count % 3


@pytest.mark.parametrize(
    ("before", "goal", "after"),
    [
        # 2 counts towards the next achievement stay with a higher goal.
        (Progress(3, 5, 1), 5, Progress(5, 7, 1)),
        # With a lower goal, at least one count stays to be done: 2 of 3, instead of 4.
        (Progress(5, 4, 0), 3, Progress(3, 2, 0)),
        (Progress(5, 9, 1), 3, Progress(3, 5, 1)),
        (Progress(5, 6, 1), 3, Progress(3, 4, 1)),
        # The achievement of the goal of 2 was undone: its 2 counts that are left are no goal of 10.
        (Progress(2, 2, 0), 10, Progress(10, 2, 0)),
        (Progress(5, 8, 0), 3, Progress(3, 2, 0)),
        # One count of two achieved goals was reversed: the goals lack it whatever they are.
        (Progress(2, 3, 2), 6, Progress(6, 11, 2)),
        (Progress(6, 11, 2), 2, Progress(2, 3, 2)),
        # Eleven counts were reversed, more than two goals of 2 need.
        (Progress(6, 1, 2), 2, Progress(2, -7, 2)),
        (Progress(2, -7, 2), 6, Progress(6, 1, 2)),
    ],
)
def test_a_new_goal_keeps_achievements_and_adds_none(before, goal, after):
    assert before.towards(goal) == after


def test_only_one_count_is_added_where_the_counts_after_a_reversal_reach_all_goals_that_are_allowed():
    """Seven counts reach the goal of 3 twice, and neither achievement is left; only one more is allowed."""
    progress = Progress(goal=3, counted=7, times_achieved=0)
    assert progress.advance(0, remaining=1).achieved == 0
    advance = progress.advance(5, remaining=1)
    assert (advance.counted, advance.after) == (1, Progress(3, 8, 1))


def test_a_goal_that_was_rewarded_before_its_counts_were_reversed_is_not_achieved_again():
    rewarded_progress = Progress(goal=3, counted=0, times_achieved=1)
    assert rewarded_progress.advance(1, remaining=9).after == Progress(3, counted=1, times_achieved=1)
    assert rewarded_progress.advance(6, remaining=9).after == Progress(3, counted=6, times_achieved=2)


def test_a_goal_is_not_rewarded_twice_if_a_reversed_count_is_replaced():
    # Three counts gave one reward; the first of them is reversed, and another event counts in its place.
    progress = Progress(3, counted=3, times_achieved=1).after_reversal(reversed_count=1, achieved=0, goal=3)
    advance = progress.advance(1, remaining=100)
    assert (advance.after.counter, advance.achieved) == (3, 0)
    assert advance.after.advance(2, remaining=100).achieved == 0
    assert advance.after.advance(3, remaining=100).achieved == 1


def test_counts_that_still_reach_the_goal_after_a_reversal_achieve_it_with_the_next_count():
    # The third of five counts is reversed, and with it the achievement. The other four counts reach the goal again,
    # but only the next count achieves it.
    progress = Progress(goal=3, counted=5, times_achieved=1).after_reversal(reversed_count=1, achieved=1, goal=3)
    assert progress.times_achieved == 0
    assert progress.advance(1, remaining=100).achieved == 1


def test_the_reversal_of_an_achievement_subtracts_the_counts_of_the_goal_that_it_had():
    # Three counts reached a goal of three; then the goal became five (3 counts became 5), and one more was counted.
    progress = Progress(3, 3, 1).towards(5).advance(1, remaining=100).after
    assert progress.after_reversal(reversed_count=1, achieved=0, goal=5) == Progress(5, 5, 1)
    assert progress.after_reversal(reversed_count=2, achieved=1, goal=3) == Progress(5, 2, 0)
    assert progress.after_reversal(reversed_count=9, achieved=1, goal=3) == Progress(5)
    assert Progress(5, 5, 1).towards(2).after_reversal(reversed_count=1, achieved=1, goal=5) == Progress(2, 1, 0)


def test_the_counts_of_an_undone_achievement_do_not_reach_a_raised_goal():
    # Two of three counts reached a goal of two; then the goal became ten, and the count that achieved it is reversed.
    progress = Progress(2, 3, 1).towards(10).after_reversal(reversed_count=1, achieved=1, goal=2)
    assert progress == Progress(10, 2, 0)
    advance = progress.advance(1, remaining=100)
    assert (advance.after.counter, advance.achieved) == (3, 0)
    # With nine counts after the achievement, the ten that remain are lowered to one below the goal.
    progress = (
        Progress(2, 2, 1)
        .towards(10)
        .advance(9, remaining=100)
        .after.after_reversal(reversed_count=1, achieved=1, goal=2)
    )
    assert progress == Progress(10, counted=9, times_achieved=0)
    assert progress.advance(1, remaining=100).achieved == 1


def test_a_count_without_an_achievement_leaves_the_achievements_of_a_changed_goal():
    assert Progress(2, 3, 1).towards(10).after_reversal(reversed_count=1, achieved=0, goal=2) == Progress(10, 10, 1)
    # The achieved goal lacks its first count: the next achievement takes 11 counts.
    progress = Progress(2, 2, 1).towards(10).after_reversal(reversed_count=1, achieved=0, goal=2)
    assert progress == Progress(10, 9, 1)
    assert progress.advance(10, remaining=1).achieved == 0
    assert progress.advance(11, remaining=1).achieved == 1


@given(GOALS, st.integers(0, 6), st.lists(st.integers(1, 7), min_size=1, max_size=6), st.data())
def test_a_count_can_be_reversed_before_or_after_the_goal_is_raised(goal, raise_by, amounts, data):
    """With a goal of 2, an event of 2 counts, and then a goal of 3, both orders leave a count of 0."""
    progress, advances = Progress(goal), []
    for amount in amounts:
        advances.append(progress.advance(amount, remaining=100))
        progress = advances[-1].after
    reversed_advance = data.draw(st.sampled_from(advances))
    count, achievements, new_goal = reversed_advance.counted, reversed_advance.achieved, goal + raise_by
    reversed_first = progress.after_reversal(count, achievements, goal).towards(new_goal)
    raised_first = progress.towards(new_goal).after_reversal(count, achievements, goal)
    assert raised_first == reversed_first


@given(progresses(), st.integers(0, 40), st.integers(0, 6))
def test_a_reversal_towards_the_same_goal_subtracts_its_counts(progress, count, achievements):
    after = progress.after_reversal(count, achievements, progress.goal)
    count_after = progress.counted - count
    assert after.counted == (count_after if after.times_achieved else max(0, count_after))
    assert after.times_achieved == max(0, progress.times_achieved - achievements)


def test_a_reversal_stops_at_0():
    assert Progress(3, 1, 0).after_reversal(reversed_count=2, achieved=1, goal=3) == Progress(3)


@given(progresses(), st.integers(0, 40), st.integers(0, 6))
def test_an_amount_equals_as_many_single_counts(progress, amount, remaining):
    progress_by_ones, counted_by_ones, achieved_by_ones = progress, 0, 0
    for _ in range(amount):
        advance_by_one = progress_by_ones.advance(1, remaining - achieved_by_ones)
        progress_by_ones = advance_by_one.after
        counted_by_ones += advance_by_one.counted
        achieved_by_ones += advance_by_one.achieved
    advance = progress.advance(amount, remaining)
    assert advance.after == progress_by_ones
    assert (advance.counted, advance.achieved) == (counted_by_ones, achieved_by_ones)


@given(progresses(), GOALS)
def test_a_new_goal_changes_no_achievement(progress, goal):
    new_progress = progress.towards(goal)
    assert (new_progress.goal, new_progress.times_achieved) == (goal, progress.times_achieved)
    if goal == progress.goal:
        assert new_progress == progress
        return
    # The next achievement takes as many counts more as the goal became higher, but at least one.
    missing_before = (progress.times_achieved + 1) * progress.goal - progress.counted
    missing_count = (new_progress.times_achieved + 1) * goal - new_progress.counted
    assert missing_count == max(1, missing_before + goal - progress.goal)


def test_reversed_counts_that_exceed_all_achieved_goals_are_not_forgotten():
    # Two goals of 3 were achieved, 4 of their counts were reversed, and the goal became 1.
    progress = Progress(3, 2, 2).towards(1)
    assert (progress.counted, progress.counter) == (-2, 1)
    advance_by_4, advance_by_5 = (progress.advance(amount, remaining=100) for amount in (4, 5))
    assert (advance_by_4.achieved, advance_by_4.after.counted) == (0, -2 + 4)
    assert (advance_by_5.achieved, advance_by_5.after.counted) == (1, -2 + 5)
    assert progress.after_reversal(reversed_count=1, achieved=0, goal=3) == Progress(1, -3, 2)
    assert progress.after_reversal(reversed_count=1, achieved=2, goal=3) == Progress(1, 0, 0)


@given(progresses(), GOALS)
def test_progress_with_a_positive_count_is_the_same_progress(progress, goal):
    progress = progress.towards(goal)
    positive_progress = progress.with_positive_count()
    assert positive_progress.counted > 0 or not positive_progress.times_achieved
    assert positive_progress.towards(goal) == progress
