"""Triggers and deliveries on the wire (administration "Records": Trigger)."""

from dataclasses import dataclass
from typing import Any

from domain.triggers import Trigger, TriggerDelivery
from handlers.messages.base import Shape
from handlers.messages.webhooks import USER_INVITED

_DELIVERY = Shape(TriggerDelivery)
DELIVERY_STATE = Shape(TriggerDelivery, only=("status", "attempts", "next_attempt_at"))
_TRIGGER = Shape(Trigger, without=("settings", "previous_secret_until"))


@dataclass(frozen=True, slots=True)
class ShownTrigger:
    """A trigger, and its secret if the response shows it, else None."""

    trigger: Trigger
    secret: str | None = None

    @property
    def trigger_id(self) -> int:
        """The id of the trigger."""
        return self.trigger.trigger_id


def trigger_record(shown_trigger: ShownTrigger) -> dict[str, Any]:
    """The record of a trigger, with the names of its headers, and with null in place of their values."""
    settings = shown_trigger.trigger.settings
    # The values of headers are never shown, since they are usually credentials.
    headers = dict.fromkeys(settings["headers"])
    return {
        **_TRIGGER.dump(shown_trigger.trigger),
        "settings": {**settings, "headers": headers, "secret": shown_trigger.secret},
    }


def delivery_record(delivery: TriggerDelivery) -> dict[str, Any]:
    """The record of a delivery, without the password of an invitation."""
    response = _DELIVERY.dump(delivery)
    if delivery.type == USER_INVITED:
        payload = response["payload"]
        response["payload"] = {**payload, "data": {**payload["data"], "temporaryPassword": None}}
    return response
