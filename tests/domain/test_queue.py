"""Queued events: the waits between attempts, and the problem after the last attempt."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.queue import Retries, problem_of


def test_waits_double_after_each_failure_and_a_random_part_shortens_them():
    retries = Retries(attempts=5, first_wait=timedelta(seconds=1))
    assert retries.wait(failures=1, chance=0) == timedelta(seconds=1)
    assert retries.wait(failures=2, chance=0) == timedelta(seconds=2)
    assert retries.wait(failures=3, chance=0) == timedelta(seconds=4)
    assert retries.wait(failures=4, chance=0) == timedelta(seconds=8)
    assert retries.wait(failures=5, chance=0) is None
    assert retries.wait(failures=1, chance=1) == timedelta(seconds=0.5)


def test_no_wait_is_longer_than_ten_minutes():
    retries = Retries(attempts=100, first_wait=timedelta(hours=1))
    assert retries.wait(failures=1, chance=0) == timedelta(minutes=10)
    assert retries.wait(failures=99, chance=0) == timedelta(minutes=10)
    assert retries.wait(failures=100, chance=0) is None


@given(st.integers(1, 98), st.floats(0, 1), st.floats(0, 1), st.integers(1, 3_600_000))
def test_a_random_number_shortens_a_wait_by_at_most_half_and_never_lengthens_it(
    failures, chance, next_chance, milliseconds
):
    retries = Retries(attempts=100, first_wait=timedelta(milliseconds=milliseconds))
    full_wait, random_wait = retries.wait(failures, chance=0), retries.wait(failures, chance)
    # Rounding may shorten the half by a microsecond.
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
