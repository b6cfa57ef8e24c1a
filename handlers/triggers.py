"""Triggers and their deliveries (administration "Events, event types, triggers" 4)."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from domain.access import ADMIN
from domain.event_types import BUILT_IN_EVENT_TYPES
from domain.problems import FieldFault, InvalidRequest
from domain.triggers import ENTITY_CHANGE, USER_INVITATION, Trigger, TriggerDelivery, TriggerInactive
from domain.users import PermissionNotHeld
from domain.webhooks.receivers import header_fault, repeated_header, url_fault
from domain.webhooks.signatures import SECRET_BYTES, key_of, secret_of
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Changes, listed, values_of, walked, wrapped
from handlers.operation import operation
from handlers.schemas.triggers import (
    DELIVERY_STATE,
    TRIGGER_BODY,
    TRIGGER_CHANGES,
    ShownTrigger,
    TriggerProperties,
    delivery_record,
    trigger_record,
)
from handlers.services import references
from handlers.services.configuration import configuration_of
from handlers.settings import ports_of
from persistence import triggers
from persistence.paging import Paged
from persistence.triggers import DELIVERIES, TRIGGERS

# The time for which a replaced secret signs beside the new one.
OVERLAP = timedelta(hours=24)

_AUDITED_DELIVERY = Audited("trigger-delivery", "trigger_delivery_id", DELIVERY_STATE)


def _audited(trigger: Trigger | ShownTrigger) -> dict[str, Any]:
    """The record with its headers, so that the audit log notes if they changed; it shows none of their values."""
    shown = trigger if isinstance(trigger, ShownTrigger) else ShownTrigger(trigger)
    record = trigger_record(shown)
    return {**record, "settings": {**record["settings"], "headers": shown.trigger.settings["headers"]}}


_AUDITED = Audited("trigger", "trigger_id", _audited)


@operation("listTriggers", answer=listed(trigger_record))
def list_triggers(call: Call, query: Mapping[str, Any]) -> Paged[ShownTrigger]:
    """A page of the triggers that match all filters."""
    page = TRIGGERS.find_page(call.db, call.organization.organization_id, query)
    return page.showing([ShownTrigger(result) for result in page.results])


@operation(
    "createTrigger",
    body=TRIGGER_BODY,
    answer=wrapped("trigger", trigger_record),
    audit=_AUDITED,
    changes_configuration=True,
)
def create_trigger(call: Call, body: TriggerProperties) -> ShownTrigger:
    """Create a trigger; its secret is returned only this once."""
    _refuse_reach(call, body.settings)
    body, given = _validated(call, body, {})
    secret = given or secret_of(secrets.token_bytes(SECRET_BYTES))
    values = {"secret": secret, **values_of(body)}
    made = TRIGGERS.add(call.db, call.organization.organization_id, values, call.now)
    return ShownTrigger(made, secret)


@operation("getTrigger", answer=wrapped("trigger", trigger_record))
def get_trigger(call: Call, trigger: Trigger) -> ShownTrigger:
    """One trigger, without its secret."""
    return ShownTrigger(trigger)


@operation(
    "updateTrigger",
    body=TRIGGER_CHANGES,
    answer=wrapped("trigger", trigger_record),
    audit=_AUDITED.changing(is_found_by_handler=True),
    changes_configuration=True,
)
def update_trigger(call: Call, trigger: Trigger, body: Changes[TriggerProperties]) -> ShownTrigger:
    """Change a trigger and single settings of it; all processes use the change from their next event on."""
    before = TRIGGERS.lock(call.db, trigger)
    _refuse_reach(call, body.sent.get("settings", {}), before.settings)
    call.audit.keep_before(before)
    properties, given = _validated(call, body.of(before), before.settings)
    values = values_of(properties)
    is_new = given is not None and given != before.secret
    if is_new:
        values |= {
            "secret": given,
            "previous_secret": before.secret,
            "previous_secret_until": call.now + OVERLAP,
        }
    after = TRIGGERS.store(call.db, before, values, call.now)
    return ShownTrigger(after, given if is_new else None)


@operation("listTriggerDeliveries", answer=walked(delivery_record))
def list_trigger_deliveries(call: Call, trigger: Trigger, query: Mapping[str, Any]) -> Paged[TriggerDelivery]:
    """A page of the sent and waiting deliveries of the trigger."""
    return DELIVERIES.find_page(call.db, trigger.organization_id, query, trigger_id=trigger.trigger_id)


@operation(
    "redeliverTriggerDelivery",
    answer=wrapped("triggerDelivery", delivery_record),
    audit=_AUDITED_DELIVERY.changing("delivery"),
)
def redeliver_trigger_delivery(call: Call, trigger: Trigger, delivery: TriggerDelivery) -> TriggerDelivery:
    """Queue a delivery again, whatever its status."""
    if not trigger.active:
        raise TriggerInactive(f"The trigger {trigger.trigger_key} is not active.")
    return triggers.queue_again(call.db, delivery, call.now)


def _refuse_reach(call: Call, *settings: Mapping[str, Any]) -> None:
    """Let only administrators decide who receives invitations.

    An invitation is enough to sign in as the invited user.
    """
    named = any(USER_INVITATION in setting.get("entities", ()) for setting in settings)
    if named and not (call.caller is not None and call.caller.holds(ADMIN)):
        raise PermissionNotHeld(f"Only an administrator makes or changes a trigger for {USER_INVITATION}.")


def _validated(call: Call, body: TriggerProperties, stored: Mapping[str, Any]) -> tuple[TriggerProperties, str | None]:
    """The trigger with whole settings, and their secret, which is not one of them; refuses unusable settings.

    Settings that are left out stay as they are `stored`, unless the type changes to one that does not allow them. The
    value of a header that is sent as null, as it was returned, stays, too. An event type that was named before may have
    been deactivated since.
    """
    foreign = "eventTypes" if body.type == ENTITY_CHANGE else "entities"
    given = {"headers": {}, "eventTypes": [], "entities": [], **stored, foreign: [], **body.settings}
    known = stored.get("headers", {})
    secret: str | None = given.pop("secret", None)
    given["headers"] = {name: known.get(name) if value is None else value for name, value in given["headers"].items()}
    faults = _faults(call, body.type, {**given, "secret": secret})
    if faults:
        raise InvalidRequest(faults)
    configuration = configuration_of(call.db, call.organization)
    own = configuration.custom_event_types
    for event_type in given["eventTypes"]:
        if event_type not in BUILT_IN_EVENT_TYPES and event_type not in (*own, *stored.get("eventTypes", ())):
            raise references.unknown_event_type(configuration, event_type)
    return replace(body, settings=given), secret


def _faults(call: Call, type_: str, given: Mapping[str, Any]) -> list[FieldFault]:
    faults = []
    settings = call.settings
    ports = ports_of(settings.webhook_ports)
    fault = url_fault(given["url"], settings.webhook_allow_http, settings.webhook_allow_private, ports)
    if fault is not None:
        faults.append(FieldFault(f"url {fault}.", pointer="/settings/url"))
    if given.get("secret") is not None:
        try:
            key_of(given["secret"])
        except ValueError as error:
            faults.append(FieldFault(f"secret {error}", pointer="/settings/secret"))
    headers = given.get("headers", {})
    for name, value in headers.items():
        fault = header_fault(name)
        if fault is not None:
            faults.append(FieldFault(f"headers has {name}, which {fault}", pointer="/settings/headers"))
        elif value is None:
            faults.append(
                FieldFault(
                    f"headers has null for {name}, and no value of it is stored",
                    pointer="/settings/headers",
                )
            )
    repeated = repeated_header(headers)
    if repeated is not None:
        faults.append(FieldFault(f"headers has {repeated} twice, in letters of any case", pointer="/settings/headers"))
    if given.get("eventTypes") and type_ == ENTITY_CHANGE:
        faults.append(FieldFault(f"eventTypes does not go with the type {type_}", pointer="/settings/eventTypes"))
    if given.get("entities") and type_ != ENTITY_CHANGE:
        faults.append(FieldFault(f"entities does not go with the type {type_}", pointer="/settings/entities"))
    return faults
