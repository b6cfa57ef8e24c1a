"""The CPU time for the rules of events: 10 seconds for each event, and 25 seconds for all events of a call."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from domain.events import EventOrigin
from handlers.call import INTEGRATION, Call, Caller, Execution
from handlers.services.unit_of_work import deadlines

EVENT_SECONDS, CALL_SECONDS = 10, 25


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The CPU time of the thread, which only moves when a test moves it."""
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(deadlines, "_event_seconds", EVENT_SECONDS)
    monkeypatch.setattr(deadlines, "_call_seconds", CALL_SECONDS)
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(thread_time=lambda: clock.seconds))
    return clock


def call(caller):
    now = datetime(2026, 5, 1, tzinfo=UTC)
    return Call(db=None, organization=None, now=now, request_id="r", caller=caller, surface=INTEGRATION, settings=None)


def unit(execution, *, is_dry_run=False):
    return SimpleNamespace(execution=execution, is_dry_run=is_dry_run)


def spend(clock, unit, origin=None):
    """Evaluate an event with endless rules until its deadline; return the seconds that it took.

    `origin` is the batched call that tracked it.
    """
    begin = clock.seconds
    deadline = deadlines.deadline_of(unit, SimpleNamespace(origin=origin))
    while not deadline.has_passed():
        clock.seconds += 1
    return clock.seconds - begin


CALLER = Caller("somebody", 1, frozenset())


def test_the_events_of_a_call_share_its_time(clock):
    call_unit = unit(call(CALLER))
    # 10 seconds for each event, until the 25 seconds of the call are over.
    assert [spend(clock, call_unit) for _ in range(4)] == [10, 10, 5, 0]


def test_the_calls_of_a_batch_each_have_their_own_time(clock):
    batch = unit(call(CALLER))
    call_1, call_2 = EventOrigin("r1", "somebody"), EventOrigin("r2", "somebody")
    assert [spend(clock, batch, origin) for origin in (call_1, call_1, call_1, call_2, call_2)] == [10, 10, 5, 10, 10]


def test_the_events_of_a_dry_run_share_the_time_of_one_event(clock):
    dry_run = unit(call(CALLER), is_dry_run=True)
    assert [spend(clock, dry_run) for _ in range(2)] == [10, 0]


def test_the_events_of_a_step_of_a_job_or_import_share_the_time_of_a_call(clock):
    execution = Execution(db=None, organization=None, now=datetime(2026, 5, 1, tzinfo=UTC), request_id="expire")
    assert [spend(clock, unit(execution)) for _ in range(4)] == [10, 10, 5, 0]
    import_unit = unit(call(None))
    assert [spend(clock, import_unit) for _ in range(4)] == [10, 10, 5, 0]
