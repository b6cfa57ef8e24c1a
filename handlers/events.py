"""Events: tracking them and reading their results (integration 4.6, administration "Events")."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from domain.events import DRY_RUN, FULL, LoyaltyEvent
from domain.members import Member
from domain.problems import FieldFault, InvalidRequest
from domain.queue import EventNotDead
from handlers.call import ADMINISTRATION, Call
from handlers.messages.events import TENDER_REFUND, event_record
from handlers.messages.lists import listed, listed_by_cursor
from handlers.messages.reversals import reverted_event
from handlers.operation import BatchHandler, operation
from handlers.schemas.events import (
    Cancellation,
    EventToTrack,
    Queueing,
    Tracking,
    dead_letter,
    detailed_event,
    event_outcome,
    event_to_track,
    tracking_response,
)
from handlers.services import references
from handlers.services.events.cancel import cancel_event as cancel
from handlers.services.events.cancel import evaluate_captured
from handlers.services.events.evaluate_queued import requeue
from handlers.services.events.track import TrackRequest, batchable_size, track, track_requests
from handlers.services.events.track_async import queue_events
from handlers.services.organizations.reset import refuse_other_organization
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import queue
from persistence.events import EVENTS


@operation(
    "trackEvents",
    response=tracking_response,
    dry_run_mark=b"dryRun",
    batch=BatchHandler(track_requests, batchable_size),
)
def track_events(call: Call, body: Tracking) -> TrackRequest:
    """Track a batch of events; the response has their results, in the order of the request."""
    _refuse_fields_of_dry_runs(body)
    # Some generated clients send an empty list for one that was not set.
    campaign_keys = body.campaign_keys or None
    if campaign_keys is not None:
        references.refuse_unknown_campaigns(call, campaign_keys)
    return TrackRequest(body.events, body.mode, campaign_keys, body.now, is_traced=body.trace)


@operation("trackEventsAsync")
def track_events_async(call: Call, body: Queueing) -> dict[str, Any]:
    """Store and queue a batch of events (integration 4.6, item 2).

    Returns the outcomes of the events, in the order of the request.
    """
    return {"results": queue_events(call, body.events)}


@operation("trackEvent", body=event_to_track)
def track_event(call: Call, body: EventToTrack) -> dict[str, Any]:
    """Track one event and return its effects; if it is refused, the response is a problem and nothing is stored."""
    refuse_other_organization(call, body.organization_id)
    [result] = track(UnitOfWork(call), [body.event])
    if result.refusal is not None:
        raise result.refusal
    return {"systemUniqueKey": result.response["systemUniqueKey"], "effects": result.response["effects"]}


@operation("cancelEvent", audit="event")
def cancel_event(call: Call, event: LoyaltyEvent, body: Cancellation) -> dict[str, Any]:
    """Cancel an event and return what was reversed and refunded (integration 4.6, item 3)."""
    reversals, refunds = cancel(call, event, body.description, body.allow_overdraft)
    return {
        "results": [reverted_event(reversal) for reversal in reversals],
        "refunds": list(map(TENDER_REFUND, refunds)),
        "executionMode": FULL,
        "dryRun": False,
    }


@operation("evaluateEvent", audit="event")
def evaluate_event(call: Call, event: LoyaltyEvent) -> dict[str, Any]:
    """Evaluate an event that was only captured; return its result. A repetition returns the stored result."""
    evaluated_event = evaluate_captured(call, event)
    # Equal for a repetition, which changes nothing.
    if evaluated_event.evaluation_status != event.evaluation_status:
        call.audit.add(
            "event",
            event.loyalty_event_id,
            before={"evaluationStatus": event.evaluation_status},
            after={"evaluationStatus": evaluated_event.evaluation_status},
            member_ids=(event.member_id,),
        )
    return event_outcome(evaluated_event, include=())


@operation("getEvent")
def get_event(call: Call, event: LoyaltyEvent, query: Mapping[str, Any]) -> dict[str, Any]:
    """An event with its result."""
    return event_outcome(event, query.get("include", ()))


@operation("listMemberEvents")
def list_member_events(call: Call, member: Member, query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of a member's events."""
    page = EVENTS.find_page(call.db, member.organization_id, query, member_id=member.member_id)
    names_caller = call.surface == ADMINISTRATION
    return listed_by_cursor(partial(detailed_event, include=query.get("include", ()), names_caller=names_caller))(page)


@operation("listDeadLetterEvents")
def list_dead_letter_events(call: Call, query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of the dead letters."""
    organization_id = call.organization.organization_id
    page = queue.find_page_of_dead_letters(call.db, organization_id, query)
    shape = partial(dead_letter, include=query.get("include", ()))
    return listed(shape)(page)


@operation("requeueDeadLetterEvent", audit="event")
def requeue_dead_letter_event(call: Call, event: LoyaltyEvent) -> dict[str, Any]:
    """Queue a dead letter again; raises EventNotDead for an event that is not on the dead-letter list."""
    queued_event = requeue(call.db, event, call.now)
    if queued_event is None:
        raise EventNotDead(f"The event {event.loyalty_event_key} is {event.status}, and not on the dead-letter list.")
    call.audit.add(
        "event",
        event.loyalty_event_id,
        before={"status": event.status},
        after={"status": queued_event.status},
        member_ids=(event.member_id,),
    )
    return {"event": event_record(queued_event)}


def _refuse_fields_of_dry_runs(body: Tracking) -> None:
    """Refuse `now` and `trace` unless the request is a dry run: all other modes evaluate now and explain nothing."""
    faults = [
        FieldFault(f"{name} is only allowed with the execution mode {DRY_RUN}", pointer=f"/{name}")
        for name, value in (("now", body.now), ("trace", body.trace))
        if value and body.mode != DRY_RUN
    ]
    if faults:
        raise InvalidRequest(faults)
