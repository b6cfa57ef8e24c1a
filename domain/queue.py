"""Queued events: when an attempt that failed is made again, and when no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from domain.events import LoyaltyEvent
from domain.problems import Conflict, Refusal

_LONGEST_WAIT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a queued event is tried, and how long after the first failure it is tried again."""

    attempts: int
    first_wait: timedelta

    def wait(self, failures: int, chance: float) -> timedelta | None:
        """The time until the next attempt after so many failures, `chance` being from 0 to 1; None after the last.

        Waits double, and up to half of each is left to chance: what failed together does not come back together.
        """
        if failures >= self.attempts:
            return None
        # Bounded before it is computed: many doublings of a timedelta overflow.
        doublings = min(failures - 1, 40)
        whole = min(self.first_wait.total_seconds() * 2**doublings, _LONGEST_WAIT.total_seconds())
        return timedelta(seconds=whole * (1 - chance / 2))


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """An event that waits for a worker, and how many attempts have failed."""

    event: LoyaltyEvent
    attempts: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event whose last attempt has failed."""

    event: LoyaltyEvent
    attempts: int
    queued_at: datetime
    dead_at: datetime


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What waits in all organizations: how many events, the oldest since when, how many for another attempt."""

    waiting: int
    oldest_seconds: float
    retrying: int
    dead: int


class EvaluationFailed(Refusal):
    """An attempt to evaluate a queued event met a fault that is none of the event's refusals."""

    kind = "unavailable"
    slug = "evaluation-failed"
    title = "The evaluation of the event failed"


class EventNotDead(Conflict):
    """Only what is on the dead-letter list can be queued again."""

    slug = "event-not-dead"
    title = "The event is not on the dead-letter list"


def problem_of(fault: str) -> Mapping[str, Any]:
    """The problem that an event shows whose last attempt met this fault."""
    return EvaluationFailed(f"The evaluation failed: {fault}.").as_problem()
