"""Asynchronous tracking: events are checked, stored and queued in one database transaction, for workers to evaluate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from domain.events import FULL, PENDING, IncomingEvent
from domain.members import Member
from handlers.call import Call
from handlers.messages.events import queued_result, track_result
from handlers.services.events.intake import Accepted, Result, without_repeats
from handlers.services.events.track import TrackBatch
from handlers.services.unit_of_work.event_rows import event_row
from persistence import events, queue
from persistence.rows import reserve_ids


class QueueBatch(TrackBatch):
    """Events that are queued: a request under a key is the same however it was tracked."""

    def queue(self, incoming: Sequence[IncomingEvent]) -> list[dict[str, Any]]:
        """Store and queue the events that can be tracked; the outcome of each, in order."""
        first, repeats = without_repeats(self._accept(incoming))
        if first:
            self._keep(first)
        for repeat, original in repeats:
            self._results[repeat.position] = self._repeated(repeat, original)
        return [queued_result(self._results[position].answer) for position in range(len(incoming))]

    def _lock(
        self, loyalty_member_ids: Collection[str], member_ids: Collection[int], incoming: Sequence[IncomingEvent] = ()
    ) -> dict[Any, Member]:
        """Lock the members' lines alone; all else that they have is the worker's concern."""
        found = queue.lock_members(self._db, self._organization_id, loyalty_member_ids)
        return {member.loyalty_member_id: member for member in found}

    def _concerned_by_undoing(self, incoming: Sequence[IncomingEvent]) -> set[int]:
        return set()

    def _keep(self, accepted: Sequence[Accepted]) -> None:
        rows = []
        for each, event_id in zip(accepted, reserve_ids(self._db, events=len(accepted))["events"], strict=True):
            each.loyalty_event_id, each.key, each.is_evaluated = event_id, self._new_key(), False
            answer = track_result(each.event, each.key, PENDING, None, None)
            self._results[each.position] = Result(answer)
            rows.append(event_row(each, None, PENDING, answer, None, self._request_id, self._now))
        events.add_events(self._db, rows)
        lines = [{"loyalty_event_id": each.loyalty_event_id, "member_id": each.member.member_id} for each in accepted]
        queue.add(self._db, self._organization_id, lines, self._now)


def queue_events(call: Call, incoming: Sequence[IncomingEvent]) -> list[dict[str, Any]]:
    """Queue events of the call's organization."""
    batch = QueueBatch(call.db, call.organization, FULL, call.now, call.new_key, call.request_id)
    return batch.queue(incoming)
