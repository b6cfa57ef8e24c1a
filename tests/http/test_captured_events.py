"""Events that are captured first and evaluated on request."""

from __future__ import annotations

import json

import pytest

from tests.builders.campaigns import mint
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.queue import send
from tests.builders.tracking import GENERIC, ORDER_CREATED, WHOLE_DOLLARS, Shop, event, order, order_update, running
from tests.concurrency.simultaneous import run_simultaneously

JANUARY, FEBRUARY = "2026-01-15T12:00:00Z", "2026-02-15T12:00:00Z"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def capture(shop, captured_event):
    """Capture an event; returns its key."""
    [result] = shop.track(captured_event, executionMode="captureOnly")
    assert (result["status"], result["effects"]) == ("success", [])
    return result["loyaltyEventKey"]


def evaluate(shop, loyalty_event_key, *, expect=200):
    """Evaluate the captured event with this key; return the response."""
    return shop.administration.post(f"/events/{loyalty_event_key}/evaluate", expect=expect)


def refusal(shop, loyalty_event_key, *, expect=409):
    """The type of the problem of a refused evaluation, without its prefix."""
    return evaluate(shop, loyalty_event_key, expect=expect)["type"].removeprefix("/problems/")


def test_a_captured_event_is_evaluated_once(shop, member):
    shop.campaign(running(mint(7)), eventType=GENERIC)
    captured_event = event(member)
    key = capture(shop, captured_event)
    assert shop.balance(member) == 0
    response = evaluate(shop, key)
    assert [effect["status"] for effect in response["result"]["effects"]] == ["executed"]
    assert (response["event"]["evaluationStatus"], response["event"]["status"]) == (1, "success")
    assert evaluate(shop, key) == response
    assert shop.integration.get(f"/events/{key}") == response
    assert shop.track_one(captured_event, executionMode="captureOnly") == response["result"]
    assert shop.balance(member) == 7
    assert [loyalty_event["loyaltyEventKey"] for loyalty_event in shop.events(member, eventType=GENERIC)] == [key]
    shop.check_ledger()


def test_effects_execute_although_requests_used_the_keys_of_their_transactions(shop, member):
    shop.campaign(running(mint(7), mint(2)), eventType=GENERIC)
    key = capture(shop, event(member))
    points = shop.use_transaction_keys(member, key)
    assert [effect["status"] for effect in evaluate(shop, key)["result"]["effects"]] == ["executed", "executed"]
    assert shop.balance(member) == points + 7 + 2
    rows = shop.integration.get(f"/members/{member}/timeline", kinds="points")["results"]
    assert [row["points"]["source"] for row in rows] == ["campaign"] * 2 + ["request"] * points
    shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
    assert shop.balance(member) == points
    shop.check_ledger()


def test_concurrent_calls_evaluate_an_event_once(shop, member):
    shop.campaign(running(mint(7)), eventType=GENERIC)
    key = capture(shop, event(member))
    responses = run_simultaneously([lambda: evaluate(shop, key)] * 4)
    assert responses == [responses[0]] * 4
    assert shop.balance(member) == 7


def test_a_late_evaluation_uses_the_current_campaigns_and_counts_in_the_month_of_the_event(shop, member):
    key = capture(shop, event(member, externalEventDate=JANUARY))
    shop.campaign(running(mint(5)), eventType=GENERIC, pointsMonthlyLimitPerMember=5)
    evaluate(shop, key)
    # The limit of January is reached.
    shop.track_one(event(member, externalEventDate=JANUARY))
    assert shop.balance(member) == 5
    shop.track_one(event(member, externalEventDate=FEBRUARY))
    assert shop.balance(member) == 5 + 5


