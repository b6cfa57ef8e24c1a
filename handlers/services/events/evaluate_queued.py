"""The evaluation of queued events: as tracking would have done it, on events that are stored already."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.campaigns.context import moment_of
from domain.events import EVALUATION_FAILED, FAILURE, FULL, NOT_EVALUATED, PENDING, RUNNING, IncomingEvent, LoyaltyEvent
from domain.members import Member
from domain.organizations import Organization
from domain.problems import Refusal
from domain.queue import QueuedEvent, problem_of
from handlers.messages.events import stored_result, track_result
from handlers.services.events.intake import Accepted, Result, refuse_untrackable
from handlers.services.events.track import TrackBatch
from handlers.services.unit_of_work.event_rows import event_row
from handlers.services.unit_of_work.reversals import segments
from handlers.services.webhooks.outbox import AsyncResult, queue_async_results
from persistence import events, members, organizations, queue

# What evaluation itself reports bears the id of the request that tracked the event; only what had expired has none.
_REQUEST_ID = "worker"


class QueuedBatch(TrackBatch):
    """Queued events of one organization, whose lines are claimed."""

    def evaluate(self, queued: Sequence[LoyaltyEvent]) -> list[Result]:
        """Evaluate the events in order and store what came of them; a result for each.

        They are evaluated with what is configured now, as of the moment when they were tracked.
        """
        self._stored = {event.loyalty_event_id for event in queued}
        incoming = [incoming_of(event) for event in queued]
        concerned = {event.member_id for event in queued} | self._concerned_by_undoing(incoming)
        concerned |= {event.sponsor_member_id for event in queued if event.sponsor_member_id is not None}
        found = self._lock((), concerned, incoming)
        accepted = []
        for position, (event, said) in enumerate(zip(queued, incoming, strict=True)):
            each = accepted_of(position, event, said, found)
            try:
                refuse_untrackable(said, each.member, self._configuration, own_events=False)
            except Refusal as refusal:
                self._fail(each, refusal)
            else:
                accepted.append(each)
        for segment in segments(accepted, stores=True) if accepted else ():
            self._evaluate(segment)
        self._write_events()
        return [self._results[position] for position in range(len(queued))]

    def loyalty_member_id(self, member_id: int) -> str:
        """The id that clients know a member of the batch by."""
        return self._members[member_id].loyalty_member_id

    def _fail(self, each: Accepted, refusal: Refusal) -> None:
        """An event that could be tracked when it came, and cannot any more."""
        answer = track_result(each.event, each.key, FAILURE, None, refusal)
        self._rows.append(event_row(each, None, FAILURE, answer, None, each.request_id or _REQUEST_ID, self._now))
        self._results[each.position] = Result(answer, refusal)

    def _store(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store what came of the queued events, and the events that they caused."""
        known = [row for row in rows if row["loyalty_event_id"] in self._stored]
        events.finish_events(self._db, self._organization_id, known)
        super()._store([row for row in rows if row["loyalty_event_id"] not in self._stored])


def evaluate_claimed(db: Connection, organization_id: int, queued: Sequence[QueuedEvent], now: datetime) -> None:
    """Evaluate events whose lines are claimed, take them out of the queue, and tell the triggers."""
    organization = _organization(db, organization_id)
    batch = QueuedBatch(db, organization, FULL, now, lambda: str(uuid.uuid4()), _REQUEST_ID)
    stored = [each.event for each in queued]
    results = batch.evaluate(stored)
    queue.remove(db, organization_id, [event.loyalty_event_id for event in stored])
    told = [
        AsyncResult(event.event_type, event.member_id, batch.loyalty_member_id(event.member_id), result.answer)
        for event, result in zip(stored, results, strict=True)
    ]
    queue_async_results(db, organization, told, now)


def note_failure(
    db: Connection,
    organization_id: int,
    queued: QueuedEvent,
    fault: str,
    next_attempt_at: datetime | None,
    now: datetime,
) -> None:
    """Note an attempt that met a fault of the system: there is a next attempt, or the event is a dead letter."""
    if not queue.note_failure(db, organization_id, queued, next_attempt_at, now):
        return
    event, problem = queued.event, problem_of(fault)
    status, evaluation = (RUNNING, NOT_EVALUATED) if next_attempt_at else (FAILURE, EVALUATION_FAILED)
    # Until the last attempt the answer is that the event waits; why it does is told by its `lastError`.
    result = stored_result(event, status, None if next_attempt_at else problem)
    events.change_state(db, event, now, status=status, evaluation_status=evaluation, last_error=problem, result=result)
    member = members.find(db, organization_id, event.member_id)
    if next_attempt_at is None and member is not None:
        told = AsyncResult(event.event_type, event.member_id, member.loyalty_member_id, result)
        queue_async_results(db, _organization(db, organization_id), [told], now)


def requeue(db: Connection, event: LoyaltyEvent, now: datetime) -> LoyaltyEvent | None:
    """Queue a dead event again, at the end of its member's line; None if it is not dead."""
    if not queue.requeue(db, event, now):
        return None
    result = stored_result(event, PENDING, None)
    return events.change_state(
        db, event, now, status=PENDING, evaluation_status=NOT_EVALUATED, last_error=None, result=result
    )


def _organization(db: Connection, organization_id: int) -> Organization:
    organization = organizations.find(db, organization_id)
    if organization is None:
        raise AssertionError(f"organization {organization_id} has events")
    return organization


def incoming_of(event: LoyaltyEvent) -> IncomingEvent:
    """The event as its client sent it."""
    return IncomingEvent(
        system_unique_key=event.system_unique_key,
        event_type=event.event_type,
        member_id=event.member_id,
        external_id=event.external_id,
        description=event.description,
        payload=event.payload,
        external_event_date=event.external_event_date,
        tags=event.tags,
    )


def accepted_of(position: int, event: LoyaltyEvent, said: IncomingEvent, found: Mapping[int, Member]) -> Accepted:
    """The stored event with what was looked up for it, to be evaluated as of the moment when it was tracked."""
    return Accepted(
        position=position,
        event=said,
        digest=event.request_digest,
        member=found[event.member_id],
        sponsor=None if event.sponsor_member_id is None else found[event.sponsor_member_id],
        at=moment_of(said, event.created_at),
        is_evaluated=True,
        loyalty_event_id=event.loyalty_event_id,
        key=event.loyalty_event_key,
        request_id=event.e2e_tracking_id,
        tracked_at=event.created_at,
    )
