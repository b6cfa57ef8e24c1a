"""Asynchronous tracking: which events are queued, which are not, and their results."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from handlers.services.events import evaluate_queued
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
    purchase = order(member, "12.5", locationCode="centre", tags=["a"])
    [receipt] = send(shop, purchase)
    assert receipt["outcome"] == "queued"
    assert receipt["systemUniqueKey"] == purchase["systemUniqueKey"]
    assert "error" not in receipt
    before = outcome(shop, receipt)
    assert before["event"]["status"] == "pending"
    assert before["event"]["evaluationStatus"] == 0
    assert before["event"]["location"] is None
    assert "result" not in before
    assert shop.balance(member) == 0
    drain(shop)
    after = outcome(shop, receipt)
    assert after["event"]["status"] == "success"
    assert after["event"]["evaluationStatus"] == 1
    assert after["event"]["location"] == "centre"
    for name in ("loyaltyEventId", "createdAt", "e2eTrackingId", "tags", "externalId"):
        assert after["event"][name] == before["event"][name]
    [effect] = after["result"]["effects"]
    assert (effect["effectId"], effect["status"]) == ("mint-points", "executed")
    assert after["result"]["loyaltyEventKey"] == receipt["loyaltyEventKey"]
    assert shop.balance(member) == 12
    assert [row.external_id for row in shop.rows("purchase_orders")] == [purchase["payload"]["order"]["externalId"]]
    assert waiting(shop) == 0
    shop.check_ledger()


def test_a_step_leaves_expensive_events_for_later(api, shop, monkeypatch):
    monkeypatch.setattr(evaluate_queued, "STEP_SECONDS", 0.0)
    drain(shop)
    shop.campaign(running(mint(3)), eventType=GENERIC)
    member, second_member, other_shop = shop.member(), shop.member(), Shop(api.organization())
    receipts = send(shop, *(event(member) for _ in range(3)), event(second_member))
    [other_receipt] = send(other_shop, event(other_shop.member()))
    worker = drain_of(shop)
    # The time of the step ends with the first event of the campaign; events of other organizations are evaluated.
    assert worker.step()
    assert (waiting(shop), shop.balance(member), shop.balance(second_member)) == (3, 3, 0)
    assert outcome(other_shop, other_receipt)["event"]["status"] == "success"
    while worker.step():
        pass
    assert (waiting(shop), shop.balance(member), shop.balance(second_member)) == (0, 9, 3)
    assert {outcome(shop, receipt)["event"]["status"] for receipt in receipts} == {"success"}


def test_queued_events_get_the_results_of_synchronous_tracking(shop):
    shop.campaign(running(WHOLE_DOLLARS, mint(("=", "event.payload.order.total * 2"))), pointsMonthlyLimitPerMember=70)
    members = [shop.member(), shop.member()]
    summaries = []
    for member, track in zip(members, (send, lambda shop, *events: shop.track(*events)), strict=True):
        events = [order(member, total, items=[{"productCode": "p", "total": Decimal("1.1")}]) for total in (10, 20, 30)]
        name = events[1]["payload"]["order"]["externalId"]
        events += [order_update(member, name, status) for status in ("confirmed", "returned", "confirmed")]
        entries = track(shop, *events)
        drain(shop)
        results = [outcome(shop, entry)["result"] for entry in entries]
        summaries.append(
            [
                (r["status"], [(e["status"], e["params"]) for e in r["effects"]], len(r.get("reverted", ())))
                for r in results
            ]
        )
    assert summaries[0] == summaries[1]
    assert [summary[0] for summary in summaries[0]] == ["success"] * 5 + ["failed"]
    # The return, the fifth event, reverts the creation and the confirmation.
    assert summaries[0][4][2] == 2
    assert shop.balance(members[0]) == shop.balance(members[1])
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
    results = send(shop, *event_by_problem.values(), valid_event)
    assert [result["error"]["type"] for result in results[:-1]] == list(event_by_problem)
    assert {result["outcome"] for result in results[:-1]} == {"rejected"}
    assert {result["loyaltyEventKey"] for result in results[:-1]} == {None}
    assert results[-1]["outcome"] == "queued"
    assert waiting(shop) == 1
    sponsored_event = event(member, sponsorLoyaltyMemberId="nobody")
    assert send(shop, sponsored_event)[0]["error"]["type"] == "/problems/unknown-member"
    # The key of a rejected event stays free.
    corrected_event = {**event_by_problem["/problems/unknown-event-type"], "eventType": "member-generic-event"}
    assert send(shop, corrected_event)[0]["outcome"] == "queued"


def test_a_repeated_event_has_the_same_receipt_and_is_queued_once(shop):
    member = shop.member()
    repeated_event = event(member, payload={"n": Decimal("1.50")})
    first, second = send(shop, repeated_event, repeated_event)
    assert first == second
    [third] = send(shop, repeated_event)
    assert third == first
    assert waiting(shop) == 1
    # Synchronous tracking of the same event reports that it is queued.
    [result] = shop.track(repeated_event)
    assert (result["status"], result["loyaltyEventKey"], result["effects"]) == ("pending", first["loyaltyEventKey"], [])
    drain(shop)
    assert send(shop, repeated_event) == [first]
    assert shop.track(repeated_event)[0]["status"] == "success"
    changed_events = {**repeated_event, "description": "other"}, {**repeated_event, "payload": {"n": 2}}
    assert {receipt["error"]["type"] for receipt in send(shop, *changed_events)} == {"/problems/key-reused"}
    assert waiting(shop) == 0
    assert len(shop.events(member)) == 1


def test_the_single_call_returns_the_effects_of_a_queued_event_after_its_evaluation(shop):
    shop.campaign(running(mint(7)), eventType=GENERIC)
    queued_event = event(shop.member())
    send(shop, queued_event)
    loyalty_member_id = queued_event["loyaltyMemberId"]
    member_id = shop.integration.get(f"/members/{loyalty_member_id}")["loyaltyMember"]["memberId"]
    more = {name: value for name, value in queued_event.items() if name != "loyaltyMemberId"}
    request = {"organizationId": shop.organization.id, "memberId": member_id, **more}
    response = shop.administration.post("/events/track", request, expect=200)
    assert response == {"systemUniqueKey": queued_event["systemUniqueKey"], "effects": []}
    [pending_event] = shop.events(loyalty_member_id)
    assert pending_event["status"] == "pending"
    drain(shop)
    response = shop.administration.post("/events/track", request, expect=200)
    assert [effect["status"] for effect in response["effects"]] == ["executed"]
    assert shop.balance(loyalty_member_id) == 7


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
    [creation, second, third] = send(shop, order(member, 10, external_id="o-1"), confirmation, confirmation)
    assert {creation["outcome"], second["outcome"]} == {"queued"}
    assert second == third == early_receipt
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
    receipts = send(shop, order(member, 10, external_id="o-1"))
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
    shop.track_one(order(member, 10, external_id="o-1"))
    assert shop.track_one(confirmation)["loyaltyEventKey"] == early_result["loyaltyEventKey"]
    assert shop.balance(member) == points + 7


def test_an_event_that_is_refused_is_not_retried(shop):
    member = shop.member()
    [receipt] = send(shop, order_update(member, "no-such-order", "confirmed"))
    drain(shop)
    after = outcome(shop, receipt)
    assert (after["event"]["status"], after["event"]["evaluationStatus"]) == ("failed", 2)
    assert after["event"]["lastError"]["type"] == after["result"]["error"]["type"] == "/problems/unknown-order"
    assert waiting(shop) == 0


def test_queued_events_of_deactivated_members_and_event_types_fail(shop):
    member, other = shop.member(), shop.member()
    shop.administration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup", "schemaType": "custom"})
    receipts = send(shop, event(member), event(other, "cup"), event(other))
    shop.integration.patch(f"/members/{member}", {"active": False})
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
    assert problem["errors"][0]["pointer"] == "/events"


@pytest.mark.parametrize("more", [{"campaignKeys": [str(uuid.uuid4())]}, {"executionMode": "full"}, {"dryRun": True}])
def test_a_request_with_other_fields_than_events_is_refused(shop, more):
    body = {"events": [event(shop.member())], **more}
    problem = shop.integration.post("/events/track-async", body, expect=400)
    assert problem["type"] == "/problems/invalid-request"
    assert waiting(shop) == 0


def test_a_malformed_request_queues_nothing(shop):
    member = shop.member()
    body = {"events": [event(member), {**event(member), "externalEventDate": "2026-02-30T10:00:00Z"}]}
    problem = shop.integration.post("/events/track-async", body, expect=400)
    assert problem["errors"][0]["pointer"].startswith("/events/1")
    assert waiting(shop) == 0


def test_triggers_report_the_result_of_each_event_once(shop):
    shop.campaign(running(WHOLE_DOLLARS))
    trigger = add_trigger(shop.administration, "AsyncTrackWebhook")
    member = shop.member()
    receipts = send(shop, order(member, 7), order_update(member, "no-such-order", "confirmed"), event("nobody"))
    assert deliveries(shop.administration, trigger) == []
    drain(shop)
    messages = [delivery["payload"]["data"] for delivery in deliveries(shop.administration, trigger)]
    # The third event was rejected, not queued: there is no member with this id.
    assert [message["result"] for message in messages] == [outcome(shop, receipt)["result"] for receipt in receipts[:2]]
    assert {message["loyaltyMemberId"] for message in messages} == {member}
    # An event that is tracked directly is not reported.
    shop.track_one(order(member, 5))
    drain(shop)
    assert len(deliveries(shop.administration, trigger)) == 2
