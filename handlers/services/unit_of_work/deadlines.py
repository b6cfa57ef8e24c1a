"""The limits of the CPU time for the expressions of one event, and of all events of a call or a step of a job.

A queued event has a limit of its own, which includes the events that it causes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from domain.expressions import Deadline
from handlers.settings import Settings

if TYPE_CHECKING:
    from handlers.services.unit_of_work.tracked import TrackedEvent
    from handlers.services.unit_of_work.unit import UnitOfWork

# The CPU time for the expressions of an event and of a call, for all units of work of this process.
_event_seconds = Settings.evaluation_ms / 1000
_call_seconds = Settings.call_evaluation_ms / 1000
# The CPU time for a queued event and all that it causes; a larger `call_evaluation_ms` does not extend it.
_QUEUED_SECONDS = 2.0


def limit_evaluation(settings: Settings) -> None:
    """Use the time limits of these settings from now on."""
    global _event_seconds, _call_seconds
    _event_seconds = settings.evaluation_ms / 1000
    _call_seconds = settings.call_evaluation_ms / 1000


def event_deadline() -> Deadline:
    """A new deadline for the expressions of one event, in CPU time of this thread."""
    return Deadline(_event_seconds, time.thread_time)


def call_deadline() -> Deadline:
    """A new deadline for all expressions of one call, in CPU time of this thread."""
    return Deadline(_call_seconds, time.thread_time)


def set_queued_deadline(unit: UnitOfWork, tracked: TrackedEvent) -> None:
    """Give a queued event a new deadline for its expressions and for those of all events that it causes.

    Other events of the same call do not share it.
    """
    queued_deadline = Deadline(_QUEUED_SECONDS, time.thread_time)
    unit.execution.deadlines[tracked.origin] = call_deadline().earlier(queued_deadline)


def deadline_of(unit: UnitOfWork, tracked: TrackedEvent) -> Deadline:
    """The deadline of an event's expressions, in CPU time of this thread: the event's own, or its origin's if earlier.

    The time of a call, or of a step of a job, begins with its first event, so that no other call of the batch uses any
    of it. All events of a dry run share the time of one event, as people wait for it.
    """
    deadline_of_event = event_deadline()
    deadlines = unit.execution.deadlines
    deadline_of_origin = deadlines.get(tracked.origin)
    if deadline_of_origin is None:
        deadline_of_origin = deadlines[tracked.origin] = deadline_of_event if unit.is_dry_run else call_deadline()
    return deadline_of_event.earlier(deadline_of_origin)
