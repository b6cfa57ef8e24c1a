"""The test clock of a test organization (an extension of the administration interface)."""

from sqlalchemy import Engine

from domain.organizations import OrganizationDetails
from handlers.call import Call, Request, Response
from handlers.operation import operation
from handlers.schemas.test_clock import ClockAdvance, NewClock, audited_clock, clock_response
from handlers.services.organizations.test_clock import (
    ClockChange,
    advance_for_a_call,
    begin_advance,
    clock_of,
    remove_clock,
    start_clock,
)
from handlers.settings import Settings
from persistence import organizations


@operation("getTestClock")
def get_test_clock(call: Call) -> Response:
    """The clock, with the progress of its advance, if one is running."""
    return clock_response(200, clock_of(organizations.find_details(call.db, call.organization.organization_id)))


@operation("createTestClock", audit="organization")
def create_test_clock(call: Call, body: NewClock) -> Response:
    """Stop the time of the organization, at the moment in the body or else now."""
    return clock_response(201, clock_of(_audit_change(call, start_clock(call, body.starts_at))))


def _advance(engine: Engine, settings: Settings, request: Request) -> Response:
    """Advance the clock to its target, or as far as the time of a call allows; return the response."""
    return clock_response(200, clock_of(advance_for_a_call(engine, settings, request.path["organizationId"])))


@operation("advanceTestClock", audit="organization", after_transaction=_advance)
def advance_test_clock(call: Call, body: ClockAdvance) -> Response:
    """Set the target of the clock; after the transaction, `_advance` does the work that is due until then."""
    return clock_response(200, clock_of(_audit_change(call, begin_advance(call, body.to))))


@operation("removeTestClock", audit="organization")
def remove_test_clock(call: Call) -> None:
    """Return the organization to the real time."""
    _audit_change(call, remove_clock(call))


def _audit_change(call: Call, change: ClockChange) -> OrganizationDetails:
    """Add an entry to the audit log if the clock was changed; return the organization after the change."""
    before, after = audited_clock(change.before), audited_clock(change.after)
    if after != before:
        call.audit.add("organization", change.after.organization_id, before=before, after=after)
    return change.after
