"""Test clocks: where they may begin, and how far they may be advanced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain import test_clocks
from domain.problems import InvalidRequest
from domain.test_clocks import EARLIEST, MAX_ADVANCE, MAX_LEAD, refuse_moment, refuse_start, refuse_target

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def clock(target=None, last_error=None):
    return test_clocks.TestClock(NOW, target, None, 0, last_error)


def test_the_status_of_a_clock_depends_on_its_target_and_its_error():
    assert clock().status == "ready"
    assert clock(NOW).status == "advancing"
    assert clock(NOW, "a fault").status == "failed"


def test_moments_that_are_too_early_or_too_late_are_refused():
    for moment in (EARLIEST, NOW, NOW + MAX_LEAD):
        refuse_moment(moment, NOW, "/startsAt")
    for moment in (EARLIEST - MICROSECOND, NOW + MAX_LEAD + MICROSECOND):
        with pytest.raises(InvalidRequest) as refusal:
            refuse_moment(moment, NOW, "/startsAt")
        [fault] = refusal.value.faults
        assert (fault.pointer, fault.detail.startswith("startsAt is before 1970")) == ("/startsAt", True)


def test_a_clock_begins_at_the_newest_record_or_after_it():
    refuse_start(NOW, None)
    refuse_start(NOW, NOW)
    refuse_start(NOW + MICROSECOND, NOW)
    with pytest.raises(test_clocks.TestClockBackwards):
        refuse_start(NOW - MICROSECOND, NOW)


def test_an_advance_covers_at_most_two_years():
    refuse_target(clock(), NOW)
    refuse_target(clock(), NOW + MAX_ADVANCE)
    with pytest.raises(test_clocks.TestClockBackwards):
        refuse_target(clock(), NOW - MICROSECOND)
    with pytest.raises(InvalidRequest):
        refuse_target(clock(), NOW + MAX_ADVANCE + MICROSECOND)


def test_no_other_advance_can_begin_while_one_is_running():
    refuse_target(clock(NOW + MICROSECOND), NOW + MICROSECOND)
    with pytest.raises(test_clocks.TestClockAdvancing):
        refuse_target(clock(NOW + MICROSECOND), NOW + 2 * MICROSECOND)


def test_the_limits_are_1970_ten_years_and_two_years():
    # Three of the ten years are leap years, and one of the two.
    assert (EARLIEST.isoformat(), MAX_LEAD.days, MAX_ADVANCE.days) == ("1970-01-01T00:00:00+00:00", 3653, 731)


def test_an_advance_that_failed_is_repeated_to_the_same_moment():
    refuse_target(clock(NOW + MICROSECOND, "a fault"), NOW + MICROSECOND)
    with pytest.raises(test_clocks.TestClockAdvancing, match=r"2026-03-01T12:00:00.000001.* is not finished"):
        refuse_target(clock(NOW + MICROSECOND, "a fault"), NOW)
