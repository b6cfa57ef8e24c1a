"""Cancellations and returns by many threads at the same time: the effects of each event are reverted once."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from persistence import orders
from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import GENERIC, ORDER_CREATED, WHOLE_DOLLARS, event, order, order_update, running
from tests.concurrency.simultaneous import outcomes, run_after, run_simultaneously


def cancel(shop, tracked_event):
    """Cancel an event by its result; return the reply, whatever its status."""
    return shop.integration.request("POST", f"/events/{tracked_event['loyaltyEventKey']}/cancel", {})


def test_only_one_of_16_cancellations_of_an_event_succeeds(shop):
    shop.campaign(
        running(mint(5), mint(2, recipient="sponsor")),
        eventType=GENERIC,
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 1000}],
    )
    member, sponsor = shop.member(), shop.member()
    for _ in range(4):
        tracked_event = shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
        replies = run_simultaneously([partial(cancel, shop, tracked_event)] * 16)
        assert Counter(reply.status for reply in replies) == {200: 1, 409: 15}
        assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/event-cancelled"}
        assert (shop.balance(member), shop.balance(sponsor)) == (0, 0)
    assert len([record for record in shop.events(member) if record["reason"] == "cancelled"]) == 4
    assert {row.used for row in shop.rows("campaign_limit_counters")} == {0}


def test_points_are_either_burned_or_reverted_by_the_cancellation(shop):
    shop.campaign(running(mint(10)), eventType=GENERIC)
    member = shop.member()
    path = f"/members/by-loyalty-member-id/{member}/burn"
    for _ in range(6):
        tracked_event = shop.track_one(event(member))
        burns = [partial(shop.administration.request, "POST", path, {"amount": 3})] * 6
        *replies, cancellation = run_simultaneously([*burns, partial(cancel, shop, tracked_event)])
        assert {reply.status for reply in replies} <= {200, 409}
        burned_points = 3 * sum(reply.status == 200 for reply in replies)
        [transaction] = cancellation.json["results"][0]["ledgerTransactions"]
        # The event minted 10 points.
        assert burned_points + transaction["revertedAmount"] == 10
        assert shop.balance(member) == 0


def test_coupons_are_either_used_or_reverted_by_the_cancellation(shop):
    book = CouponBooks(shop.organization).make(type="codeless")["couponBookKey"]
    shop.campaign(running(effect("assign-coupon", couponBookKey=book, amount=3)), eventType=GENERIC)
    member = shop.member()
    for _ in range(4):
        tracked_event = shop.track_one(event(member))
        uses = [partial(shop.integration.request, "POST", f"/members/{member}/coupon-books/{book}/use", {})] * 4
        *replies, cancellation = run_simultaneously([*uses, partial(cancel, shop, tracked_event)])
        assert cancellation.status == 200
        assert {reply.status for reply in replies} <= {200, 409}
        usage_keys = [reply.json["couponUsage"]["couponUsageKey"] for reply in replies if reply.status == 200]
        # The event assigned three coupons.
        assert len(usage_keys) <= 3
        paths = [f"/members/{member}/coupon-usages/{key}/revert" for key in usage_keys]
        reverts = [partial(shop.integration.post, path, expect=200) for path in paths]
        assert outcomes(reverts) == Counter(done=len(usage_keys))
        assert shop.integration.get(f"/members/{member}/coupons")["results"] == []


def test_an_order_is_returned_once(shop):
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 1000}],
    )
    member = shop.member()
    for number in range(4):
        name = f"o-{number}"
        order_event = shop.track_one(order(member, 20, external_id=name))
        shop.track_one(order_update(member, name, "confirmed"))
        parts = [order_update(member, name, "partially-returned", items=[{"total": 1}]) for _ in range(8)]
        wholes = [order_update(member, name, "returned") for _ in range(4)]
        calls = [partial(shop.track, part) for part in (*parts, *wholes)]
        *outcomes, cancellation = run_simultaneously([*calls, partial(cancel, shop, order_event)])
        order_status = next(row.status for row in shop.rows("purchase_orders") if row.external_id == name)
        # After a cancellation that comes before the returns, the order can no longer be returned.
        whole_returns = sum(result["status"] == "success" for [result] in outcomes[len(parts) :])
        assert (order_status, whole_returns) in {("returned", 1), ("cancelled", 0)}
        failures = {result["error"]["type"] for [result] in outcomes if result["status"] == "failed"}
        assert failures <= {"/problems/order-status"}
        reversals = [result["reverted"] for [result] in outcomes if "reverted" in result]
        if cancellation.status == 200:
            reversals.append(cancellation.json["results"])
        amounts = [
            transaction["revertedAmount"]
            for reverted_events in reversals
            for reverted_event in reverted_events
            for transaction in reverted_event["ledgerTransactions"]
        ]
        # The order of 20 dollars minted 20 points.
        assert sum(amounts) == 20
        assert shop.balance(member) == 0
    assert {row.used for row in shop.rows("campaign_limit_counters")} == {0}


def test_returns_of_orders_of_two_members_who_sponsor_each_other_take_all_points_back(shop):
    ana, ben = shop.member(), shop.member()
    shop.campaign(running(mint(4), mint(2, recipient="sponsor")), eventType=ORDER_CREATED)
    for turn in range(4):
        names = [f"{turn}-{number}" for number in range(16)]
        for number, name in enumerate(names):
            buyer, sponsor = (ana, ben) if number % 2 else (ben, ana)
            order_event = {**order(buyer, 5, external_id=name), "sponsorLoyaltyMemberId": sponsor}
            shop.track_one(order_event)
            shop.track_one(order_update(buyer, name, "confirmed"))
        calls = [
            partial(shop.track_one, order_update(ana if number % 2 else ben, name, "returned"))
            for number, name in enumerate(names)
        ]
        # Raises if a call fails.
        run_simultaneously(calls)
        assert (shop.balance(ana), shop.balance(ben)) == (0, 0)


def test_calls_with_one_external_id_create_one_order(shop):
    members = [shop.integration.get(f"/members/{shop.member()}")["loyaltyMember"]["memberId"] for _ in range(4)]
    shop.campaign(running(mint(5)), eventType=ORDER_CREATED)
    for number in range(4):
        body = {"externalId": f"o-{number}", "type": "dine-in", "total": 5, "status": "confirmed"}
        paths = [f"/members/{member}/purchase-orders" for member in members * 4]
        replies = run_simultaneously([partial(shop.administration.request, "POST", path, body) for path in paths])
        assert Counter(reply.status for reply in replies) == {201: 1, 409: 15}
        assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/order-exists"}
    assert len(shop.rows("purchase_orders")) == 4
    assert len(shop.rows("ledger_transactions")) == 4


@pytest.mark.parametrize("status", ["confirmed", "cancelled"])
def test_a_refused_order_of_a_batch_does_not_change_an_order_that_another_call_creates(shop, monkeypatch, status):
    member = shop.member()
    shop.campaign(running(mint(5)), eventType=ORDER_CREATED)
    body = {"loyaltyMemberId": member, "externalId": "o", "type": "dine-in", "total": 5, "status": status}
    other_order = order(member, 10, external_id="o")
    run_after(monkeypatch, orders, "find_external_ids_in_use", lambda: shop.track_one(other_order))
    [result] = shop.administration.post("/purchase-orders/batch", {"orders": [body]}, expect=200)["results"]
    assert result["error"]["type"] == "/problems/order-exists"
    assert [row.status for row in shop.rows("purchase_orders")] == ["created"]
    assert shop.balance(member) == 5
