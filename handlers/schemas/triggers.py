"""Triggers and deliveries on the wire (administration "Records": Trigger)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from domain.triggers import Trigger, TriggerDelivery
from handlers.messages.base import Body, Instant, Plain, Shape, Update, WireSchema
from handlers.messages.webhooks import USER_INVITED


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerProperties:
    """The writable fields of a trigger."""

    trigger_key: str
    type: str
    name: str
    active: bool = True
    settings: Mapping[str, Any]
    external_key: str | None = None


class _Record(WireSchema):
    organization_id = Plain()
    trigger_id = Plain()
    trigger_key = Plain()
    type = Plain()
    name = Plain()
    active = Plain()
    external_key = Plain()
    created_at = Instant()
    updated_at = Instant()


class _DeliveryState(WireSchema):
    status = Plain()
    attempts = Plain()
    next_attempt_at = Instant()


class _Delivery(WireSchema):
    organization_id = Plain()
    trigger_delivery_id = Plain()
    trigger_delivery_key = Plain()
    trigger_id = Plain()
    type = Plain()
    payload = Plain()
    status = Plain()
    attempts = Plain()
    next_attempt_at = Instant()
    last_attempt_at = Instant()
    last_status_code = Plain()
    last_error = Plain()
    delivered_at = Instant()
    created_at = Instant()
    updated_at = Instant()


TRIGGER_BODY = Body(TriggerProperties)
TRIGGER_CHANGES = Update(TriggerProperties)
_DELIVERY = Shape(_Delivery)
DELIVERY_STATE = Shape(_DeliveryState)
_TRIGGER = Shape(_Record)


@dataclass(frozen=True, slots=True)
class ShownTrigger:
    """A trigger with its secret, if the answer is one that shows it."""

    trigger: Trigger
    secret: str | None = None

    @property
    def trigger_id(self) -> int:
        """The id of the trigger."""
        return self.trigger.trigger_id


def trigger_record(shown: ShownTrigger) -> dict[str, Any]:
    """The record of a trigger."""
    settings = shown.trigger.settings
    # Values of headers are usually credentials, so they are never shown.
    headers = dict.fromkeys(settings["headers"])
    return {**_TRIGGER.dump(shown.trigger), "settings": {**settings, "headers": headers, "secret": shown.secret}}


def delivery_record(delivery: TriggerDelivery) -> dict[str, Any]:
    """The record of a delivery, without the password of an invitation."""
    answer = _DELIVERY.dump(delivery)
    if delivery.type == USER_INVITED:
        payload = answer["payload"]
        answer["payload"] = {**payload, "data": {**payload["data"], "temporaryPassword": None}}
    return answer
