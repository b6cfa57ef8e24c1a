"""Metrics of the queue and of messages to receivers, summed over all organizations."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import text

from handlers.http.app import create_app
from persistence.engine import create_engine
from tests.builders.queue import send
from tests.builders.tracking import Shop, event
from tests.builders.triggers import add_trigger, trigger_body
from tests.http.support import Client

NAMES = ("events", "oldest_seconds", "retries", "dead_letters")
OF_WEBHOOKS = ("deliveries", "overdue_seconds", "retries")


def measured(app, names=NAMES, prefix="loyalty_queue") -> dict[str, float]:
    reply = Client(app, token=None)("GET", "/metrics")
    assert reply.status == 200
    lines = dict(line.rsplit(" ", 1) for line in reply.content.decode().splitlines() if not line.startswith("#"))
    return {name: float(lines[f"{prefix}_{name}"]) for name in names}


def age(shop, column, moment, *events):
    keys = [event["loyaltyEventKey"] for event in events]
    with shop.organization.api.engine.begin() as db:
        db.execute(
            text(
                f"UPDATE queued_events q SET {column} = now() - :moment, attempts = attempts + 1 FROM events e"
                " WHERE q.organization_id = e.organization_id AND q.loyalty_event_id = e.loyalty_event_id"
                " AND e.loyalty_event_key = ANY(CAST(:keys AS uuid[]))"
            ),
            {"moment": moment, "keys": keys},
        )


def test_the_queue_is_measured(api):
    shop, other = Shop(api.organization()), Shop(api.organization())
    before = measured(api.app)
    events = [*send(shop, *(event(shop.member()) for _ in range(4))), *send(other, event(other.member()))]
    age(shop, "queued_at", timedelta(days=30), events[0])
    age(shop, "dead_at", timedelta(0), events[1])
    after = measured(api.app)
    assert after["events"] - before["events"] == 4
    assert after["dead_letters"] - before["dead_letters"] == 1
    assert after["retries"] - before["retries"] == 1
    assert 30 * 86_400 <= after["oldest_seconds"] < 31 * 86_400
    with api.engine.begin() as db:
        db.execute(
            text("DELETE FROM queued_events WHERE organization_id IN (:a, :b)"),
            {"a": shop.organization.id, "b": other.organization.id},
        )


def test_messages_to_receivers_are_measured(api):
    shop, quiet = Shop(api.organization()), Shop(api.organization())
    before = measured(api.app, OF_WEBHOOKS, "loyalty_webhook")
    key = add_trigger(quiet.administration)["triggerKey"]
    add_trigger(shop.administration, eventTypes=["member-generic-event"])
    member, other = shop.member(), quiet.member()
    shop.track(*(event(member) for _ in range(3)))
    quiet.track(event(other))
    [trigger] = quiet.administration.get("/triggers")["results"]
    quiet.administration.put(f"/triggers/{trigger['triggerId']}", trigger_body(key=key, active=False))
    with api.engine.begin() as db:
        db.execute(
            text(
                "UPDATE trigger_deliveries SET last_error = 'x', next_attempt_at = now() - interval '30 days'"
                " WHERE trigger_delivery_id IN (SELECT min(trigger_delivery_id) FROM trigger_deliveries"
                " WHERE organization_id = :id)"
            ),
            {"id": shop.organization.id},
        )
    after = measured(api.app, OF_WEBHOOKS, "loyalty_webhook")
    assert after["deliveries"] - before["deliveries"] == 3
    assert after["retries"] - before["retries"] == 1
    assert 30 * 86_400 <= after["overdue_seconds"] < 31 * 86_400
    with api.engine.begin() as db:
        db.execute(text("DELETE FROM trigger_deliveries WHERE organization_id = :id"), {"id": shop.organization.id})


def test_metrics_are_served_without_the_database(settings):
    engine = create_engine("postgresql://nobody@127.0.0.1:1/nothing", threads=1)
    reply = Client(create_app(settings, engine), token=None)("GET", "/metrics")
    assert reply.status == 200
    assert b"loyalty_http_requests" in reply.content
    assert b"loyalty_queue" not in reply.content
    assert b"loyalty_webhook" not in reply.content
