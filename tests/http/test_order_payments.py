"""Orders that are paid in part with points: captures by their events, points on money, refunds by returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event

from tests.builders.campaigns import mint
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.points import Points
from tests.builders.statements import count as count_statements
from tests.builders.tracking import GENERIC, ORDER_CREATED, key, order, order_update, running
from tests.builders.tracking import event as visit_event
from tests.http.test_points_payments import POLICY, Till, till, type_of

__all__ = ["till"]
# A point for each unit of money.
MONEY = mint(("=", "floor(order.moneyTotal)"))


def tenders(payment: Any, money: Any = 25, points_value: Any = 25) -> list[dict[str, Any]]:
    """Two tenders of an order of 50 by default: points, which are worth 1 for 100, and money by card.

    `money` and `points_value` are amounts of money.
    """
    points = {"tender": "points", "amount": points_value, "pointsPaymentKey": payment["pointsPaymentKey"]}
    return [points, {"tender": "card", "amount": money, "reference": "visa-1"}]


@pytest.fixture
def funded_till(till):
    """A till whose member has 3,000 points to pay with."""
    till.shop.give(till.member, 3000)
    return till


def buy(till: Till, payments: Any, total: Any = 50, external_id: str = "1718", **more: Any) -> Any:
    """Track an order of the till's member; return the result."""
    payload = {} if payments is None else {"payments": payments}
    return till.shop.track_one(order(till.member, str(total), external_id=external_id, **payload), **more)


def return_partially(till: Till, total: Any, external_id: str = "1718") -> Any:
    """Confirm the order and return a part of it; return the result."""
    till.shop.track(order_update(till.member, external_id, "confirmed"))
    return till.shop.track_one(order(till.member, str(total), status="partially-returned", external_id=external_id))


def refusal(till: Till, refused_order: Any) -> str:
    """Track an order that must be refused; return the type of the problem."""
    return till.shop.expect_refusal(refused_order).removeprefix("/problems/")


class Refund(NamedTuple):
    """A refund of a result: its tender, what it is worth in money, and the refunded points."""

    tender: str
    amount: Any
    points: Any = None


def refunds(result: Any) -> list[Refund]:
    """The refunds of a result, in the order of the tenders."""
    return [Refund(refund["tender"], refund["amount"], refund["points"]) for refund in result["refunds"]]


def cancel(till: Till, result: Any) -> Any:
    """Cancel the event of a result; return the response."""
    return till.shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)


class RevertedTransaction(NamedTuple):
    """A transaction that a cancellation reverted."""

    ledger_transaction_id: Any
    amount: Any
    reverted_amount: Any
    outcome: str


def reverted_transactions(response: Any) -> list[RevertedTransaction]:
    """The transactions that a cancellation of one event reverted."""
    fields = ("ledgerTransactionId", "amount", "revertedAmount", "outcome")
    [result] = response["results"]
    return [
        RevertedTransaction(*(transaction[field] for field in fields)) for transaction in result["ledgerTransactions"]
    ]


def stored_payments(till: Till, external_id: str = "1718") -> Any:
    """The payments of a stored order, or None."""
    record = till.shop.integration.get(f"/members/{till.member}")["loyaltyMember"]
    orders = till.shop.administration.get(f"/members/{record['memberId']}/purchase-orders")["results"]
    [stored_order] = [purchase for purchase in orders if purchase["externalId"] == external_id]
    return stored_order.get("payments")


def with_all_fields(payments: Any) -> Any:
    """Payments with all fields of a stored order, of which nothing is refunded."""
    return [{"pointsPaymentKey": None, "reference": None, **tender, "refundedAmount": 0} for tender in payments]


def test_the_order_captures_its_payment(funded_till):
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment))
    assert result["status"] == "success"
    assert "refunds" not in result
    captured_payment = funded_till.read(payment)
    assert (captured_payment["status"], captured_payment["orderExternalId"]) == ("captured", "1718")
    assert (captured_payment["points"], captured_payment["value"]) == (2500, 25)
    assert stored_payments(funded_till) == with_all_fields(tenders(payment))
    assert funded_till.balance == 3000 - 2500
    funded_till.shop.check_ledger()


def test_an_order_without_payments_has_no_refunds(funded_till):
    assert "refunds" not in buy(funded_till, payments=None)
    assert stored_payments(funded_till) is None
    assert "refunds" not in return_partially(funded_till, 10)


