"""Event types: the built-in and the organization's own (integration 4.6, administration "Events")."""

from typing import Any

from domain.event_types import BUILT_IN_EVENT_TYPES, ApiCodeFixed, CustomEventType, built_in_record
from domain.problems import NameTaken
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed, results
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.event_types import EVENT_TYPE, EventTypeProperties
from persistence.event_types import EVENT_TYPES

_AUDITED = Audited("event-type", "api_code", EVENT_TYPE)


@operation("listEventTypes", response=results(EVENT_TYPE))
def list_event_types(call: Call) -> list[Any]:
    """The event types to choose from: the built-in ones, then the organization's active ones."""
    organization_id = call.organization.organization_id
    built_in_types = [{**built_in_record(code), "organization_id": organization_id} for code in BUILT_IN_EVENT_TYPES]
    return [*built_in_types, *EVENT_TYPES.find_all(call.db, organization_id, active=True)]


declare_list("listCustomEventTypes", EVENT_TYPES.find_page, listed(EVENT_TYPE))


@operation(
    "createCustomEventType", response=wrapped("eventType", EVENT_TYPE), audit=_AUDITED, changes_configuration=True
)
def create_custom_event_type(call: Call, body: EventTypeProperties) -> CustomEventType:
    """Add an event type. Refuses an `apiCode` that exists, built-in or not."""
    if body.api_code in BUILT_IN_EVENT_TYPES:
        raise NameTaken(f"{body.api_code} is a built-in event type.")
    return EVENT_TYPES.add(call.db, call.organization.organization_id, values_of(body), call.now)


declare_get("getCustomEventType", "event_type", wrapped("eventType", EVENT_TYPE))


@operation(
    "updateCustomEventType",
    response=wrapped("eventType", EVENT_TYPE),
    audit=_AUDITED.changing("event_type"),
    changes_configuration=True,
)
def update_custom_event_type(
    call: Call, event_type: CustomEventType, body: Merged[EventTypeProperties]
) -> CustomEventType:
    """Change an event type; events of an inactive type can no longer be tracked."""
    if body.api_code != event_type.api_code:
        raise ApiCodeFixed(
            f"apiCode is {event_type.api_code} and cannot change. Create an event type with the other code."
        )
    return EVENT_TYPES.store(call.db, event_type, values_of(body), call.now)
