"""The id of a payment is unique among all transactions, whether a partner reports it or a client tracks it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import mint
from tests.builders.partners import PAYMENT, Partner, new_id
from tests.builders.queue import drain, outcome, send
from tests.builders.tracking import Shop, event, running
from tests.concurrency.simultaneous import run_simultaneously

EXISTS = "/problems/payment-exists"


@pytest.fixture
def shop(organization):
    """A shop whose payments give a point for each unit."""
    shop = Shop(organization)
    shop.campaign(running(mint(("=", "payment.total"))), eventType=PAYMENT)
    return shop


@pytest.fixture
def member(shop):
    return shop.member()


def payment_event(member, payment_id, total=10):
    """An event about a payment, by default of 10."""
    return event(member, PAYMENT, payload={"payment": {"paymentId": payment_id, "total": Decimal(total)}})


def test_a_payment_counts_once_whether_tracked_or_reported(shop, member):
    partner, tracked_id, reported_id = Partner.of(shop), new_id(), new_id()
    tracked_payment = payment_event(member, tracked_id, total=10)
    result = shop.track_one(tracked_payment)
    assert partner.expect_refusal(member, 10, paymentId=tracked_id) == (409, EXISTS)
    partner.pay(member, 5, paymentId=reported_id)
    assert shop.expect_refusal(payment_event(member, reported_id)) == EXISTS
    # Only the first event of one request is tracked; the key of the refused one stays free.
    shared_id = new_id()
    first_event, second_event = payment_event(member, shared_id, total=2), payment_event(member, shared_id, total=2)
    assert [entry["status"] for entry in shop.track(first_event, second_event)] == ["success", "failed"]
    assert shop.balance(member) == 10 + 5 + 2
    second_event["payload"]["payment"]["paymentId"] = new_id()
    shop.track_one(second_event)
    assert shop.balance(member) == 10 + 5 + 2 + 2
    # The same request again is the same payment.
    assert shop.track_one(tracked_payment) == result
    assert shop.balance(member) == 10 + 5 + 2 + 2


def test_captured_and_queued_payments_claim_their_id_and_dry_runs_do_not(shop, member):
    dry_id, captured_id, queued_id = new_id(), new_id(), new_id()
    for _ in range(2):
        dry_result = shop.track_one(payment_event(member, dry_id), executionMode="dryRun")
        assert dry_result["effects"][0]["status"] == "evaluated"
    key = shop.track_one(payment_event(member, captured_id), executionMode="captureOnly")["loyaltyEventKey"]
    [receipt] = send(shop, payment_event(member, queued_id))
    for payment_id in (captured_id, queued_id):
        assert shop.expect_refusal(payment_event(member, payment_id)) == EXISTS
        assert shop.expect_refusal(payment_event(member, payment_id), executionMode="dryRun") == EXISTS
        [rejection] = send(shop, payment_event(member, payment_id))
        assert (rejection["outcome"], rejection["error"]["type"]) == ("rejected", EXISTS)
    drain(shop)
    shop.administration.post(f"/events/{key}/evaluate", expect=200)
    assert receipt["outcome"] == "queued"
    # The captured payment and the queued one.
    assert shop.balance(member) == 10 + 10


def test_a_queued_payment_that_fails_releases_its_id(shop, member):
    first_id, second_id = new_id(), new_id()
    receipts = send(shop, payment_event(member, first_id), payment_event(member, second_id))
    shop.integration.patch(f"/members/{member}", {"active": False})
    drain(shop)
    for receipt in receipts:
        assert outcome(shop, receipt)["result"]["error"]["type"] == "/problems/member-inactive"
    shop.integration.patch(f"/members/{member}", {"active": True})
    shop.track_one(payment_event(member, first_id, total=10))
    Partner.of(shop).pay(member, 5, paymentId=second_id)
    assert shop.balance(member) == 10 + 5
    assert shop.expect_refusal(payment_event(member, first_id)) == EXISTS


def test_concurrent_payments_with_one_id_count_once(shop):
    members, payment_id = [shop.member() for _ in range(4)], new_id()
    results = run_simultaneously(
        [lambda member=member: shop.track(payment_event(member, payment_id))[0] for member in members]
    )
    assert sorted(result["status"] for result in results) == ["failed"] * 3 + ["success"]
    assert sum(shop.balance(member) for member in members) == 10