def test_a_partial_return_refunds_each_tender_in_proportion(funded_till):
    # An order of 50, half of which is paid with 2,500 points.
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    assert refunds(return_partially(funded_till, 20)) == [
        Refund("points", amount=10, points=1000),
        Refund("card", amount=10),
    ]
    assert refunds(return_partially(funded_till, 5)) == [
        Refund("points", amount=Decimal("2.5"), points=250),
        Refund("card", amount=Decimal("2.5")),
    ]
    assert [tender["refundedAmount"] for tender in stored_payments(funded_till)] == [Decimal("12.5"), Decimal("12.5")]
    assert funded_till.balance == 3000 - 2500 + 1000 + 250
    assert refunds(return_partially(funded_till, 25)) == [
        Refund("points", amount=Decimal("12.5"), points=1250),
        Refund("card", amount=Decimal("12.5")),
    ]
    assert funded_till.read(payment)["status"] == "refunded"
    assert funded_till.balance == 3000
    funded_till.shop.check_ledger()


def test_rounded_refunds_of_partial_returns_add_up_to_the_payments(funded_till):
    payment = funded_till.pay(points=1000, orderTotal=33.33)
    buy(funded_till, tenders(payment, money=23.33, points_value=10), total=33.33)
    results = [refunds(return_partially(funded_till, 11.11)) for _ in range(3)]
    assert [points_refund.points for points_refund, _ in results] == [333, 333, 334]
    assert [card_refund.amount for _, card_refund in results] == [Decimal("7.78"), Decimal("7.78"), Decimal("7.77")]
    assert funded_till.balance == 3000
    funded_till.shop.check_ledger()


def test_a_campaign_can_mint_points_for_the_money_of_an_order_and_not_for_the_points(funded_till):
    funded_till.shop.campaign(running(MONEY), eventType=ORDER_CREATED)
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    # The member had 3,000 points, paid 2,500 of them, and gets a point for each unit of money.
    assert funded_till.balance == 500 + 25
    return_partially(funded_till, 25)
    # Half of the order: 13 of the 25 points are clawed back, 1,250 are refunded.
    assert funded_till.balance == 500 + (25 - 13) + 1250
    funded_till.shop.check_ledger()


def test_campaigns_see_how_an_order_is_paid(funded_till):
    funded_till.shop.campaign(
        running(MONEY, rule='order.payments.exists(p, p.tender == "card" && p.amount == 25) && order.total == 50'),
        eventType=ORDER_CREATED,
    )
    buy(funded_till, tenders(funded_till.pay(points=2500)))
    # 3,000 - 2,500, and a point for each unit of money.
    assert funded_till.balance == 500 + 25
    # The rule is false for an order without payments.
    buy(funded_till, payments=None, external_id="1719")
    assert funded_till.balance == 500 + 25


def test_an_order_without_payments_counts_as_paid_with_money(funded_till):
    funded_till.shop.campaign(running(MONEY), eventType=ORDER_CREATED)
    buy(funded_till, payments=None)
    assert funded_till.balance == 3000 + 50


def test_a_tender_below_the_value_of_the_payment_captures_a_part_of_it(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment, money=40, points_value=10))
    captured_payment = funded_till.read(payment)
    assert (captured_payment["points"], captured_payment["value"]) == (1000, 10)
    assert funded_till.balance == 3000 - 1000


@pytest.mark.parametrize("total", [50, 60])
def test_payments_that_do_not_fit_the_order_are_refused(funded_till, total):
    payment = funded_till.pay(points=2500)
    # The tenders add up to 50.
    assert refusal(funded_till, order(funded_till.member, 49, payments=tenders(payment))) == "invalid-request"
    # The payment on hold is worth only 25.
    payments_above_the_hold = tenders(payment, money=total - 26, points_value=26)
    assert refusal(funded_till, order(funded_till.member, total, payments=payments_above_the_hold)) == "invalid-request"
    without_key = [{"tender": "points", "amount": total}]
    assert refusal(funded_till, order(funded_till.member, total, payments=without_key)) == "invalid-request"
    assert funded_till.read(payment)["status"] == "held"
    assert funded_till.shop.rows("purchase_orders") == []


