"""Triggers and their deliveries (administration "Events, event types, triggers" 4)."""

from collections.abc import Mapping
from typing import Any

from domain.triggers import Trigger, TriggerDelivery, TriggerInactive
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Changes, values_of, wrapped
from handlers.messages.lists import listed, listed_by_cursor
from handlers.operation import operation
from handlers.schemas.triggers import DELIVERY_STATE, ShownTrigger, delivery_record, trigger_record
from handlers.services.webhooks.triggers import (
    TriggerProperties,
    columns_of_new_secret,
    new_secret,
    refuse_excess_trigger,
    refuse_invitation_trigger,
    validated_trigger,
)
from persistence import triggers
from persistence.paging import Paged
from persistence.triggers import DELIVERIES, TRIGGERS

_AUDITED_DELIVERY = Audited("trigger-delivery", "trigger_delivery_id", DELIVERY_STATE)


def _audit_values(trigger: Trigger | ShownTrigger) -> dict[str, Any]:
    """The record for the audit log, with the values of the headers, so that a change of them gets an entry.

    The audit log masks these values, as they may be secrets.
    """
    shown_trigger = trigger if isinstance(trigger, ShownTrigger) else ShownTrigger(trigger)
    record = trigger_record(shown_trigger)
    return {**record, "settings": {**record["settings"], "headers": shown_trigger.trigger.settings["headers"]}}


_AUDITED = Audited("trigger", "trigger_id", _audit_values)


@operation("listTriggers", response=listed(trigger_record))
def list_triggers(call: Call, query: Mapping[str, Any]) -> Paged[ShownTrigger]:
    """A page of the triggers that match all filters."""
    page = TRIGGERS.find_page(call.db, call.organization.organization_id, query)
    return page.with_results([ShownTrigger(result) for result in page.results])


@operation("createTrigger", response=wrapped("trigger", trigger_record), audit=_AUDITED, changes_configuration=True)
def create_trigger(call: Call, body: TriggerProperties) -> ShownTrigger:
    """Create a trigger; only this response and that of a replaced secret show the secret."""
    refuse_invitation_trigger(call, body.settings)
    body, requested_secret = validated_trigger(call, body, stored_settings={})
    if body.active:
        refuse_excess_trigger(call)
    secret = requested_secret or new_secret()
    values = {"secret": secret, **values_of(body)}
    trigger = TRIGGERS.add(call.db, call.organization.organization_id, values, call.now)
    return ShownTrigger(trigger, secret)


@operation("getTrigger", response=wrapped("trigger", trigger_record))
def get_trigger(call: Call, trigger: Trigger) -> ShownTrigger:
    """One trigger, without its secret."""
    return ShownTrigger(trigger)


@operation(
    "updateTrigger",
    response=wrapped("trigger", trigger_record),
    audit=_AUDITED.changing(is_found_by_handler=True),
    changes_configuration=True,
)
def update_trigger(call: Call, trigger: Trigger, body: Changes[TriggerProperties]) -> ShownTrigger:
    """Change the sent fields of a trigger and of its settings; all processes use the change from their next event."""
    before = TRIGGERS.lock(call.db, trigger)
    refuse_invitation_trigger(call, body.fields.get("settings", {}), before.settings)
    call.audit.keep_before(before)
    properties, requested_secret = validated_trigger(call, body.of(before), before.settings)
    if properties.active and not before.active:
        refuse_excess_trigger(call)
    replacement = requested_secret if requested_secret != before.secret else None
    values = {**values_of(properties), **columns_of_new_secret(before, replacement, call.real_now)}
    return ShownTrigger(TRIGGERS.store(call.db, before, values, call.now), replacement)


@operation("listTriggerDeliveries", response=listed_by_cursor(delivery_record))
def list_trigger_deliveries(call: Call, trigger: Trigger, query: Mapping[str, Any]) -> Paged[TriggerDelivery]:
    """A page of the sent and waiting deliveries of the trigger."""
    return DELIVERIES.find_page(call.db, trigger.organization_id, query, trigger_id=trigger.trigger_id)


@operation(
    "redeliverTriggerDelivery",
    response=wrapped("triggerDelivery", delivery_record),
    audit=_AUDITED_DELIVERY.changing("delivery"),
)
def redeliver_trigger_delivery(call: Call, trigger: Trigger, delivery: TriggerDelivery) -> TriggerDelivery:
    """Queue a delivery again, whatever its status."""
    if not trigger.active:
        raise TriggerInactive(f"The trigger {trigger.trigger_key} is not active.")
    return triggers.queue_again(call.db, delivery, call.now)
