"""Queued events: when a failed attempt is repeated, and when the event is given up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from domain.events import LoyaltyEvent
from domain.problems import Conflict, Refusal

_MAX_WAIT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Retries:
    """The number of attempts for a queued event, and the delay after the first failure."""

    attempts: int
    first_wait: timedelta

    def wait(self, failures: int, chance: float) -> timedelta | None:
        """The time until the next attempt after this number of failures; None after the last attempt.

        The time doubles with each failure. Up to half of it depends on `chance`, a random number from 0 to 1, so that
        events that failed at once are not retried at once.
        """
        if failures >= self.attempts:
            return None
        # Limited in advance: the power of a large number would overflow.
        doublings = min(failures - 1, 40)
        seconds = min(self.first_wait.total_seconds() * 2**doublings, _MAX_WAIT.total_seconds())
        return timedelta(seconds=seconds * (1 - chance / 2))


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """An event that waits for a worker, and how many attempts have failed."""

    event: LoyaltyEvent
    attempts: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that was given up after its last attempt."""

    event: LoyaltyEvent
    attempts: int
    queued_at: datetime
    dead_at: datetime


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Figures of the queues of all organizations: `waiting` events, of which the oldest waits for `oldest_seconds`."""

    waiting: int
    oldest_seconds: float
    retrying: int
    dead: int


class EvaluationFailed(Refusal, title="The evaluation of the event failed"):
    """Evaluating a queued event failed with an error that is not one of the event's refusals."""

    kind = "unavailable"


class EventNotDead(Conflict, title="The event is not on the dead-letter list"):
    """Only an event on the dead-letter list can be queued again."""


def problem_of(fault: str) -> Mapping[str, Any]:
    """The problem shown for an event whose last attempt failed with this error."""
    return EvaluationFailed(f"The evaluation failed: {fault}.").as_problem()
