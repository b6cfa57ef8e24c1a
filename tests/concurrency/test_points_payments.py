"""Points payments that several tills create, capture and refund at the same time."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from handlers.http import dispatch
from handlers.services import configuration
from tests.builders.tracking import key, order
from tests.concurrency.simultaneous import run_after, run_simultaneously, statuses


def allow_payments(shop):
    """Let members pay with points of the default account, at 100 points for a euro."""
    defaults = shop.organization.defaults
    body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    body["redemption"] = {"pointsPerUnit": 100, "currency": "EUR"}
    shop.administration.put(f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}", body)


@pytest.fixture
def member(shop):
    """A member with 500 points on an account with which members can pay."""
    allow_payments(shop)
    member = shop.member()
    shop.give(member, 500)
    return member


def creation(shop, member, *, points=100, request_key=None):
    """A call that creates a payment, by default of 100 points and with an unused key."""
    body = {"points": points, "orderTotal": 50, "systemUniqueKey": request_key or key()}
    return partial(shop.integration.request, "POST", f"/members/{member}/points-payments", body)


def action(shop, payment, name, body=None):
    """A call that captures or refunds a payment."""
    path = f"/points-payments/{payment['pointsPaymentKey']}/{name}"
    return partial(shop.integration.request, "POST", path, body)


def test_a_balance_of_500_points_pays_5_of_20_payments_of_100_points(shop, member):
    replies = run_simultaneously([creation(shop, member) for _ in range(20)])
    assert statuses(replies) == {(201, None): 5, (409, "/problems/insufficient-balance"): 15}
    payments = [reply.json["pointsPayment"] for reply in replies if reply.status == 201]
    run_simultaneously([action(shop, payment, "capture") for payment in payments])
    assert shop.balance(member) == 0
    shop.check_ledger()


def test_20_repetitions_of_a_payment_create_one_hold(shop, member):
    replies = run_simultaneously([creation(shop, member, request_key="checkout-1")] * 20)
    assert statuses(replies) == {(201, None): 20}
    assert len({reply.text for reply in replies}) == 1


def test_only_one_of_20_captures_of_a_payment_succeeds(shop, member):
    payment = creation(shop, member)().json["pointsPayment"]
    replies = run_simultaneously([action(shop, payment, "capture") for _ in range(20)])
    assert statuses(replies) == {(200, None): 1, (409, "/problems/payment-not-held"): 19}
    assert shop.balance(member) == 500 - 100


def test_20_refunds_of_100_points_refund_no_more_than_the_payment_of_500(shop, member):
    payment = creation(shop, member, points=500)().json["pointsPayment"]
    action(shop, payment, "capture")()
    refunds = [action(shop, payment, "refund", {"points": 100, "systemUniqueKey": key()}) for _ in range(20)]
    assert statuses(run_simultaneously(refunds)) == {(200, None): 5, (409, "/problems/refund-exceeds-payment"): 15}
    # All points of the payment are refunded.
    assert shop.balance(member) == 500
    shop.check_ledger()


def test_only_one_of_20_orders_with_one_payment_is_stored(shop, member):
    payment = creation(shop, member, points=500)().json["pointsPayment"]
    tender = {"tender": "points", "amount": 5, "pointsPaymentKey": payment["pointsPaymentKey"]}
    bodies = [{"events": [order(member, 5, payments=[tender])]} for _ in range(20)]
    replies = run_simultaneously([partial(shop.integration.request, "POST", "/events/track", body) for body in bodies])
    results = [reply.json["results"][0] for reply in replies]
    assert Counter(result.get("error", {}).get("type") for result in results) == {
        None: 1,
        "/problems/payment-not-held": 19,
    }
    assert len(shop.rows("purchase_orders")) == 1
    assert shop.balance(member) == 0


def test_a_deactivation_releases_the_first_payment_of_an_account_that_has_just_become_one_to_pay_with(
    shop, monkeypatch
):
    member, payments = shop.member(), []
    shop.give(member, 500)
    configuration_before = configuration._cache[shop.organization.id]

    def pay():
        allow_payments(shop)
        payments.append(creation(shop, member)().json["pointsPayment"])
        # As if another process had executed these two calls.
        configuration._cache[shop.organization.id] = configuration_before

    # After the deactivation has read the organization, and before it locks the member.
    run_after(monkeypatch, dispatch, "_find_records", pay)
    shop.integration.patch(f"/members/{member}", {"active": False})
    [payment] = payments
    payment = shop.integration.get(f"/points-payments/{payment['pointsPaymentKey']}")["pointsPayment"]
    assert payment["status"] == "released"