def test_a_captured_order_earns_points_and_can_be_returned(shop, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    key = capture(shop, order(member, 40, external_id="order-1"))
    shop.track_one(order_update(member, "order-1", "confirmed"))
    stored_orders = shop.rows("purchase_orders", "order_id, status, event_ids, updated_at")
    evaluate(shop, key)
    assert shop.rows("purchase_orders", "order_id, status, event_ids, updated_at") == stored_orders
    # A point for each whole dollar.
    assert shop.balance(member) == 40
    shop.track_one(order(member, 10, status="partially-returned", external_id="order-1"))
    assert shop.balance(member) == 40 - 10
    shop.track_one(order_update(member, "order-1", "returned"))
    assert shop.balance(member) == 0
    shop.check_ledger()


def test_an_imported_return_claws_points_back_when_it_is_evaluated(shop, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.track_one(order(member, 40, external_id="order-1"))
    shop.track_one(order_update(member, "order-1", "confirmed"))
    return_in_file = order(member, 10, status="partially-returned", external_id="order-1") | {
        "externalEventDate": JANUARY
    }
    job = Imports(shop.organization).run(json.dumps(return_in_file, default=float), kind="events", file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 1, 1, 0)
    # A point for each whole dollar, since the return is not evaluated yet.
    assert shop.balance(member) == 40
    [imported_return] = [
        loyalty_event
        for loyalty_event in shop.events(member)
        if loyalty_event["eventType"].endswith("partially-returned")
    ]
    result = evaluate(shop, imported_return["loyaltyEventKey"])["result"]
    reversals = [part for reverted_event in result["reverted"] for part in reverted_event["ledgerTransactions"]]
    assert [reversal["revertedAmount"] for reversal in reversals] == [10]
    assert shop.balance(member) == 40 - 10
    shop.check_ledger()


@pytest.mark.parametrize("status", ["cancelled", "returned", "partially-returned"])
def test_the_creation_of_a_cancelled_or_returned_order_cannot_be_evaluated(shop, member, status):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    key = capture(shop, order(member, 40, external_id="order-1"))
    if status != "cancelled":
        shop.track_one(order_update(member, "order-1", "confirmed"))
    shop.track_one(order(member, 10 if status == "partially-returned" else None, status=status, external_id="order-1"))
    # A cancellation or full return of the order also cancels its creation; a partial return does not.
    if status == "partially-returned":
        slug = "event-not-captured"
        detail = "The event cannot be evaluated, because its order order-1 is partially-returned."
    else:
        slug, detail = "event-cancelled", f"The event {key} was cancelled, or its order was undone."
    problem = evaluate(shop, key, expect=409)
    assert (problem["type"], problem["detail"]) == (f"/problems/{slug}", detail)
    assert shop.balance(member) == 0


def test_the_creation_of_an_order_that_an_import_cancelled_cannot_be_evaluated(shop, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    key = capture(shop, order(member, 40, external_id="order-1"))
    cancellation_in_file = {**order_update(member, "order-1", "cancelled"), "externalEventDate": JANUARY}
    job = Imports(shop.organization).run(json.dumps(cancellation_in_file), kind="events", file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 1, 1, 0)
    problem = evaluate(shop, key, expect=409)
    assert (problem["type"], problem["detail"]) == (
        "/problems/event-cancelled",
        "The event cannot be evaluated, because its order order-1 is cancelled.",
    )
    assert shop.balance(member) == 0


def test_the_refusal_to_track_a_captured_event_in_another_mode_names_the_key_of_the_event(shop, member):
    captured_event = event(member)
    key = shop.track_one(captured_event, executionMode="captureOnly")["loyaltyEventKey"]
    [refused_event] = shop.track(captured_event)
    assert refused_event["error"]["type"] == "/problems/key-reused"
    assert refused_event["error"]["detail"].endswith(f"whose event has the loyaltyEventKey {key}.")


def test_events_that_are_not_captured_cannot_be_evaluated(shop, member):
    shop.campaign(running(mint(7)), eventType=GENERIC)
    tracked_key = shop.track_one(event(member))["loyaltyEventKey"]
    [queued_event] = send(shop, event(member))
    [enrolment] = shop.integration.get(f"/members/{member}/events", eventType="member-created")["results"]
    # There is no such order.
    [failed_event] = shop.track(order_update(member, "order-9", "confirmed"))
    for key in (
        tracked_key,
        queued_event["loyaltyEventKey"],
        enrolment["loyaltyEventKey"],
        failed_event["loyaltyEventKey"],
    ):
        assert refusal(shop, key) == "event-not-captured"
    cancelled_key = capture(shop, event(member))
    shop.integration.post(f"/events/{cancelled_key}/cancel", {}, expect=200)
    assert refusal(shop, cancelled_key) == "event-cancelled"
    [cancellation] = [loyalty_event for loyalty_event in shop.events(member) if loyalty_event["reason"] == "cancelled"]
    assert refusal(shop, cancellation["loyaltyEventKey"]) == "event-not-captured"
    assert refusal(shop, "9a1e0c2d-5b7f-4e3a-8c6d-0f1e2d3c4b5a", expect=404) == "not-found"
    assert shop.balance(member) == 7


def test_a_refused_evaluation_changes_nothing_and_can_be_repeated(shop, member):
    shop.campaign(running(mint(7)), eventType=GENERIC)
    key = capture(shop, event(member))
    shop.integration.patch(f"/members/{member}", {"active": False})
    assert refusal(shop, key) == "member-inactive"
    shop.integration.patch(f"/members/{member}", {"active": True})
    assert evaluate(shop, key)["event"]["evaluationStatus"] == 1
    assert shop.balance(member) == 7


def test_events_of_another_organization_are_not_found(shop, member, other_organization):
    key = capture(shop, event(member))
    problem = other_organization.administration.post(f"/events/{key}/evaluate", expect=404)
    assert problem["type"] == "/problems/not-found"
