"""Asynchronous tracking: which events are queued, which are not, and their results."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from handlers.services.events import evaluate_queued
from persistence import queue
from tests.builders.campaigns import mint
from tests.builders.queue import drain, drain_of, outcome, send, waiting
from tests.builders.tracking import GENERIC, WHOLE_DOLLARS, Shop, event, order, order_update, running
from tests.builders.triggers import add_trigger, deliveries


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def test_an_event_is_queued_then_evaluated(shop):
    shop.campaign(running(WHOLE_DOLLARS))
    member = shop.member()
    purchase = order(member, total="12.5", locationCode="centre", tags=["a"])
    [receipt] = send(shop, purchase)
    assert receipt["outcome"] == "queued"
    assert receipt["systemUniqueKey"] == purchase["systemUniqueKey"]
    assert "error" not in receipt
    queued_outcome = outcome(shop, receipt)
    queued_event = queued_outcome["event"]
    assert queued_event["status"] == "pending"
    assert queued_event["evaluationStatus"] == 0
    assert queued_event["location"] is None
    assert "result" not in queued_outcome
    assert shop.balance(member) == 0
    drain(shop)
    final_outcome = outcome(shop, receipt)
    evaluated_event = final_outcome["event"]
    assert evaluated_event["status"] == "success"
    assert evaluated_event["evaluationStatus"] == 1
    assert evaluated_event["location"] == "centre"
    for name in ("loyaltyEventId", "createdAt", "e2eTrackingId", "tags", "externalId"):
        assert evaluated_event[name] == queued_event[name]
    [effect] = final_outcome["result"]["effects"]
    assert (effect["effectId"], effect["status"]) == ("mint-points", "executed")
    assert final_outcome["result"]["loyaltyEventKey"] == receipt["loyaltyEventKey"]
    # A point for each whole unit of 12.5.
    assert shop.balance(member) == 12
    assert [row.external_id for row in shop.rows("purchase_orders")] == [purchase["payload"]["order"]["externalId"]]
    assert waiting(shop) == 0
    shop.check_ledger()


def test_a_step_leaves_expensive_events_for_later(api, shop, monkeypatch):
    monkeypatch.setattr(evaluate_queued, "STEP_SECONDS", 0.0)
    # Evaluate queued events of earlier tests.
    drain(shop)
    shop.campaign(running(mint(3)), eventType=GENERIC)
    member, second_member, other_shop = shop.member(), shop.member(), Shop(api.organization())
    receipts = send(shop, *(event(member) for _ in range(3)), event(second_member))
    [other_receipt] = send(other_shop, event(other_shop.member()))
    worker = drain_of(shop)
    # The time of the step ends with the first event of the campaign; events of other organizations are evaluated.
    assert worker.step()
    assert (waiting(shop), shop.balance(member), shop.balance(second_member)) == (4 - 1, 3, 0)
    assert outcome(other_shop, other_receipt)["event"]["status"] == "success"
    while worker.step():
        pass
    assert (waiting(shop), shop.balance(member), shop.balance(second_member)) == (0, 3 * 3, 3)
    assert {outcome(shop, receipt)["event"]["status"] for receipt in receipts} == {"success"}


@pytest.mark.parametrize("is_one_member", [True, False])
def test_a_step_reads_payloads_up_to_a_number_of_bytes(shop, monkeypatch, is_one_member):
    members = [shop.member()] * 3 if is_one_member else [shop.member() for _ in range(3)]
    results = send(shop, *(event(member, payload={"text": "a" * 100}) for member in members))
    # The first payload is read in any case. After the second one, both have more bytes.
    monkeypatch.setattr(queue, "MAX_BYTES", 150)
    worker, statuses = drain_of(shop), []
    for _ in range(2):
        worker.evaluate_next(shop.organization.id)
        statuses.append([outcome(shop, result)["event"]["status"] for result in results])
    assert statuses == [["success", "success", "pending"], ["success"] * 3]


def test_queued_events_get_the_results_of_synchronous_tracking(shop):
    shop.campaign(running(WHOLE_DOLLARS, mint(("=", "event.payload.order.total * 2"))), pointsMonthlyLimitPerMember=70)

    def events_of(member):
        """Three orders, of which the second is confirmed, returned, and confirmed again, which fails."""
        orders = [
            order(member, total=total, items=[{"productCode": "p", "total": Decimal("1.1")}]) for total in (10, 20, 30)
        ]
        name = orders[1]["payload"]["order"]["externalId"]
        return orders + [order_update(member, name, status) for status in ("confirmed", "returned", "confirmed")]

    def summary(receipt):
        """(status, (status, parameters) of each effect, number of reverted events) of the result of an event."""
        result = outcome(shop, receipt)["result"]
        effects = [(effect["status"], effect["params"]) for effect in result["effects"]]
        return result["status"], effects, len(result.get("reverted", ()))

    queued_member, synchronous_member = shop.member(), shop.member()
    receipts = send(shop, *events_of(queued_member))
    drain(shop)
    queued_summaries = [summary(receipt) for receipt in receipts]
    synchronous_summaries = [summary(result) for result in shop.track(*events_of(synchronous_member))]
    assert queued_summaries == synchronous_summaries
    assert [status for status, _effects, _count in queued_summaries] == ["success"] * 5 + ["failed"]
    # The return, the fifth event, reverts the creation and the confirmation.
    _status, _effects, reverted_count = queued_summaries[4]
    assert reverted_count == 2
    assert shop.balance(queued_member) == shop.balance(synchronous_member)
    shop.check_ledger()


def test_pending_events_are_found_by_their_status(shop):
    member = shop.member()
    [receipt] = send(shop, event(member))
    assert [event["loyaltyEventKey"] for event in shop.events(member, status="pending")] == [receipt["loyaltyEventKey"]]
    page = shop.integration.get(f"/members/{member}/events", status="pending")
    assert page["totalCount"] == 1
    drain(shop)
    assert shop.events(member, status="pending") == []
    assert [event["loyaltyEventKey"] for event in shop.events(member, status="success")] == [receipt["loyaltyEventKey"]]


def test_each_event_that_cannot_be_tracked_is_rejected_and_the_others_are_queued(shop):
    member, inactive_member = shop.member(), shop.member(active=False)
    tracked_event = event(member, tags=["first"])
    shop.track_one(tracked_event)
    event_by_problem = {
        "/problems/unknown-member": event("nobody"),
        "/problems/unknown-event-type": event(member, "no-such-type"),
        "/problems/event-type-not-trackable": event(member, "ledger-transaction-created"),
        "/problems/member-inactive": event(inactive_member),
        "/problems/payload-missing": event(member, "member-payment-confirmed"),
        "/problems/key-reused": {**tracked_event, "tags": ["other"]},
    }
    valid_event = event(member)
    *rejections, receipt = send(shop, *event_by_problem.values(), valid_event)
    assert [rejection["error"]["type"] for rejection in rejections] == list(event_by_problem)
    assert {rejection["outcome"] for rejection in rejections} == {"rejected"}
    assert {rejection["loyaltyEventKey"] for rejection in rejections} == {None}
    assert receipt["outcome"] == "queued"
    assert waiting(shop) == 1
    sponsored_event = event(member, sponsorLoyaltyMemberId="nobody")
    assert send(shop, sponsored_event)[0]["error"]["type"] == "/problems/unknown-member"
    # The key of a rejected event stays free.
    corrected_event = {**event_by_problem["/problems/unknown-event-type"], "eventType": "member-generic-event"}
    assert send(shop, corrected_event)[0]["outcome"] == "queued"


def test_a_repeated_event_has_the_same_receipt_and_is_queued_once(shop):
    member = shop.member()
    repeated_event = event(member, payload={"n": Decimal("1.50")})
    first_receipt, second_receipt = send(shop, repeated_event, repeated_event)
    assert second_receipt == first_receipt
    assert send(shop, repeated_event) == [first_receipt]
    assert waiting(shop) == 1
    # Synchronous tracking of the same event reports that it is queued.
    [result] = shop.track(repeated_event)
    assert (result["status"], result["effects"]) == ("pending", [])
    assert result["loyaltyEventKey"] == first_receipt["loyaltyEventKey"]
    drain(shop)
    assert send(shop, repeated_event) == [first_receipt]
    assert shop.track(repeated_event)[0]["status"] == "success"
    changed_events = {**repeated_event, "description": "other"}, {**repeated_event, "payload": {"n": 2}}
    assert {receipt["error"]["type"] for receipt in send(shop, *changed_events)} == {"/problems/key-reused"}
    assert waiting(shop) == 0
    assert len(shop.events(member)) == 1


def test_the_single_call_returns_the_effects_of_a_queued_event_after_its_evaluation(shop):
    shop.campaign(running(mint(7)), eventType=GENERIC)
    member = shop.member()
    queued_event = event(member)
    send(shop, queued_event)
    # The single call names the member by the id.
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    event_fields = {name: field for name, field in queued_event.items() if name != "loyaltyMemberId"}
    request = {"organizationId": shop.organization.id, "memberId": member_id, **event_fields}
    response = shop.administration.post("/events/track", request, expect=200)
    assert response == {"systemUniqueKey": queued_event["systemUniqueKey"], "effects": []}
    [pending_event] = shop.events(member)
    assert pending_event["status"] == "pending"
    drain(shop)
    response = shop.administration.post("/events/track", request, expect=200)
    assert [effect["status"] for effect in response["effects"]] == ["executed"]
    assert shop.balance(member) == 7


def test_an_event_that_was_tracked_synchronously_is_not_queued(shop):
    repeated_event = event(shop.member())
    track_result = shop.track_one(repeated_event)
    [receipt] = send(shop, repeated_event)
    assert (receipt["outcome"], receipt["loyaltyEventKey"]) == ("queued", track_result["loyaltyEventKey"])
    assert waiting(shop) == 0


def test_a_captured_event_cannot_be_queued_under_its_key(shop):
    captured_event = event(shop.member())
    shop.track_one(captured_event, executionMode="captureOnly")
    assert send(shop, captured_event)[0]["error"]["type"] == "/problems/key-reused"


def test_an_event_that_failed_before_its_order_was_created_can_be_queued_again(shop):
    member = shop.member()
    confirmation = order_update(member, "o-1", "confirmed")
    [early_receipt] = send(shop, confirmation)
    drain(shop)
    assert outcome(shop, early_receipt)["result"]["error"]["type"] == "/problems/unknown-order"
    creation_receipt, second_receipt, third_receipt = send(
        shop, order(member, total=10, external_id="o-1"), confirmation, confirmation
    )
    assert (creation_receipt["outcome"], second_receipt["outcome"]) == ("queued", "queued")
    assert second_receipt == third_receipt == early_receipt
    assert outcome(shop, early_receipt)["event"]["status"] == "pending"
    assert waiting(shop) == 2
    drain(shop)
    assert outcome(shop, early_receipt)["result"]["status"] == "success"
    assert [row.status for row in shop.rows("purchase_orders")] == ["confirmed"]
    assert send(shop, confirmation) == [early_receipt]
    assert waiting(shop) == 0


def test_transactions_have_other_keys_than_requests_that_used_the_key_of_a_queued_event(shop):
    shop.campaign(running(mint(7)), eventType="member-purchase-order-created")
    member = shop.member()
    receipts = send(shop, order(member, total=10, external_id="o-1"))
    points = shop.use_transaction_keys(member, receipts[0]["loyaltyEventKey"])
    drain(shop)
    assert shop.balance(member) == points + 7
    receipts += send(shop, order_update(member, "o-1", "cancelled"))
    points += shop.use_transaction_keys(member, receipts[1]["loyaltyEventKey"])
    drain(shop)
    assert [outcome(shop, receipt)["event"]["status"] for receipt in receipts] == ["success", "success"]
    assert shop.balance(member) == points
    shop.check_ledger()


def test_transactions_have_other_keys_than_requests_that_used_the_key_of_an_early_event(shop):
    shop.campaign(running(mint(7)), eventType="member-purchase-order-confirmed")
    member = shop.member()
    confirmation = order_update(member, "o-1", "confirmed")
    [early_result] = shop.track(confirmation)
    points = shop.use_transaction_keys(member, early_result["loyaltyEventKey"])
    shop.track_one(order(member, total=10, external_id="o-1"))
    assert shop.track_one(confirmation)["loyaltyEventKey"] == early_result["loyaltyEventKey"]
    assert shop.balance(member) == points + 7


def test_an_event_that_is_refused_is_not_retried(shop):
    member = shop.member()
    [receipt] = send(shop, order_update(member, "no-such-order", "confirmed"))
    drain(shop)
    event_and_result = outcome(shop, receipt)
    refused_event, result = event_and_result["event"], event_and_result["result"]
    # The evaluation status 2 is failed.
    assert (refused_event["status"], refused_event["evaluationStatus"]) == ("failed", 2)
    assert refused_event["lastError"]["type"] == "/problems/unknown-order"
    assert result["error"]["type"] == "/problems/unknown-order"
    assert waiting(shop) == 0


def test_queued_events_of_deactivated_members_and_event_types_fail(shop):
    deactivated_member, active_member = shop.member(), shop.member()
    shop.administration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup", "schemaType": "custom"})
    receipts = send(shop, event(deactivated_member), event(active_member, "cup"), event(active_member))
    shop.integration.patch(f"/members/{deactivated_member}", {"active": False})
    shop.integration.patch("/custom-event-types/cup", {"active": False})
    drain(shop)
    results = [outcome(shop, receipt)["result"] for receipt in receipts]
    assert [result["status"] for result in results] == ["failed", "failed", "success"]
    assert results[0]["error"]["type"] == "/problems/member-inactive"
    assert results[1]["error"]["type"] == "/problems/unknown-event-type"
    assert waiting(shop) == 0


def test_a_daily_limit_counts_queued_events_on_their_event_date(shop):
    shop.campaign(running(mint(1)), limitRules=[{"scope": "member", "type": "points", "period": "daily", "limit": 1}])
    member = shop.member()
    # The third event is on the day of the first.
    past_events = [event(member, externalEventDate=f"2026-01-0{day}T10:00:00Z") for day in (1, 2, 1)]
    receipts = send(shop, *past_events)
    drain(shop)
    statuses = [outcome(shop, receipt)["result"]["effects"][0]["status"] for receipt in receipts]
    assert statuses == ["executed", "executed", "skipped"]


def test_the_sponsor_of_a_queued_event_is_rewarded(shop):
    shop.campaign(running(mint(5, recipient="sponsor")))
    member, sponsor = shop.member(), shop.member()
    send(shop, event(member, sponsorLoyaltyMemberId=sponsor))
    drain(shop)
    assert (shop.balance(member), shop.balance(sponsor)) == (0, 5)


def test_a_queued_event_cannot_be_cancelled_before_its_evaluation(shop):
    [receipt] = send(shop, event(shop.member()))
    problem = shop.integration.post(f"/events/{receipt['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-not-cancellable"
    drain(shop)
    shop.integration.post(f"/events/{receipt['loyaltyEventKey']}/cancel", {}, expect=200)


@pytest.mark.parametrize("count", [0, 501])
def test_a_request_has_1_to_500_events(shop, count):
    member = shop.member()
    body = {"events": [event(member) for _ in range(count)]}
    problem = shop.integration.post("/events/track-async", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/events"]


@pytest.mark.parametrize("field", [{"campaignKeys": [str(uuid.uuid4())]}, {"executionMode": "full"}, {"dryRun": True}])
def test_a_request_with_other_fields_than_events_is_refused(shop, field):
    body = {"events": [event(shop.member())], **field}
    problem = shop.integration.post("/events/track-async", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [f"/{name}" for name in field]
    assert waiting(shop) == 0


def test_a_malformed_request_queues_nothing(shop):
    member = shop.member()
    body = {"events": [event(member), {**event(member), "externalEventDate": "2026-02-30T10:00:00Z"}]}
    problem = shop.integration.post("/events/track-async", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/events/1/externalEventDate"]
    assert waiting(shop) == 0


def test_triggers_report_the_result_of_each_event_once(shop):
    shop.campaign(running(WHOLE_DOLLARS))
    trigger = add_trigger(shop.administration, "AsyncTrackWebhook")
    member = shop.member()
    receipts = send(shop, order(member, total=7), order_update(member, "no-such-order", "confirmed"), event("nobody"))
    assert deliveries(shop.administration, trigger) == []
    drain(shop)
    messages = [delivery["payload"]["data"] for delivery in deliveries(shop.administration, trigger)]
    # The third event was rejected, not queued: there is no member with this id.
    results_of_queued_events = [outcome(shop, receipt)["result"] for receipt in receipts[:2]]
    assert [message["result"] for message in messages] == results_of_queued_events
    assert {message["loyaltyMemberId"] for message in messages} == {member}
    # An event that is tracked directly is not reported.
    shop.track_one(order(member, total=5))
    drain(shop)
    assert len(deliveries(shop.administration, trigger)) == 2
