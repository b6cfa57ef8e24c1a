"""Events on the wire: tracked events, their results, and stored events (integration 2.7)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from marshmallow import fields

from domain.calendar import instant_text
from domain.events import DRY_RUN, FULL, WAITING, IncomingEvent, LoyaltyEvent
from domain.fields import Key
from domain.queue import DeadLetter
from handlers.messages.base import loaded_items
from handlers.messages.events import completed_result, event_record, incoming_event
from handlers.services.events.track import TrackedBatch

# The allowed values of `include`.
PAYLOAD, RESULT = "payload", "result"


class _Events(fields.Field[Any]):
    load = staticmethod(partial(loaded_items, incoming_event))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """Events to track, and how; `now` and `trace` are only for dry runs, and no `campaign_keys` means all campaigns."""

    events: Annotated[Sequence[IncomingEvent], _Events]
    campaign_keys: Sequence[Key] = ()
    execution_mode: str = FULL
    now: datetime | None = None
    trace: bool = False
    dry_run: bool = False

    @property
    def mode(self) -> str:
        """The execution mode, which `dry_run` or `execution_mode` names."""
        return DRY_RUN if self.dry_run else self.execution_mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Queueing:
    """Events to store and queue."""

    events: Annotated[Sequence[IncomingEvent], _Events]


@dataclass(frozen=True, slots=True)
class EventToTrack:
    """One event to track, and the organization that the body names."""

    organization_id: int
    event: IncomingEvent


def event_to_track(body: Mapping[str, Any]) -> EventToTrack:
    """The single event of a body that the OpenAPI document accepted."""
    event = incoming_event({name: value for name, value in body.items() if name != "organizationId"})
    return EventToTrack(body["organizationId"], event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """The request to cancel an event."""

    description: str | None = None
    allow_overdraft: bool = False


def detailed_event(event: LoyaltyEvent, include: Collection[str], *, names_caller: bool = False) -> dict[str, Any]:
    """The record of an event; with its payload and result if `include` names them, its caller if `names_caller`."""
    response = event_record(event)
    if names_caller:
        response |= {"actor": event.actor, "userId": event.user_id}
    if PAYLOAD in include:
        response["payload"] = event.payload
    if RESULT in include:
        response |= _result(event)
    return response


def event_outcome(event: LoyaltyEvent, include: Collection[str]) -> dict[str, Any]:
    """An event, with its payload if `include` names it, and its result while that is stored."""
    return {"event": detailed_event(event, {*include} - {RESULT}), **_result(event)}


def _result(event: LoyaltyEvent) -> dict[str, Any]:
    """The field `result` of an event; no field while the event waits, and after its result was released."""
    if event.result is None or event.status in WAITING:
        return {}
    return {"result": completed_result(event.result)}


def tracking_response(batch: TrackedBatch) -> dict[str, Any]:
    """The results of the events of a request, in the order of the request, and its execution mode."""
    return {
        "results": [result.response for result in batch.results],
        "executionMode": batch.mode,
        "dryRun": batch.mode == DRY_RUN,
    }


def dead_letter(letter: DeadLetter, include: Collection[str]) -> dict[str, Any]:
    """An event on the dead-letter list."""
    return {
        "event": detailed_event(letter.event, include),
        "attempts": letter.attempts,
        "queuedAt": instant_text(letter.queued_at),
        "deadAt": instant_text(letter.dead_at),
    }
