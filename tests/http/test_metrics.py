"""Metrics of the queue and of messages to receivers, summed over all organizations."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client import Counter
from sqlalchemy import text

from domain.campaigns.outcomes import RuleError
from handlers import metrics
from handlers.http.app import create_app
from persistence.engine import create_engine
from tests.builders.queue import send
from tests.builders.tracking import Shop, event
from tests.builders.triggers import add_trigger, trigger_body
from tests.http.support import Client

METRICS_OF_QUEUE = ("events", "oldest_seconds", "retries", "dead_letters")
METRICS_OF_WEBHOOKS = ("deliveries", "overdue_seconds", "retries")


def read_metrics(app, names=METRICS_OF_QUEUE, prefix="loyalty_queue") -> dict[str, float]:
    """The values of the metrics with a prefix and these names."""
    reply = Client(app, token=None)("GET", "/metrics")
    assert reply.status == 200
    lines = dict(line.rsplit(" ", 1) for line in reply.content.decode().splitlines() if not line.startswith("#"))
    return {name: float(lines[f"{prefix}_{name}"]) for name in names}


def make_older(shop, column, age, *events):
    """Set a column of queued events to a moment of this age, and count one more attempt."""
    keys = [event["loyaltyEventKey"] for event in events]
    with shop.organization.api.engine.begin() as db:
        db.execute(
            text(
                f"UPDATE queued_events q SET {column} = now() - :age, attempts = attempts + 1 FROM events e"
                " WHERE q.organization_id = e.organization_id AND q.loyalty_event_id = e.loyalty_event_id"
                " AND e.loyalty_event_key = ANY(CAST(:keys AS uuid[]))"
            ),
            {"age": age, "keys": keys},
        )


def test_metrics_report_the_events_retries_and_dead_letters_of_the_queue(api):
    shop, other_shop = Shop(api.organization()), Shop(api.organization())
    metrics_before = read_metrics(api.app)
    old_event, dead_letter, *_ = send(shop, *(event(shop.member()) for _ in range(4)))
    send(other_shop, event(other_shop.member()))
    make_older(shop, "queued_at", timedelta(days=30), old_event)
    make_older(shop, "dead_at", timedelta(0), dead_letter)
    metrics_after = read_metrics(api.app)
    # Five events, of which one is a dead letter; the old one has an attempt.
    assert metrics_after["events"] - metrics_before["events"] == 5 - 1
    assert metrics_after["dead_letters"] - metrics_before["dead_letters"] == 1
    assert metrics_after["retries"] - metrics_before["retries"] == 1
    assert 30 * 86_400 <= metrics_after["oldest_seconds"] < 31 * 86_400
    with api.engine.begin() as db:
        db.execute(
            text("DELETE FROM queued_events WHERE organization_id IN (:a, :b)"),
            {"a": shop.organization.id, "b": other_shop.organization.id},
        )


def test_metrics_report_the_messages_to_active_triggers(api):
    shop, shop_with_inactive_trigger = Shop(api.organization()), Shop(api.organization())
    metrics_before = read_metrics(api.app, METRICS_OF_WEBHOOKS, "loyalty_webhook")
    key = add_trigger(shop_with_inactive_trigger.administration)["triggerKey"]
    add_trigger(shop.administration, eventTypes=["member-generic-event"])
    member, other_member = shop.member(), shop_with_inactive_trigger.member()
    shop.track(*(event(member) for _ in range(3)))
    shop_with_inactive_trigger.track(event(other_member))
    [trigger] = shop_with_inactive_trigger.administration.get("/triggers")["results"]
    shop_with_inactive_trigger.administration.put(
        f"/triggers/{trigger['triggerId']}", trigger_body(key=key, active=False)
    )
    # One of the messages is overdue and has failed.
    with api.engine.begin() as db:
        db.execute(
            text(
                "UPDATE trigger_deliveries SET last_error = 'x', next_attempt_at = now() - interval '30 days'"
                " WHERE trigger_delivery_id IN (SELECT min(trigger_delivery_id) FROM trigger_deliveries"
                " WHERE organization_id = :id)"
            ),
            {"id": shop.organization.id},
        )
    metrics_after = read_metrics(api.app, METRICS_OF_WEBHOOKS, "loyalty_webhook")
    # The message to the inactive trigger does not count.
    assert metrics_after["deliveries"] - metrics_before["deliveries"] == 3
    assert metrics_after["retries"] - metrics_before["retries"] == 1
    assert 30 * 86_400 <= metrics_after["overdue_seconds"] < 31 * 86_400
    with api.engine.begin() as db:
        db.execute(text("DELETE FROM trigger_deliveries WHERE organization_id = :id"), {"id": shop.organization.id})


@pytest.mark.slow
def test_metrics_are_served_without_the_database(settings):
    engine = create_engine("postgresql://nobody@127.0.0.1:1/nothing", threads=1)
    reply = Client(create_app(settings, engine), token=None)("GET", "/metrics")
    assert reply.status == 200
    assert b"loyalty_http_requests" in reply.content
    assert b"loyalty_queue" not in reply.content
    assert b"loyalty_webhook" not in reply.content


def test_errors_of_rules_have_a_maximum_of_labels_in_a_process(monkeypatch):
    assert metrics._MAX_FAILED_RULES == 1000
    monkeypatch.setattr(metrics, "_failed_rules", set())
    monkeypatch.setattr(metrics, "_MAX_FAILED_RULES", 3)
    monkeypatch.setattr(
        metrics, "_rule_errors", Counter("rule_errors", "x", ("organization", "campaign"), registry=None)
    )
    monkeypatch.setattr(
        metrics, "_count_errors", Counter("count_errors", "x", ("organization", "mission"), registry=None)
    )
    for campaign_id in (1, 2, 3, 4, 2):
        metrics.count_error(7, RuleError(campaign_id, None, "x", None))
    metrics.count_error(7, RuleError(None, None, "x", None, mission_id=1))
    for campaign_id in (1, 2):
        metrics.count_error(8, RuleError(campaign_id, None, "x", None))
    assert counts_by_label(metrics._rule_errors) == {
        ("7", "1"): 1,
        ("7", "2"): 2,
        ("7", "3"): 1,
        ("7", "other"): 1,
        ("8", "other"): 2,
    }
    assert counts_by_label(metrics._count_errors) == {("7", "other"): 1}


def counts_by_label(counter) -> dict[tuple[str, ...], float]:
    """The counts of a counter, by the values of its labels."""
    [family] = counter.collect()
    return {tuple(sample.labels.values()): sample.value for sample in family.samples if sample.name.endswith("_total")}
