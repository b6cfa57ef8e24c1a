"""The evaluation of queued events: the same as for tracking, but the events are already stored."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from domain.events import EVALUATION_FAILED, FAILURE, NOT_EVALUATED, PENDING, RUNNING, IncomingEvent, LoyaltyEvent
from domain.expressions import Deadline
from domain.members import Member
from domain.organizations import Organization
from domain.partners import payment_id_of
from domain.problems import Refusal
from domain.queue import QueuedEvent, problem_of
from handlers.call import Execution
from handlers.messages.events import stored_result
from handlers.services.events.intake import refuse_untrackable
from handlers.services.events.track import evaluate, members_of_reversals, orders_of_stored, segments
from handlers.services.unit_of_work.evaluation import fail_event
from handlers.services.unit_of_work.tracked import Result, incoming_of, tracked_event_of
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.webhooks.outbox import AsyncResult, queue_async_results
from persistence import partners, queue
from persistence.events import EVENTS
from persistence.members import MEMBERS

# The request id of the events of expired points; other derived events have the request id of the tracked event.
_REQUEST_ID = "worker"
# The CPU time after which a transaction evaluates no further events, so that no organization occupies a worker.
STEP_SECONDS = 1.0


def evaluate_claimed(
    db: Connection, organization: Organization, queued_events: Sequence[QueuedEvent], now: datetime
) -> None:
    """Evaluate claimed events, remove them from the queue, release the ids of failed payments, and notify the triggers.

    Events are evaluated with the current configuration, as of the moment when they were tracked. After `STEP_SECONDS`,
    the remaining events stay in the queue. Raises TooManyMessages if the events cause too many messages.
    """
    organization_id = organization.organization_id
    execution = Execution(db=db, organization=organization, now=now, request_id=_REQUEST_ID, limits_messages=True)
    unit = UnitOfWork(execution)
    stored_events = [queued.event for queued in queued_events]
    results = _evaluate(unit, stored_events)
    events_with_results = [(stored_events[position], result) for position, result in sorted(results.items())]
    queue.remove(db, organization_id, [event.loyalty_event_id for event, _ in events_with_results])
    failed_events = [event for event, result in events_with_results if result.refusal is not None]
    failed_payments = [payment_id for event in failed_events if (payment_id := payment_id_of(incoming_of(event)))]
    partners.release_payments(db, organization_id, failed_payments)
    messages = [
        AsyncResult(event.event_type, event.member_id, unit.members[event.member_id].loyalty_member_id, result.response)
        for event, result in events_with_results
    ]
    queue_async_results(execution, messages)


def _evaluate(unit: UnitOfWork, stored_events: Sequence[LoyaltyEvent]) -> dict[int, Result]:
    """Evaluate events in order until `STEP_SECONDS` have passed; store the results, and return them by position."""
    deadline = Deadline(STEP_SECONDS, time.thread_time)
    incoming_events = [incoming_of(event) for event in stored_events]
    members = lock_members_of(unit, stored_events, incoming_events)
    results: dict[int, Result] = {}
    accepted_events = []
    for position, (event, incoming_event) in enumerate(zip(stored_events, incoming_events, strict=True)):
        tracked = tracked_event_of(position, event, incoming_event, members)
        try:
            refuse_untrackable(incoming_event, tracked.member, unit.configuration, by_server=False)
        except Refusal as refusal:
            results[position] = fail_event(unit, tracked, refusal)
        else:
            accepted_events.append(tracked)
    for number, segment in enumerate(segments(accepted_events) if accepted_events else ()):
        # The first segment is always evaluated, so that each call makes progress.
        if number and deadline.has_passed():
            break
        results |= evaluate(unit, segment, orders_of_stored(unit, segment), deadline=deadline)
    unit.event_rows.flush(unit.members)
    return results


def lock_members_of(
    unit: UnitOfWork, stored_events: Sequence[LoyaltyEvent], incoming_events: Sequence[IncomingEvent]
) -> Mapping[Any, Member]:
    """Lock the members and sponsors of stored events, and the members of effects that the events may reverse.

    Returns them as `UnitOfWork.lock` does.
    """
    member_ids = {event.member_id for event in stored_events} | members_of_reversals(unit, incoming_events)
    member_ids |= {event.sponsor_member_id for event in stored_events if event.sponsor_member_id is not None}
    return unit.lock(member_ids=member_ids, incoming_events=incoming_events)


def record_failure(
    db: Connection,
    organization: Organization,
    queued: QueuedEvent,
    fault: str,
    wait: timedelta | None,
    now: datetime,
) -> None:
    """Record an attempt that failed because of a fault of the system.

    The next attempt is after `wait`; if that is None, the event becomes a dead letter.
    """
    organization_id = organization.organization_id
    if not queue.record_failure(db, organization_id, queued, wait):
        return
    event = queued.event
    problem = problem_of(fault)
    status, evaluation_status = (FAILURE, EVALUATION_FAILED) if wait is None else (RUNNING, NOT_EVALUATED)
    # While attempts are left, the result has no error; only `lastError` has the reason.
    result = stored_result(event, status, problem if wait is None else None)
    state = {"status": status, "evaluation_status": evaluation_status, "last_error": problem, "result": result}
    EVENTS.store(db, event, state, now)
    member = MEMBERS.find(db, organization_id, event.member_id)
    if wait is None and member is not None:
        async_result = AsyncResult(event.event_type, event.member_id, member.loyalty_member_id, result)
        execution = Execution(db=db, organization=organization, now=now, request_id=_REQUEST_ID)
        queue_async_results(execution, [async_result])


def requeue(db: Connection, event: LoyaltyEvent, now: datetime) -> LoyaltyEvent | None:
    """Queue a dead letter again, at the end of its member's queue; None if the event is no dead letter."""
    if not queue.requeue(db, event):
        return None
    result = stored_result(event, PENDING, error=None)
    state = {"status": PENDING, "evaluation_status": NOT_EVALUATED, "last_error": None, "result": result}
    return EVENTS.store(db, event, state, now)
