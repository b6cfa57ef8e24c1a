"""Triggers and their deliveries, through the API."""

from __future__ import annotations

import itertools
from typing import Any

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_numbers = itertools.count(1)


def trigger_body(type_: str = "WebHook", *, key: str | None = None, **more: Any) -> dict[str, Any]:
    """The body of a trigger; keywords are its settings, except `name` and `active`."""
    trigger_fields = {name: more.pop(name) for name in ("name", "active") if name in more}
    settings = {"url": "https://hooks.invalid/loyalty", **more}
    return {
        "triggerKey": key or f"trigger-{next(_numbers)}",
        "type": type_,
        "name": "Told",
        "settings": settings,
        **trigger_fields,
    }


def add_trigger(administration: Any, type_: str = "WebHook", *, key: str | None = None, **more: Any) -> dict[str, Any]:
    """A new trigger."""
    return administration.post("/triggers", trigger_body(type_, key=key, **more))["trigger"]


def deliveries(administration: Any, trigger: dict[str, Any]) -> list[dict[str, Any]]:
    """The deliveries of a trigger, oldest first, at most 25."""
    path = f"/triggers/{trigger['triggerId']}/deliveries"
    return administration.get(path, order="triggerDeliveryId")["results"]
