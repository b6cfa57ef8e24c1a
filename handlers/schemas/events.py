"""Events on the wire: tracked events, their results, and stored events (integration 2.7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from domain.calendar import instant_of
from domain.events import WAITING, IncomingEvent, LoyaltyEvent
from domain.problems import FieldFault, InvalidRequest
from domain.queue import DeadLetter
from handlers.messages.base import (
    Instant,
    Plain,
    Shape,
    WireSchema,
    instant_text,
)
from handlers.messages.events import event_record

# The allowed values of `include`.
PAYLOAD, RESULT = "payload", "result"


class _Incoming(WireSchema):
    system_unique_key = Plain()
    event_type = Plain()
    loyalty_member_id = Plain()
    member_id = Plain()
    sponsor_loyalty_member_id = Plain()
    external_id = Plain()
    description = Plain()
    payload = Plain()
    external_event_date = Instant()
    tags = Plain()


_INCOMING = Shape(_Incoming)


def incoming_events(bodies: Sequence[Mapping[str, Any]]) -> list[IncomingEvent]:
    """Events that a document accepted; raises InvalidRequest naming every invalid date."""
    loaded, faults = [], []
    for index, body in enumerate(bodies):
        dated = ((body.get("payload") or {}).get("order") or {}).get("externalEventDate")
        try:
            loaded.append(IncomingEvent(**_INCOMING.load(body)))
            if dated is not None:
                instant_of(dated)
        except InvalidRequest as refusal:
            faults += [replace(f, pointer=f"/events/{index}{f.pointer}") for f in refusal.faults]
        except ValueError:
            pointer = f"/events/{index}/payload/order/externalEventDate"
            faults.append(FieldFault("externalEventDate is not between the years 1 and 9999", pointer=pointer))
    if faults:
        raise InvalidRequest(faults)
    return loaded


def detailed_event(event: LoyaltyEvent, include: Collection[str]) -> dict[str, Any]:
    """The record of an event with its `payload` and its `result`, as far as `include` names them."""
    answer = event_record(event)
    if PAYLOAD in include:
        answer["payload"] = event.payload
    if RESULT in include:
        answer |= _result(event)
    return answer


def event_outcome(event: LoyaltyEvent, include: Collection[str]) -> dict[str, Any]:
    """An event with its result beside it, as long as the result is stored."""
    return {"event": detailed_event(event, {*include} - {RESULT}), **_result(event)}


def _result(event: LoyaltyEvent) -> dict[str, Any]:
    known = event.result is not None and event.status not in WAITING
    return {"result": event.result} if known else {}


def dead_letter(letter: DeadLetter, include: Collection[str]) -> dict[str, Any]:
    """An event on the dead-letter list."""
    return {
        "event": detailed_event(letter.event, include),
        "attempts": letter.attempts,
        "queuedAt": instant_text(letter.queued_at),
        "deadAt": instant_text(letter.dead_at),
    }