def test_an_order_whose_payment_is_not_held_is_not_stored(funded_till):
    payment = funded_till.pay(points=2500)
    funded_till.act(payment, "capture")
    assert refusal(funded_till, order(funded_till.member, 50, payments=tenders(payment))) == "payment-not-held"
    expired_payment = funded_till.pay(points=500)
    # The hold has ended.
    funded_till.clock.wait(hours=2)
    expired_tenders = tenders(expired_payment, money=0, points_value=5)
    assert refusal(funded_till, order(funded_till.member, 5, payments=expired_tenders)) == "payment-not-held"
    assert funded_till.shop.rows("purchase_orders") == []
    # Another member has no such payment.
    assert refusal(funded_till, order(funded_till.shop.member(), 5, payments=expired_tenders)) == "not-found"


def test_either_all_payments_of_an_order_are_captured_or_none(funded_till):
    first_payment, released_payment = funded_till.pay(points=1000), funded_till.pay(points=1000)
    funded_till.act(released_payment, "release")
    # Two payments with points, worth 10 each, and 30 by card.
    first_tender, _card = tenders(first_payment, money=30, points_value=10)
    tenders_with_released = [first_tender, *tenders(released_payment, money=30, points_value=10)]
    assert refusal(funded_till, order(funded_till.member, 50, payments=tenders_with_released)) == "payment-not-held"
    assert funded_till.read(first_payment)["status"] == "held"
    assert funded_till.balance == 3000 - 1000
    second_payment = funded_till.pay(points=1000)
    result = buy(funded_till, [first_tender, *tenders(second_payment, money=30, points_value=10)])
    assert result["status"] == "success"
    assert funded_till.read(first_payment)["status"] == "captured"
    assert funded_till.read(second_payment)["status"] == "captured"
    funded_till.shop.check_ledger()


def test_a_payment_can_pay_only_one_order(funded_till):
    payment = funded_till.pay(points=2500)
    orders = [order(funded_till.member, 50, external_id=number, payments=tenders(payment)) for number in ("1", "2")]
    results = funded_till.shop.track(*orders)
    assert [result["status"] for result in results] == ["success", "failed"]
    assert type_of(results[1]["error"]) == "payment-not-held"
    assert len(funded_till.shop.rows("purchase_orders")) == 1


@pytest.mark.parametrize("mode", ["authorize", "captureOnly"])
def test_an_order_that_only_names_a_payment_does_not_refund_it(funded_till, mode):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment), external_id="1", executionMode=mode)
    # The customer changes the order, and the shop sends it again under another number.
    buy(funded_till, tenders(payment), external_id="2")
    result = funded_till.shop.track_one(order_update(funded_till.member, "1", "cancelled"))
    assert refunds(result) == [Refund("points", amount=0, points=0), Refund("card", amount=25)]
    assert funded_till.read(payment)["status"] == "captured"
    assert funded_till.balance == 3000 - 2500
    result = funded_till.shop.track_one(order_update(funded_till.member, "2", "cancelled"))
    assert refunds(result) == [Refund("points", amount=25, points=2500), Refund("card", amount=25)]
    assert funded_till.balance == 3000


@pytest.mark.parametrize("mode", ["authorize", "captureOnly"])
def test_a_cancelled_order_does_not_release_a_payment_that_another_order_names(funded_till, mode):
    payment = funded_till.pay(points=2500)
    for external_id in ("1", "2"):
        buy(funded_till, tenders(payment), external_id=external_id, executionMode=mode)
    funded_till.shop.track_one(order_update(funded_till.member, "1", "cancelled"))
    assert funded_till.read(payment)["status"] == "held"
    confirmation = order_update(funded_till.member, "2", "confirmed", payments=tenders(payment))
    funded_till.shop.track_one(confirmation)
    assert funded_till.read(payment)["status"] == "captured"
    assert funded_till.balance == 3000 - 2500


def test_the_last_cancelled_order_releases_a_payment_that_several_orders_name(funded_till):
    payment = funded_till.pay(points=2500)
    first, _second = [
        buy(funded_till, tenders(payment), external_id=number, executionMode="authorize") for number in ("1", "2")
    ]
    cancel(funded_till, first)
    assert funded_till.read(payment)["status"] == "held"
    funded_till.shop.track_one(order_update(funded_till.member, "2", "cancelled"))
    assert funded_till.read(payment)["status"] == "released"
    assert funded_till.balance == 3000


