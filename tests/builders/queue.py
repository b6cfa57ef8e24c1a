"""Events through the queue: sent, worked off in this process, and looked at."""

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
    """A worker's way through the queue, with other settings than usual."""
    worker_settings: Settings = replace(shop.organization.api.settings, **settings)
    return Drain(shop.organization.api.engine, worker_settings)


def drain(shop: Shop, **settings: Any) -> None:
    """Work off all that is due."""
    drain = drain_of(shop, **settings)
    while drain.step():
        pass


def outcome(shop: Shop, result: Mapping[str, Any]) -> dict[str, Any]:
    """The current event of an outcome, with its result if it has one."""
    return shop.integration.get(f"/events/{result['loyaltyEventKey']}")


def waiting(shop: Shop) -> int:
    """How many events of the organization wait."""
    return len(shop.rows("queued_events", "1"))


def let_all_be_due(shop: Shop) -> None:
    """Let the time pass until the next attempts."""
    with shop.organization.api.engine.begin() as db:
        db.execute(
            text("UPDATE queued_events SET next_attempt_at = now() WHERE organization_id = :o"),
            {"o": shop.organization.id},
        )
