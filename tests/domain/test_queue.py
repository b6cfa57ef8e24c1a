"""Queued events: the waits between attempts, and the problem after the last attempt."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.queue import Retries, problem_of


def test_waits_double_after_each_failure_and_a_random_part_shortens_them():
    # 5 attempts, and a second before the first retry.
    retries = Retries(5, timedelta(seconds=1))
    assert [retries.wait(n, 0) for n in range(1, 5)] == [timedelta(seconds=s) for s in (1, 2, 4, 8)]
    assert retries.wait(5, 0) is None
    assert retries.wait(1, 1) == timedelta(seconds=0.5)


def test_no_wait_is_longer_than_ten_minutes():
    retries = Retries(100, timedelta(hours=1))
    assert retries.wait(1, 0) == retries.wait(99, 0) == timedelta(minutes=10)
    assert retries.wait(100, 0) is None


@given(st.integers(1, 98), st.floats(0, 1), st.floats(0, 1), st.integers(1, 3_600_000))
def test_a_random_number_shortens_a_wait_by_at_most_half_and_never_lengthens_it(
    failures, chance, next_chance, milliseconds
):
    retries = Retries(100, timedelta(milliseconds=milliseconds))
    full_wait, random_wait = retries.wait(failures, 0), retries.wait(failures, chance)
    half_wait = full_wait / 2 - timedelta(microseconds=1)
    assert half_wait <= random_wait <= full_wait
    # No full wait is shorter than the one before it, so this is also the minimum of the next wait.
    assert retries.wait(failures + 1, next_chance) >= half_wait


def test_an_event_whose_last_attempt_failed_has_a_problem():
    assert problem_of("TimeoutError") == {
        "type": "/problems/evaluation-failed",
        "title": "The evaluation of the event failed",
        "status": 503,
        "detail": "The evaluation failed: TimeoutError.",
    }
