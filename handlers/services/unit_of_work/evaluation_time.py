"""How long the expressions of an event may take, in all units of work of this process."""

from __future__ import annotations

import time

from domain.expressions import Deadline
from handlers.settings import Settings

_seconds = Settings.evaluation_ms / 1000


def limit_evaluation(settings: Settings) -> None:
    """Go by these settings from now on."""
    global _seconds
    _seconds = settings.evaluation_ms / 1000


def evaluation_deadline() -> Deadline:
    """A deadline for what this thread evaluates from now on, by the CPU time that it uses."""
    return Deadline(_seconds, time.thread_time)
