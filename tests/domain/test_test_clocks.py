"""Test clocks: where they may begin, and how far they may be advanced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain import test_clocks
from domain.problems import InvalidRequest
from domain.test_clocks import EARLIEST, MAX_ADVANCE, MAX_LEAD, refuse_moment, refuse_start, refuse_target

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def clock(*, target=None, last_error=None):
    """A clock that shows NOW; with a target it is being advanced."""
    return test_clocks.TestClock(NOW, target, started_at=None, steps=0, last_error=last_error)


def test_the_status_of_a_clock_depends_on_its_target_and_its_error():
    assert clock().status == "ready"
    assert clock(target=NOW).status == "advancing"
    assert clock(target=NOW, last_error="a fault").status == "failed"


def test_moments_that_are_too_early_or_too_late_are_refused():
    for moment in (EARLIEST, NOW, NOW + MAX_LEAD):
        refuse_moment(moment, real_now=NOW, pointer="/startsAt")
    for moment in (EARLIEST - MICROSECOND, NOW + MAX_LEAD + MICROSECOND):
        with pytest.raises(InvalidRequest) as refusal:
            refuse_moment(moment, real_now=NOW, pointer="/startsAt")
        [fault] = refusal.value.faults
        assert fault.pointer == "/startsAt"
        assert fault.detail.startswith("startsAt is before 1970")


def test_a_clock_begins_at_the_newest_record_or_after_it():
    refuse_start(NOW, newest=None)
    refuse_start(NOW, newest=NOW)
    refuse_start(NOW + MICROSECOND, newest=NOW)
    with pytest.raises(test_clocks.TestClockBackwards):
        refuse_start(NOW - MICROSECOND, newest=NOW)


def test_an_advance_covers_at_most_two_years():
    refuse_target(clock(), to=NOW)
    refuse_target(clock(), to=NOW + MAX_ADVANCE)
    with pytest.raises(test_clocks.TestClockBackwards):
        refuse_target(clock(), to=NOW - MICROSECOND)
    with pytest.raises(InvalidRequest):
        refuse_target(clock(), to=NOW + MAX_ADVANCE + MICROSECOND)


def test_no_other_advance_can_begin_while_one_is_running():
    target, other_target = NOW + MICROSECOND, NOW + 2 * MICROSECOND
    refuse_target(clock(target=target), to=target)
    with pytest.raises(test_clocks.TestClockAdvancing):
        refuse_target(clock(target=target), to=other_target)


def test_the_limits_are_1970_ten_years_and_two_years():
    assert EARLIEST.isoformat() == "1970-01-01T00:00:00+00:00"
    # Three of the ten years are leap years, and one of the two.
    assert MAX_LEAD.days == 10 * 365 + 3
    assert MAX_ADVANCE.days == 2 * 365 + 1


def test_an_advance_that_failed_is_repeated_to_the_same_moment():
    failed_clock = clock(target=NOW + MICROSECOND, last_error="a fault")
    refuse_target(failed_clock, to=NOW + MICROSECOND)
    with pytest.raises(test_clocks.TestClockAdvancing, match=r"2026-03-01T12:00:00.000001.* is not finished"):
        refuse_target(failed_clock, to=NOW)