def test_two_orders_with_one_payment_that_are_cancelled_in_one_call_release_it(funded_till):
    payment = funded_till.pay(points=2500)
    for number in ("1", "2"):
        buy(funded_till, tenders(payment), external_id=number, executionMode="authorize")
    funded_till.shop.track(*(order_update(funded_till.member, number, "cancelled") for number in ("1", "2")))
    assert funded_till.read(payment)["status"] == "released"
    assert funded_till.balance == 3000


def test_an_order_with_many_held_payments_is_cancelled_with_as_many_statements_as_one_with_two(funded_till):
    def statements_of_cancellation(external_id, payment_count):
        """Cancel an authorized order that is paid by so many payments of 100 points; count the statements."""
        payments = [tenders(funded_till.pay(points=100), points_value=1)[0] for _ in range(payment_count)]
        buy(funded_till, payments, payment_count, external_id=external_id, executionMode="authorize")
        cancellation = order_update(funded_till.member, external_id, "cancelled")
        return count_statements(funded_till.shop.engine, lambda: funded_till.shop.track_one(cancellation))

    assert statements_of_cancellation("1", 2) == statements_of_cancellation("2", 9)
    assert funded_till.balance == 3000


def test_an_order_does_not_refund_a_payment_that_another_order_of_the_same_call_captures(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment), external_id="1", executionMode="authorize")
    results = funded_till.shop.track(
        order(funded_till.member, 50, external_id="2", payments=tenders(payment)),
        order_update(funded_till.member, "1", "cancelled"),
    )
    assert [result["status"] for result in results] == ["success", "success"]
    assert funded_till.balance == 3000 - 2500


def test_an_authorized_order_refunds_a_payment_that_a_request_captured(funded_till):
    payment = funded_till.pay(points=2500, orderExternalId="basket-1")
    buy(funded_till, tenders(payment), external_id="1", executionMode="authorize")
    funded_till.act(payment, "capture")
    result = funded_till.shop.track_one(order_update(funded_till.member, "1", "cancelled"))
    assert refunds(result) == [Refund("points", amount=25, points=2500), Refund("card", amount=25)]
    assert funded_till.balance == 3000


def test_points_do_not_pay_an_order_in_another_currency(funded_till):
    payment = funded_till.pay(points=2500)
    order_in_dollars = order(funded_till.member, 50, payments=tenders(payment), currency="USD")
    assert refusal(funded_till, order_in_dollars) == "currency-mismatch"
    # Points are worth euros.
    assert funded_till.shop.track_one(order(funded_till.member, 50, payments=tenders(payment), currency="EUR"))


@pytest.mark.parametrize("status", ["cancelled", "rejected"])
def test_a_cancelled_or_rejected_order_refunds_all_tenders(funded_till, status):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    result = funded_till.shop.track_one(order_update(funded_till.member, "1718", status))
    assert refunds(result) == [Refund("points", amount=25, points=2500), Refund("card", amount=25)]
    assert funded_till.read(payment)["status"] == "refunded"
    assert funded_till.balance == 3000
    funded_till.shop.check_ledger()


def test_a_full_return_refunds_the_amounts_that_were_not_refunded(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    funded_till.shop.track_one(order_update(funded_till.member, "1718", "confirmed"))
    # 500 points are worth 5 of the 25.
    funded_till.refund(payment, points=500)
    result = funded_till.shop.track_one(order_update(funded_till.member, "1718", "returned"))
    assert refunds(result) == [Refund("points", amount=20, points=2000), Refund("card", amount=25)]
    assert funded_till.balance == 3000
    funded_till.shop.check_ledger()


def test_cancelling_the_event_of_an_order_refunds_all_tenders(funded_till):
    funded_till.shop.campaign(running(MONEY), eventType=ORDER_CREATED)
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment))
    [mint_id] = [row.ledger_transaction_id for row in funded_till.shop.rows("ledger_transactions") if row.amount == 25]
    response = cancel(funded_till, result)
    assert refunds(response) == [Refund("points", amount=25, points=2500), Refund("card", amount=25)]
    assert reverted_transactions(response) == [
        RevertedTransaction(mint_id, amount=25, reverted_amount=25, outcome="reverted"),
        RevertedTransaction(payment["ledgerTransactionId"], amount=2500, reverted_amount=2500, outcome="reverted"),
    ]
    assert funded_till.read(payment)["status"] == "refunded"
    assert [tender["refundedAmount"] for tender in stored_payments(funded_till)] == [25, 25]
    assert funded_till.balance == 3000
    funded_till.shop.check_ledger()


