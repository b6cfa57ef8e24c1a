"""Events in the queue: sent through the API, evaluated by a worker in this process, and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import text

from handlers.services.events.drain_queue import Drain
from handlers.settings import Settings
from tests.builders.tracking import Shop


def send(shop: Shop, *events: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Queue events and return their outcomes."""
    return shop.integration.post("/events/track-async", {"events": list(events)}, expect=202)["results"]


def drain_of(shop: Shop, **settings: Any) -> Drain:
    """A worker that evaluates queued events, with these settings changed."""
    worker_settings: Settings = replace(shop.organization.api.settings, **settings)
    return Drain(shop.organization.api.engine, worker_settings)


def drain(shop: Shop, **settings: Any) -> None:
    """Evaluate all events that are due."""
    drain = drain_of(shop, **settings)
    while drain.step():
        pass


def outcome(shop: Shop, result: Mapping[str, Any]) -> dict[str, Any]:
    """The current event of a result of `send`, with the result of its evaluation if there is one."""
    return shop.integration.get(f"/events/{result['loyaltyEventKey']}")


def waiting(shop: Shop) -> int:
    """The number of queued events of the organization."""
    return len(shop.rows("queued_events", "1"))


def let_all_be_due(shop: Shop) -> None:
    """Make the next attempts of all queued events due now."""
    with shop.organization.api.engine.begin() as db:
        db.execute(
            text("UPDATE queued_events SET next_attempt_at = now() WHERE organization_id = :o"),
            {"o": shop.organization.id},
        )
