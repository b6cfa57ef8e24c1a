"""Asynchronous tracking: events are checked, stored and queued in one database transaction; workers evaluate them.

An event with the same key is the same request, whether it is tracked synchronously or asynchronously.
"""

from collections.abc import Sequence
from typing import Any

from domain.events import PENDING, IncomingEvent
from handlers.call import Call
from handlers.messages.events import queued_result, track_result
from handlers.services.events.intake import Intake
from handlers.services.unit_of_work.tracked import Result, TrackedEvent, event_row
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import events, queue
from persistence.rows import reserve_ids
from persistence.transactions import is_repeated


def queue_events(call: Call, incoming_events: Sequence[IncomingEvent]) -> list[dict[str, Any]]:
    """Store and queue the events that can be tracked. Returns the result of each event, in order."""
    ids = {event.loyalty_member_id for event in incoming_events if event.loyalty_member_id is not None}
    ids |= {event.sponsor_loyalty_member_id for event in incoming_events if event.sponsor_loyalty_member_id is not None}
    unit = UnitOfWork(call)
    # Mostly only the members' queues are locked; the worker locks the rest. If an event came too early and is sent
    # again, another call may be evaluating it, so it needs the lock of its member, too.
    if is_repeated():
        unit.lock(ids)
    members = queue.lock_members(call.db, call.organization.organization_id, ids)
    intake = Intake(unit)
    keys = {event.system_unique_key for event in incoming_events}
    accepted_events = intake.accept(incoming_events, {member.loyalty_member_id: member for member in members}, keys)
    if accepted_events:
        intake.results |= _store(call, accepted_events)
    return [queued_result(result.response) for result in intake.all_results()]


def _store(call: Call, accepted_events: Sequence[TrackedEvent]) -> dict[int, Result]:
    """Store the events and put them into their members' queues; return their results by position."""
    organization_id = call.organization.organization_id
    results: dict[int, Result] = {}
    new_rows: list[dict[str, Any]] = []
    repeated_rows: list[dict[str, Any]] = []
    queue_rows: list[dict[str, int]] = []
    # A reserved id is the event's place in the queue; for a new event it is also the event's id.
    for event, place in zip(accepted_events, reserve_ids(call.db, events=len(accepted_events))["events"], strict=True):
        is_new = event.tracked_at is None
        if is_new:
            event.loyalty_event_id, event.key = place, call.new_key()
        event.is_evaluated = False
        response = track_result(event.event, event.key, PENDING)
        results[event.position] = Result(response)
        rows = new_rows if is_new else repeated_rows
        rows.append(event_row(event, PENDING, response, call.now))
        queue_rows.append(
            {"loyalty_event_id": event.loyalty_event_id, "member_id": event.member.member_id, "place": place}
        )
    events.add_events(call.db, new_rows)
    events.finish_events(call.db, organization_id, repeated_rows)
    queue.add(call.db, organization_id, queue_rows)
    return results