def test_cancelling_an_authorized_order_reports_the_released_payment(funded_till):
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment), executionMode="authorize")
    response = cancel(funded_till, result)
    assert refunds(response) == [Refund("points", amount=0, points=0), Refund("card", amount=25)]
    assert reverted_transactions(response) == [
        RevertedTransaction(payment["ledgerTransactionId"], amount=2500, reverted_amount=2500, outcome="released")
    ]
    assert funded_till.balance == 3000


def test_a_cancellation_reports_the_mints_that_are_clawed_back_from_refunded_points(funded_till):
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment))
    funded_till.shop.campaign(running(mint(100)), eventType=GENERIC)
    visit = funded_till.shop.track_one(visit_event(funded_till.member))
    funded_till.shop.take(funded_till.member, 600)
    # The points of the visit were spent, so they are missing until the payment is refunded.
    [visit_mint] = cancel(funded_till, visit)["results"][0]["ledgerTransactions"]
    assert visit_mint["outcome"] == "clamped"
    assert reverted_transactions(cancel(funded_till, result)) == [
        RevertedTransaction(payment["ledgerTransactionId"], amount=2500, reverted_amount=2500, outcome="reverted"),
        RevertedTransaction(visit_mint["ledgerTransactionId"], amount=100, reverted_amount=100, outcome="partial"),
    ]
    # 3,000 and the 100 of the visit, less the 600 that were spent and the 100 that were clawed back.
    assert funded_till.balance == 3000 + 100 - 600 - 100
    funded_till.shop.check_ledger()


def test_cancelling_an_order_without_payments_refunds_nothing(funded_till):
    assert cancel(funded_till, buy(funded_till, payments=None))["refunds"] == []


def test_cancelling_a_partly_returned_order_refunds_the_rest(funded_till):
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment))
    return_partially(funded_till, 20)
    # 3,000 - 2,500, and the refund of 20 of 50.
    assert funded_till.balance == 500 + 1000
    response = cancel(funded_till, result)
    assert refunds(response) == [Refund("points", amount=15, points=1500), Refund("card", amount=15)]
    assert reverted_transactions(response) == [
        RevertedTransaction(payment["ledgerTransactionId"], amount=2500, reverted_amount=1500, outcome="reverted")
    ]
    assert funded_till.read(payment)["status"] == "refunded"
    assert [tender["refundedAmount"] for tender in stored_payments(funded_till)] == [25, 25]
    assert funded_till.balance == 3000
    # The order keeps its status, but nothing is left for the return of the rest.
    assert [row.status for row in funded_till.shop.rows("purchase_orders")] == ["partially-returned"]
    return_result = funded_till.shop.track_one(order_update(funded_till.member, "1718", "returned"))
    assert refunds(return_result) == [Refund("points", amount=0, points=0), Refund("card", amount=0)]
    assert funded_till.balance == 3000
    funded_till.shop.check_ledger()


def test_a_dry_run_checks_payments_and_captures_nothing(funded_till):
    payment = funded_till.pay(points=2500)
    [result] = funded_till.shop.track(order(funded_till.member, 50, payments=tenders(payment)), dryRun=True)
    assert result["status"] == "success"
    assert funded_till.read(payment)["status"] == "held"
    funded_till.act(payment, "release")
    [result] = funded_till.shop.track(order(funded_till.member, 50, payments=tenders(payment)), dryRun=True)
    assert type_of(result["error"]) == "payment-not-held"


def test_an_authorized_order_captures_nothing_until_its_confirmation(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment), executionMode="authorize")
    assert funded_till.read(payment)["status"] == "held"
    confirmation = order_update(funded_till.member, "1718", "confirmed", payments=tenders(payment))
    assert funded_till.shop.track_one(confirmation)["status"] == "success"
    assert funded_till.read(payment)["status"] == "captured"
    assert refunds(return_partially(funded_till, 25)) == [
        Refund("points", amount=Decimal("12.5"), points=1250),
        Refund("card", amount=Decimal("12.5")),
    ]
    funded_till.shop.check_ledger()


