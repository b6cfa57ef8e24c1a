"""The rows of the events of a unit of work, stored by its flush."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from domain.campaigns.outcomes import Evaluation
from domain.members import Member
from domain.reversals import RevertedEvent
from handlers.call import Execution
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.tracked import TrackedEvent, event_row
from handlers.services.webhooks.outbox import queue_events
from persistence import events


class EventRows:
    """Events with their results: new ones are inserted, those that are stored already get their results."""

    def __init__(self, execution: Execution, configuration: Configuration) -> None:
        self._execution = execution
        self._configuration = configuration
        self._rows: list[dict[str, Any]] = []
        self._stored_ids: set[int] = set()

    def expect_stored(self, tracked: Iterable[TrackedEvent]) -> None:
        """Note which of the events are stored already."""
        for event in tracked:
            if event.tracked_at is not None:
                self._stored_ids.add(event.loyalty_event_id)

    def add(
        self,
        tracked: TrackedEvent,
        status: str,
        result: Mapping[str, Any],
        evaluation: Evaluation | None = None,
        location: str | None = None,
        reverted: Sequence[RevertedEvent] = (),
    ) -> None:
        """Keep an event to be stored; the arguments are those of `event_row`."""
        origin, now = tracked.origin or self._execution.origin, self._execution.now
        self._rows.append(event_row(tracked, status, result, origin, now, evaluation, location, reverted))

    def flush(self, members: Mapping[int, Member]) -> None:
        """Store the events, and queue messages for the triggers that listen; `members` are those of the unit."""
        if not self._rows:
            return
        db, organization_id = self._execution.db, self._execution.organization.organization_id
        rows, self._rows = self._rows, []
        new = rows
        if self._stored_ids:
            stored = [row for row in rows if row["loyalty_event_id"] in self._stored_ids]
            events.finish_events(db, organization_id, stored)
            new = [row for row in rows if row["loyalty_event_id"] not in self._stored_ids]
        events.add_events(db, new)
        if self._configuration.listeners and not self._execution.is_quiet:
            queue_events(db, self._configuration, rows, members, self._execution.now)
