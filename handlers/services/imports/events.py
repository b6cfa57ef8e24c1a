"""Imports of events, with purchase orders among them: captured, or evaluated as of the days when they happened."""

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

# As many as a request may track.
_TRACKED_AT_ONCE = 100
_OF_OPERATION = (
    "loyaltyMemberId",
    "sponsorLoyaltyMemberId",
    "externalId",
    "eventType",
    "description",
    "payload",
    "tags",
)
_FIELDS = {f"/{name}": name for name in (*_OF_OPERATION, "systemUniqueKey")}


def import_events(step: ImportStep) -> None:
    """Track the events of rows, which are only captured if the import is quiet."""
    members_by_name = step.find_members()

    def read(row: ImportRow) -> IncomingEvent:
        step.member_of(row, members_by_name)
        return _event(step, row)

    new_items = step.read_new(read, EVENTS)
    for begin in range(0, len(new_items), _TRACKED_AT_ONCE):
        step.do_all(new_items[begin : begin + _TRACKED_AT_ONCE], lambda incoming: _tracked(step.call, incoming))


def _tracked(call: Call, incoming: Sequence[IncomingEvent]) -> list[Any]:
    unit = UnitOfWork(call, CAPTURE_ONLY if call.is_quiet else FULL)
    return [result.refusal for result in track(unit, incoming)]


def _event(step: ImportStep, row: ImportRow) -> IncomingEvent:
    """The event of a row; raises RowFault."""
    body = {name: row.values[name] for name in _OF_OPERATION if name in row.values}
    body["systemUniqueKey"] = step.key_of(row)
    step.check_body("TrackedEvent", body, _FIELDS, INTEGRATION)
    happened_at = step.past_moment_in(row, "externalEventDate")
    try:
        return replace(incoming_event(body), external_event_date=happened_at)
    except InvalidRequest as refusal:
        raise step.fault_at(refusal.faults[0].pointer, _FIELDS, detail_of(refusal)) from None
