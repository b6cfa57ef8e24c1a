"""Faults of the system: retries with increasing waits, the dead-letter list, and requeueing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from tests.builders.campaigns import mint
from tests.builders.queue import drain, let_all_be_due, outcome, send, waiting
from tests.builders.tracking import GENERIC, Shop, event, running
from tests.concurrency.simultaneous import run_simultaneously

POISON = {"poison": True}


@pytest.fixture
def shop(api):
    """A shop that gives a point for each generic event."""
    shop = Shop(api.organization())
    shop.campaign(running(mint(1)), eventType=GENERIC)
    return shop


@pytest.fixture
def cure(shop):
    """Let the database refuse to finish events with the payload `POISON`; calling the fixture ends this."""
    name = f"poison_{shop.organization.id}"
    with shop.organization.api.engine.begin() as db:
        db.execute(
            text(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.status = 'success'"
                " AND new.payload->>'poison' = 'true' THEN RAISE division_by_zero; END IF; RETURN new; END $$"
            )
        )
        db.execute(
            text(
                f"CREATE TRIGGER {name} BEFORE UPDATE ON events FOR EACH ROW"
                f" WHEN (new.organization_id = {shop.organization.id}) EXECUTE FUNCTION {name}()"
            )
        )

    def cure():
        with shop.organization.api.engine.begin() as db:
            db.execute(text(f"DROP FUNCTION IF EXISTS {name} CASCADE"))

    yield cure
    cure()


def kill(shop, cure, *events):
    """Turn poisonous events into dead letters; return their outcomes. The fixture `cure` is only needed to exist."""
    outcomes = send(shop, *events)
    drain(shop, queue_attempts=1)
    return outcomes


def dead_letters(shop, **query):
    """A page of the dead-letter list."""
    return shop.administration.get("/events/dead-letters", **query)


def test_a_poisonous_event_blocks_only_later_events_of_its_member(shop, cure):
    ana, bob, cid = shop.member(), shop.member(), shop.member()
    queued_events = send(shop, event(ana), event(bob), event(bob, payload=POISON), event(bob), event(cid), event(cid))
    drain(shop, queue_retry_ms=600_000)
    statuses = [outcome(shop, queued_event)["event"]["status"] for queued_event in queued_events]
    assert statuses == ["success", "success", "running", "pending", "success", "success"]
    # A point for each event with the status success.
    assert (shop.balance(ana), shop.balance(bob), shop.balance(cid)) == (1, 1, 2)
    poisonous_event = queued_events[2]
    running_event = outcome(shop, poisonous_event)
    assert running_event["event"]["lastError"]["type"] == "/problems/evaluation-failed"
    assert running_event["event"]["lastError"]["detail"] == "The evaluation failed: DataError 22012."
    assert running_event["event"]["evaluationStatus"] == 0
    assert "result" not in running_event
    [listed_event] = shop.events(bob, status="running")
    assert listed_event["loyaltyEventKey"] == poisonous_event["loyaltyEventKey"]
    cure()
    drain(shop)
    # The poisonous event is not due yet, and Bob's last event waits for it.
    assert waiting(shop) == 2
    let_all_be_due(shop)
    drain(shop)
    assert waiting(shop) == 0
    assert shop.balance(bob) == 3
    assert outcome(shop, poisonous_event)["event"]["status"] == "success"
    assert "lastError" not in outcome(shop, poisonous_event)["event"]
    shop.check_ledger()


def test_waits_double_and_an_event_is_a_dead_letter_after_its_last_failed_attempt(shop, cure):
    member = shop.member()
    poisonous_event, blocked_event = send(shop, event(member, payload=POISON), event(member))
    waits = []
    for attempt in range(1, 4):
        attempted_at = datetime.now(UTC)
        drain(shop, queue_attempts=4, queue_retry_ms=10_000)
        queued_event = shop.rows("queued_events", "attempts, next_attempt_at, dead_at", order="place")[0]
        assert (queued_event.attempts, queued_event.dead_at) == (attempt, None)
        waits.append(queued_event.next_attempt_at - attempted_at)
        let_all_be_due(shop)
    # Waits are shortened at random by up to a half. The attempt itself takes at most 5 seconds.
    for wait, full_seconds in zip(waits, (10, 20, 40), strict=True):
        assert timedelta(seconds=full_seconds / 2) <= wait <= timedelta(seconds=full_seconds + 5)
    assert outcome(shop, blocked_event)["event"]["status"] == "pending"
    drain(shop, queue_attempts=4)
    dead_event = outcome(shop, poisonous_event)
    assert (dead_event["event"]["status"], dead_event["event"]["evaluationStatus"]) == ("failed", 2)
    assert dead_event["result"]["error"]["type"] == "/problems/evaluation-failed"
    assert dead_event["event"]["lastError"]["type"] == "/problems/evaluation-failed"
    # The dead letter no longer blocks it.
    assert outcome(shop, blocked_event)["event"]["status"] == "success"
    assert shop.balance(member) == 1
    [letter] = dead_letters(shop)["results"]
    assert letter["event"] == dead_event["event"]
    assert letter["attempts"] == 4
    assert letter["queuedAt"] <= letter["deadAt"]


def test_concurrent_calls_requeue_a_dead_event_once(shop, cure):
    member = shop.member()
    [dead_event, _] = kill(shop, cure, event(member, payload=POISON), event(member))
    cure()
    drain(shop)
    assert outcome(shop, dead_event)["event"]["status"] == "failed"
    path = f"/events/{dead_event['loyaltyEventKey']}/requeue"
    replies = run_simultaneously([lambda: shop.administration.request("POST", path) for _ in range(4)])
    assert sorted(reply.status for reply in replies) == [202, 409, 409, 409]
    [requeued_event] = [reply.json["event"] for reply in replies if reply.status == 202]
    assert (requeued_event["status"], requeued_event["evaluationStatus"]) == ("pending", 0)
    assert "lastError" not in requeued_event
    assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/event-not-dead"}
    assert dead_letters(shop)["totalCount"] == 0
    drain(shop)
    assert outcome(shop, dead_event)["event"]["status"] == "success"
    # One point for each event; the second event was evaluated when the first one had become a dead letter.
    assert shop.balance(member) == 2
    assert waiting(shop) == 0


def test_an_event_that_is_not_dead_cannot_be_requeued(shop):
    member = shop.member()
    tracked_event = shop.track_one(event(member))
    [pending_event] = send(shop, event(member))
    for candidate in (tracked_event, pending_event):
        problem = shop.administration.post(f"/events/{candidate['loyaltyEventKey']}/requeue", expect=409)
        assert problem["type"] == "/problems/event-not-dead"


def test_a_requeued_event_gets_the_maximum_number_of_attempts(shop, cure):
    [dead_event] = kill(shop, cure, event(shop.member(), payload=POISON))
    shop.administration.post(f"/events/{dead_event['loyaltyEventKey']}/requeue", expect=202)
    drain(shop, queue_attempts=2)
    assert outcome(shop, dead_event)["event"]["status"] == "running"
    let_all_be_due(shop)
    drain(shop, queue_attempts=2)
    assert dead_letters(shop)["results"][0]["attempts"] == 2


def test_repeating_the_request_does_not_revive_a_dead_event(shop, cure):
    poisonous_event = event(shop.member(), payload=POISON)
    [dead_event] = kill(shop, cure, poisonous_event)
    [rejection] = send(shop, poisonous_event)
    assert (rejection["outcome"], rejection["loyaltyEventKey"]) == ("rejected", dead_event["loyaltyEventKey"])
    assert rejection["error"]["type"] == "/problems/evaluation-failed"
    [result] = shop.track(poisonous_event)
    assert result["error"]["type"] == "/problems/evaluation-failed"
    assert dead_letters(shop)["totalCount"] == 1


def test_the_dead_letter_list_can_be_paged_ordered_and_filtered(shop, cure):
    member = shop.member()
    shop.administration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup", "schemaType": "custom"})
    event_types = ["cup", "member-generic-event", "cup"]
    keys = [
        dead_event["loyaltyEventKey"]
        for dead_event in kill(shop, cure, *(event(member, event_type, payload=POISON) for event_type in event_types))
    ]

    def count_and_keys(**query):
        """The total count, and the keys of the events on the page."""
        page = dead_letters(shop, **query)
        return page["totalCount"], [result["event"]["loyaltyEventKey"] for result in page["results"]]

    assert count_and_keys() == (3, keys[::-1])
    assert count_and_keys(order="loyaltyEventId,asc") == (3, keys)
    assert count_and_keys(order="deadAt") == (3, keys)
    assert count_and_keys(order="createdAt,asc", limit=2, page=1) == (3, keys[2:])
    assert count_and_keys(order="attempts,desc") == (3, keys[::-1])
    assert count_and_keys(order="eventType") == (3, [keys[0], keys[2], keys[1]])
    assert count_and_keys(eventType="cup") == (2, [keys[2], keys[0]])
    assert count_and_keys(eventType="cup", page=1, limit=1) == (2, [keys[0]])
    assert count_and_keys(page=7) == (3, [])
    problem = shop.administration.get("/events/dead-letters", order="place", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["order"]