def test_an_authorized_order_that_is_cancelled_releases_its_payment(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment), executionMode="authorize")
    result = funded_till.shop.track_one(order_update(funded_till.member, "1718", "cancelled"))
    assert refunds(result) == [Refund("points", amount=0, points=0), Refund("card", amount=25)]
    assert funded_till.read(payment)["status"] == "released"
    assert funded_till.balance == 3000


def test_a_confirmation_can_contain_the_payments_of_the_order(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, payments=None)
    confirmation = order_update(funded_till.member, "1718", "confirmed", payments=tenders(payment))
    assert funded_till.shop.track_one(confirmation)["status"] == "success"
    assert stored_payments(funded_till) == with_all_fields(tenders(payment))
    assert funded_till.read(payment)["status"] == "captured"


def test_a_confirmation_may_repeat_the_payments_and_not_change_them(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    only_card = [{"tender": "card", "amount": 50}]
    changed_confirmation = order_update(funded_till.member, "1718", "confirmed", payments=only_card)
    assert refusal(funded_till, changed_confirmation) == "invalid-request"
    confirmation = order_update(funded_till.member, "1718", "confirmed", payments=tenders(payment))
    assert funded_till.shop.track_one(confirmation)["status"] == "success"
    assert funded_till.balance == 3000 - 2500


def test_a_confirmation_in_the_same_call_may_repeat_the_payments(funded_till):
    payment = funded_till.pay(points=2500)
    results = funded_till.shop.track(
        order(funded_till.member, 50, external_id="1718", payments=tenders(payment)),
        order_update(funded_till.member, "1718", "confirmed", payments=tenders(payment)),
    )
    assert [result["status"] for result in results] == ["success", "success"]
    assert funded_till.balance == 3000 - 2500


def test_the_payment_of_a_captured_event_stays_on_hold_until_the_event_is_evaluated(funded_till):
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment), executionMode="captureOnly")
    assert funded_till.read(payment)["status"] == "held"
    funded_till.shop.administration.post(f"/events/{result['loyaltyEventKey']}/evaluate", expect=200)
    assert funded_till.read(payment)["status"] == "captured"


def test_a_captured_event_is_evaluated_after_the_confirmation_has_captured_the_payment(funded_till):
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment), executionMode="captureOnly")
    funded_till.shop.track_one(order_update(funded_till.member, "1718", "confirmed", payments=tenders(payment)))
    assert funded_till.read(payment)["status"] == "captured"
    funded_till.shop.administration.post(f"/events/{result['loyaltyEventKey']}/evaluate", expect=200)
    assert funded_till.balance == 3000 - 2500


def test_the_refund_of_an_imported_return_is_not_repeated_by_later_returns(funded_till):
    shop, member = funded_till.shop, funded_till.member
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    shop.track_one(order_update(member, "1718", "confirmed"))
    rows = [order(member, 10, status="partially-returned", external_id="1718") for _ in range(2)]
    file = "\n".join(json.dumps(row, default=float) for row in rows)
    job = Imports(shop.organization).run(file, kind="events", file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 2, 2, 0)
    keys = {one["systemUniqueKey"]: one["loyaltyEventKey"] for one in shop.events(member)}
    results = [
        shop.administration.post(f"/events/{keys[row['systemUniqueKey']]}/evaluate", expect=200)["result"]
        for row in rows
    ]
    # The first evaluation refunds all that was returned so far.
    assert [refunds(result) for result in results] == [
        [Refund("points", 10, 1000), Refund("card", 10)],
        [Refund("points", 0, 0), Refund("card", 0)],
    ]
    assert [tender["refundedAmount"] for tender in stored_payments(funded_till)] == [10, 10]
    full_return = shop.track_one(order_update(member, "1718", "returned"))
    assert refunds(full_return) == [Refund("points", 15, 1500), Refund("card", 15)]
    assert funded_till.balance == 3000


def test_a_new_order_cannot_be_paid_with_a_payment_that_a_request_has_captured_for_its_number(funded_till):
    payment = funded_till.pay(points=2500, orderExternalId="1718")
    funded_till.act(payment, "capture")
    new_order = order(funded_till.member, 50, external_id="1718", payments=tenders(payment))
    assert refusal(funded_till, new_order) == "payment-not-held"


