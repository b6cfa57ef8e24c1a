"""The time limits of the expressions of an event and of a call, for all units of work of this process."""

import time

from domain.expressions import Deadline
from handlers.settings import Settings

_event_seconds = Settings.evaluation_ms / 1000
_call_seconds = Settings.call_evaluation_ms / 1000


def limit_evaluation(settings: Settings) -> None:
    """Use these settings from now on."""
    global _event_seconds, _call_seconds
    _event_seconds = settings.evaluation_ms / 1000
    _call_seconds = settings.call_evaluation_ms / 1000


def event_deadline(of_call: Deadline | None = None) -> Deadline:
    """A deadline for the evaluation of an event by this thread from now on, in CPU time of the thread."""
    deadline = Deadline(_event_seconds, time.thread_time)
    return deadline if of_call is None else deadline.at_most(of_call)


def call_deadline() -> Deadline:
    """A deadline for the evaluation of all events of a call by this thread from now on."""
    return Deadline(_call_seconds, time.thread_time)
