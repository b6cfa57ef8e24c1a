"""Imports of events, including events of purchase orders. Quiet imports store events, others evaluate them, too."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from domain.events import CAPTURE_ONLY, FULL, IncomingEvent
from domain.problems import InvalidRequest
from handlers.call import INTEGRATION, Call
from handlers.messages.events import incoming_event
from handlers.services.events.track import track
from handlers.services.imports.reading import ImportStep, detail_of
from handlers.services.imports.rows import ImportRow
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.events import EVENTS

# The maximum number of events of a request.
_TRACKED_AT_ONCE = 100
_EVENT_FIELDS = (
    "loyaltyMemberId",
    "sponsorLoyaltyMemberId",
    "externalId",
    "eventType",
    "description",
    "payload",
    "tags",
)
_FIELD_OF_POINTER = {f"/{name}": name for name in (*_EVENT_FIELDS, "systemUniqueKey")}


def import_events(step: ImportStep) -> None:
    """Track the events of rows; a quiet import stores them without evaluation."""
    members_by_name = step.find_members()

    def read(row: ImportRow) -> IncomingEvent:
        step.member_of(row, members_by_name)
        return _event(step, row)

    new_items = step.read_new(read, EVENTS)
    for begin in range(0, len(new_items), _TRACKED_AT_ONCE):
        step.execute_all(
            new_items[begin : begin + _TRACKED_AT_ONCE], lambda incoming_events: _track(step.call, incoming_events)
        )


def _track(call: Call, incoming_events: Sequence[IncomingEvent]) -> list[Any]:
    """Track events; return the refusal of each, None if it was accepted."""
    unit = UnitOfWork(call, CAPTURE_ONLY if call.is_quiet else FULL)
    return [result.refusal for result in track(unit, incoming_events)]


def _event(step: ImportStep, row: ImportRow) -> IncomingEvent:
    """The event of a row; raises RowFault."""
    body = {name: row.values[name] for name in _EVENT_FIELDS if name in row.values}
    body["systemUniqueKey"] = step.key_of(row)
    step.check_body("TrackedEvent", body, _FIELD_OF_POINTER, INTEGRATION)
    happened_at = step.past_moment_in(row, "externalEventDate")
    try:
        return replace(incoming_event(body), external_event_date=happened_at)
    except InvalidRequest as refusal:
        raise step.fault_at(refusal.faults[0].pointer, _FIELD_OF_POINTER, detail_of(refusal)) from None