def test_a_repeated_event_pays_once(funded_till):
    payment = funded_till.pay(points=2500)
    purchase = {
        **order(funded_till.member, 50, external_id="1718", payments=tenders(payment)),
        "systemUniqueKey": key(),
    }
    assert funded_till.shop.track_one(purchase) == funded_till.shop.track_one(purchase)
    assert funded_till.balance == 3000 - 2500


def test_refunded_points_can_be_clawed_back(funded_till):
    funded_till.shop.campaign(running(MONEY), eventType=ORDER_CREATED)
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    # 3,000 - 2,500, and 25 for the money.
    funded_till.shop.take(funded_till.member, 525)
    assert funded_till.balance == 0
    return_partially(funded_till, 25)
    # 1,250 points are refunded; 13 of them are clawed back for the points that the returned half had earned.
    assert funded_till.balance == 1250 - 13
    funded_till.shop.check_ledger()


def test_an_erased_order_has_no_payments(funded_till):
    payment = funded_till.pay(points=2500, orderExternalId="1718")
    buy(funded_till, tenders(payment))
    open_payment = funded_till.pay(points=100)
    record = funded_till.shop.integration.get(f"/members/{funded_till.member}")["loyaltyMember"]
    funded_till.shop.administration.delete(f"/members/{record['memberId']}", expect=200)
    assert funded_till.shop.rows("purchase_orders", "payments") == [(None,)]
    assert {row[0] for row in funded_till.shop.rows("points_payments", "order_external_id")} == {None}
    assert funded_till.read(open_payment)["status"] == "released"
    funded_till.shop.check_ledger()


def test_a_changed_policy_does_not_change_the_refunds_of_earlier_payments(funded_till):
    payment = funded_till.pay(points=2500)
    buy(funded_till, tenders(payment))
    funded_till.allow({**POLICY, "pointsPerUnit": 1})
    assert refunds(return_partially(funded_till, 25))[0] == Refund("points", amount=Decimal("12.5"), points=1250)


class Killed(RuntimeError):
    """An exception that simulates the end of the server."""


@contextmanager
def killed_at(engine: Any, number: int) -> Iterator[None]:
    """Let the server end before it sends its nth statement."""
    statements = count(1)

    def raise_killed(*args: Any) -> None:
        if next(statements) == number:
            raise Killed

    event.listen(engine, "before_cursor_execute", raise_killed)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", raise_killed)


def is_paid(till: Till, payment: Any) -> bool:
    """True if the payment is captured and the order stored; assert that never only one of the two is the case."""
    orders = till.shop.rows("purchase_orders")
    assert (till.read(payment)["status"], len(orders)) in (("held", 0), ("captured", 1))
    return bool(orders)


def test_a_server_killed_at_any_statement_captures_the_payment_and_stores_the_order_or_does_neither(funded_till):
    payment = funded_till.pay(points=2500)
    body = {"events": [order(funded_till.member, 50, external_id="1718", payments=tenders(payment))]}
    kills = 0
    while not is_paid(funded_till, payment):
        assert kills < 100
        kills += 1
        with killed_at(funded_till.shop.engine, kills):
            funded_till.shop.integration.request("POST", "/events/track", body)
        funded_till.shop.check_ledger()
    # The call has several statements, each of which was the last one once.
    assert kills > 5
    assert funded_till.balance == 3000 - 2500
    # The repeated request pays nothing more.
    [result] = funded_till.shop.track(*body["events"])
    assert result["status"] == "success"
    assert funded_till.balance == 3000 - 2500


def test_a_paid_order_is_cancelled_if_the_supply_is_exhausted_but_falls(funded_till):
    shop, other_member = funded_till.shop, funded_till.shop.member()
    shop.campaign(running(mint(4000)), eventType=ORDER_CREATED)
    payment = funded_till.pay(points=2500)
    result = buy(funded_till, tenders(payment))
    assert shop.balance(funded_till.member) == 3000 - 2500 + 4000
    points = Points.default(shop.organization)
    points.admin.put(f"{points.path}/max-supply", {"maxSupply": 4600}, expect=200)
    shop.give(other_member, 100)
    # 4,600 points are issued, which is the maximum. The refund adds 2,500, and the cancelled order takes 4,000.
    cancel(funded_till, result)
    assert shop.balance(funded_till.member) == 3000
