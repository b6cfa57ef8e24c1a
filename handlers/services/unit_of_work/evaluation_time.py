"""The time limit of the expressions of an event, for all units of work of this process."""

from __future__ import annotations

import time

from domain.expressions import Deadline
from handlers.settings import Settings

_seconds = Settings.evaluation_ms / 1000


def limit_evaluation(settings: Settings) -> None:
    """Use these settings from now on."""
    global _seconds
    _seconds = settings.evaluation_ms / 1000


def evaluation_deadline() -> Deadline:
    """A deadline for the evaluation by this thread from now on, in CPU time of the thread."""
    return Deadline(_seconds, time.thread_time)
