"""Events that came too early, and are sent again by trackEvents and trackEventsAsync at the same time."""

from __future__ import annotations

from persistence import events
from tests.builders import queue
from tests.builders.campaigns import mint
from tests.builders.tracking import ORDER_CREATED, WHOLE_DOLLARS, order, order_update, running
from tests.concurrency.simultaneous import run_after

CONFIRMED = "member-purchase-order-confirmed"


def queue_while_it_is_tracked(shop, monkeypatch, early_event):
    """Queue the event again, while a call tracks it; let a worker evaluate what is queued, and return the event."""
    with monkeypatch.context() as patch:
        run_after(patch, events, "find_earlier_events", lambda: shop.track_one(early_event))
        [outcome] = queue.send(shop, early_event)
    assert queue.waiting(shop) == 0
    queue.drain(shop)
    return queue.outcome(shop, outcome)["event"]


def test_a_confirmation_that_is_queued_while_it_is_tracked_counts_once(shop, monkeypatch):
    shop.campaign(running(mint(5)), eventType=CONFIRMED)
    ben = shop.member()
    confirmation = order_update(ben, "o", "confirmed")
    assert shop.expect_refusal(confirmation) == "/problems/unknown-order"
    shop.track_one(order(ben, 10, external_id="o"))
    assert queue_while_it_is_tracked(shop, monkeypatch, confirmation)["status"] == "success"
    assert shop.balance(ben) == 5
    shop.track_one(order_update(ben, "o", "returned"))
    assert shop.balance(ben) == 0


def test_a_return_that_is_queued_while_it_is_tracked_counts_once(shop, monkeypatch):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    ben = shop.member()
    partial_return = order_update(ben, "o", "partially-returned", total=2)
    assert shop.expect_refusal(partial_return) == "/problems/unknown-order"
    shop.track_one(order(ben, 10, external_id="o"))
    shop.track_one(order_update(ben, "o", "confirmed"))
    assert queue_while_it_is_tracked(shop, monkeypatch, partial_return)["status"] == "success"
    assert shop.balance(ben) == 10 - 2


def test_an_event_that_came_too_early_is_queued_again(shop):
    shop.campaign(running(mint(5)), eventType=CONFIRMED)
    ben = shop.member()
    confirmation = order_update(ben, "o", "confirmed")
    assert shop.expect_refusal(confirmation) == "/problems/unknown-order"
    shop.track_one(order(ben, 10, external_id="o"))
    [outcome] = queue.send(shop, confirmation)
    assert queue.waiting(shop) == 1
    queue.drain(shop)
    assert queue.outcome(shop, outcome)["event"]["status"] == "success"
    assert shop.balance(ben) == 5
