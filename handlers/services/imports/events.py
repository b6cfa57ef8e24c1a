"""Imports of events, with purchase orders among them: captured, or evaluated as of the days when they happened."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from domain.events import CAPTURE_ONLY, FULL, IncomingEvent
from domain.imports.records import FailedRow, ImportJob, RowFault
from domain.problems import InvalidRequest
from handlers.call import INTEGRATION, Call
from handlers.messages.events import incoming_event
from handlers.services.events.track import track
from handlers.services.imports.reading import (
    detail_of,
    do_all,
    find_members,
    key_of,
    member_of,
    read_new_rows,
)
from handlers.services.imports.rows import ImportRow, NameOf, check_body, field_at, moment_in
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


def import_events(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Track the events of rows, which are only captured if the import is quiet; returns the rows that failed."""
    failed: list[FailedRow] = []
    members_by_name = find_members(call, rows)

    def read(row: ImportRow) -> IncomingEvent:
        member_of(row, members_by_name, name_of)
        return _event(call, job, row, name_of)

    new_items = read_new_rows(call, job, rows, failed, name_of, read, EVENTS)
    for begin in range(0, len(new_items), _TRACKED_AT_ONCE):
        do_all(new_items[begin : begin + _TRACKED_AT_ONCE], failed, lambda incoming: _tracked(call, incoming))
    return failed


def _tracked(call: Call, incoming: Sequence[IncomingEvent]) -> list[Any]:
    unit = UnitOfWork(call, CAPTURE_ONLY if call.is_quiet else FULL)
    return [result.refusal for result in track(unit, incoming)]


def _event(call: Call, job: ImportJob, row: ImportRow, name_of: NameOf) -> IncomingEvent:
    """The event of a row; raises RowFault."""
    body = {name: row.values[name] for name in _OF_OPERATION if name in row.values}
    body["systemUniqueKey"] = key_of(job, row)
    check_body("TrackedEvent", body, _FIELDS, name_of, INTEGRATION)
    happened_at = moment_in(row.values, "externalEventDate", name_of, call.organization.zone)
    if happened_at is not None and happened_at > call.now:
        raise RowFault(f"{name_of('externalEventDate')} is in the future.", name_of("externalEventDate"))
    try:
        return replace(incoming_event(body), external_event_date=happened_at)
    except InvalidRequest as refusal:
        at = field_at(refusal.faults[0].pointer or "", _FIELDS)
        raise RowFault(detail_of(refusal), None if at is None else name_of(at)) from None
