"""Payments with points: quotes, holds, captures and refunds over HTTP."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from domain.ledger.records import SETTLED
from tests.builders import clock as clocks
from tests.builders.tracking import Shop, key

# 100 points are worth 1 euro.
POLICY = {"pointsPerUnit": 100, "currency": "EUR"}


@dataclass
class Till:
    """A member who pays for orders with points of the default account, at moments of a clock."""

    shop: Shop
    member: str
    clock: clocks.Clock

    @property
    def path(self) -> str:
        return f"/members/{self.member}/points-payments"

    @property
    def account_path(self) -> str:
        defaults = self.shop.organization.defaults
        return f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"

    def allow(self, policy: Any, *, expect: int = 200, **settings: Any) -> Any:
        """Set the redemption policy of the account; return the account, or the problem if `expect` is not 200."""
        body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False, **settings}
        response = self.shop.administration.put(self.account_path, {**body, "redemption": policy}, expect=expect)
        return response["ledgerAccount"] if expect == 200 else response

    def pay(self, expect: int = 201, **body: Any) -> Any:
        """Pay a part of an order of 50; return the payment, or the problem if `expect` is not 201."""
        request = {"orderTotal": 50, "systemUniqueKey": key(), **body}
        response = self.shop.integration.post(self.path, request, expect=expect)
        return response["pointsPayment"] if expect == 201 else response

    def act(self, payment: Any, action: str, body: Any = None, expect: int = 200) -> Any:
        """Capture, release or refund a payment; return it, or the problem if `expect` is not 200."""
        path = f"/points-payments/{payment['pointsPaymentKey']}/{action}"
        response = self.shop.integration.post(path, body, expect=expect)
        return response["pointsPayment"] if expect == 200 else response

    def refund(self, payment: Any, *, expect: int = 200, **body: Any) -> Any:
        """Refund a part of a payment; return the payment, or the problem if `expect` is not 200."""
        return self.act(payment, "refund", {"systemUniqueKey": key(), **body}, expect)

    def read(self, payment: Any) -> Any:
        """The current payment."""
        return self.shop.integration.get(f"/points-payments/{payment['pointsPaymentKey']}")["pointsPayment"]

    @property
    def balance(self) -> Any:
        """The points that the member can spend, by a quote."""
        return self.quote(order_total=50)["balance"]

    def quote(self, *, order_total: Any, expect: int = 200, **body: Any) -> Any:
        """The points that the member may pay for an order, or the problem if `expect` is not 200."""
        return self.shop.integration.post(f"{self.path}/quote", {"orderTotal": order_total, **body}, expect=expect)


@pytest.fixture
def till(organization, monkeypatch):
    """A member without points; 100 points pay 1 euro of an order."""
    shop = Shop(organization)
    till = Till(shop, shop.member(), clocks.install_clock(monkeypatch))
    till.allow(POLICY)
    return till


def type_of(problem):
    """The type of a problem without its prefix."""
    return problem["type"].removeprefix("/problems/")


# --- quotes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "balance", "expected_quote"),
    [
        pytest.param(
            {"pointsPerUnit": 100, "maxShare": 0.5},
            2730,
            # Half of the order of 50 is 25.
            {"maxPoints": 25 * 100, "maxValue": 25, "minPoints": 0, "multipleOf": 1},
            id="a share of the order",
        ),
        pytest.param(
            {"pointsPerUnit": 1, "multipleOf": 3},
            10,
            {"maxPoints": 9, "maxValue": 9, "minPoints": 0, "multipleOf": 3},
            id="a whole multiple",
        ),
        pytest.param(
            {"pointsPerUnit": 3},
            10,
            {"maxPoints": 10, "maxValue": Decimal("3.33"), "minPoints": 0, "multipleOf": 1},
            id="a rounded value",
        ),
    ],
)
def test_a_quote_has_the_maximum_that_the_member_may_pay(till, policy, balance, expected_quote):
    till.allow({"currency": "EUR", **policy})
    till.shop.give(till.member, balance)
    assert till.quote(order_total=50) == {**expected_quote, "balance": balance, "reason": None}
    # Only the mint is stored.
    assert till.shop.rows("ledger_transactions", "count(*)") == [(1,)]


def test_a_quote_of_a_large_balance_can_be_paid(till):
    # The maximum amount of one transaction.
    max_amount = 18446744073709
    for _ in range(2):
        till.shop.give(till.member, max_amount)
    quote = till.quote(order_total=max_amount)
    assert (quote["balance"], quote["maxPoints"]) == (2 * max_amount, max_amount)
    payment = till.pay(points=quote["maxPoints"], orderTotal=max_amount)
    # 100 points are worth 1.
    assert payment["value"] == quote["maxValue"] == Decimal("184467440737.09")


def test_a_quote_of_0_points_says_why_it_is_0(till):
    assert till.quote(order_total=50)["reason"] == "no-points"
    till.allow({**POLICY, "minPoints": 200})
    till.shop.give(till.member, 199)
    assert till.quote(order_total=50) == {
        "maxPoints": 0,
        "maxValue": 0,
        "balance": 199,
        "minPoints": 200,
        "multipleOf": 1,
        "reason": "below-minimum",
    }


def test_a_quote_counts_no_expired_points(till):
    till.allow(POLICY, expiresInMonths=1)
    till.shop.give(till.member, 100)
    till.clock.wait(days=20)
    till.shop.give(till.member, 50)
    assert till.quote(order_total=50)["balance"] == 100 + 50
    # After 40 days in all, the 100 have expired.
    till.clock.wait(days=20)
    assert till.quote(order_total=50)["balance"] == 50


def test_a_member_token_gets_the_members_own_quote(till):
    member_surface = till.shop.integration.with_token(till.shop.organization.member_token(till.member))
    # The member has no points.
    assert member_surface.post(f"{till.path}/quote", {"orderTotal": 50}, expect=200)["maxPoints"] == 0
    another_member = till.shop.member()
    member_surface.post(f"/members/{another_member}/points-payments/quote", {"orderTotal": 50}, expect=403)


def test_a_quote_is_in_the_currency_of_the_points(till):
    # The points of the account are worth euros.
    assert type_of(till.quote(order_total=50, currency="USD", expect=409)) == "currency-mismatch"
    assert till.quote(order_total=50, currency="EUR")["maxPoints"] == 0
    # Without a currency, the total is in the currency of the organization.
    till.shop.administration.put("", {"defaultLocale": "en", "currency": "USD"})
    assert type_of(till.quote(order_total=50, expect=409)) == "currency-mismatch"
    assert till.quote(order_total=50, currency="EUR")["maxPoints"] == 0


def test_an_account_without_a_redemption_policy_refuses_quotes(till):
    assert "redemption" not in till.allow(None)
    assert type_of(till.quote(order_total=50, expect=409)) == "redemption-disabled"
    assert (
        type_of(till.quote(order_total=50, ledgerAccountKey=str(uuid.uuid4()), expect=404)) == "unknown-ledger-account"
    )
    stars = till.shop.account(name="Stars", redemption=POLICY)
    # The policy of the other account allows the quote.
    assert till.quote(order_total=50, ledgerAccountKey=stars["ledgerAccountKey"].upper())["reason"] == "no-points"


def test_an_inactive_member_gets_no_quote(till):
    till.shop.integration.patch(f"/members/{till.member}", {"active": False})
    assert type_of(till.quote(order_total=50, expect=409)) == "member-inactive"


# --- what an account allows --------------------------------------------------------------------------------------


def test_missing_fields_of_a_policy_have_defaults(till):
    complete_policy = {**POLICY, "minPoints": 0, "multipleOf": 1, "maxShare": 1}
    assert till.allow(POLICY)["redemption"] == complete_policy
    # An update without the policy keeps it.
    body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    assert till.shop.administration.put(till.account_path, body)["ledgerAccount"]["redemption"] == complete_policy


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"pointsPerUnit": 0}, "/redemption/pointsPerUnit"),
        ({"multipleOf": 0}, "/redemption/multipleOf"),
        ({"multipleOf": 0.5}, "/redemption/multipleOf"),
        ({"minPoints": 0.5}, "/redemption/minPoints"),
        ({"maxShare": 1.1}, "/redemption/maxShare"),
        ({"currency": "euro"}, "/redemption/currency"),
    ],
)
def test_a_policy_that_no_payment_can_satisfy_is_refused(till, changes, pointer):
    problem = till.allow({**POLICY, **changes}, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


# --- payments ----------------------------------------------------------------------------------------------------


@pytest.fixture
def funded_till(till):
    """The member has 2730 points. 100 points pay 1 euro, and points may pay half of an order: 25 of 50 euros."""
    till.allow({**POLICY, "maxShare": 0.5})
    till.shop.give(till.member, 2730)
    return till


def test_a_payment_holds_points_of_a_value(funded_till):
    payment = funded_till.pay(points=2500, orderExternalId="1718")
    assert payment == {
        "pointsPaymentId": payment["pointsPaymentId"],
        "pointsPaymentKey": payment["pointsPaymentKey"],
        "status": "held",
        "points": 2500,
        "value": 25,
        "currency": "EUR",
        "refundedPoints": 0,
        "refundedValue": 0,
        "ledgerAccountKey": funded_till.shop.organization.defaults.ledger_account_key,
        "ledgerTransactionId": payment["ledgerTransactionId"],
        "heldUntil": payment["heldUntil"],
        "orderExternalId": "1718",
        "createdAt": payment["createdAt"],
        "updatedAt": payment["createdAt"],
    }
    hold_time = datetime.fromisoformat(payment["heldUntil"]) - datetime.fromisoformat(payment["createdAt"])
    assert hold_time == timedelta(hours=1)
    assert funded_till.read(payment) == payment
    assert funded_till.balance == 2730 - 2500


def test_points_beyond_the_multiple_stay_with_the_member(till):
    till.allow({"pointsPerUnit": 1, "currency": "EUR", "multipleOf": 3})
    till.shop.give(till.member, 10)
    max_points = till.quote(order_total=50)["maxPoints"]
    assert till.pay(points=max_points)["value"] == 9
    assert till.balance == 10 - 9


def test_a_payment_requested_by_value_has_exactly_this_value(till):
    till.allow({"pointsPerUnit": 3, "currency": "EUR"})
    till.shop.give(till.member, 100)
    # 3.34 x 3 = 10.02, rounded up.
    payment = till.pay(value=3.34)
    assert (payment["points"], payment["value"]) == (11, Decimal("3.34"))
    assert till.act(payment, "capture")["value"] == Decimal("3.34")


@pytest.mark.parametrize(
    ("rule", "payment", "problem"),
    [
        # The order is of 50 euros, and 100 points are worth 1 euro.
        ({"maxShare": 0.5}, {"points": 2600}, "payment-exceeds-share"),
        ({"maxShare": 0.5}, {"value": 25.01}, "payment-exceeds-share"),
        ({"minPoints": 300}, {"points": 299}, "payment-below-minimum"),
        pytest.param({"pointsPerUnit": 1000}, {"points": 9}, "payment-below-minimum", id="less than a cent"),
        ({"multipleOf": 10}, {"points": 105}, "points-not-multiple"),
        ({}, {"points": 2731}, "insufficient-balance"),
        ({}, {"points": 100, "currency": "USD"}, "currency-mismatch"),
    ],
)
def test_a_payment_that_the_rules_do_not_allow_is_refused(till, rule, payment, problem):
    till.allow({**POLICY, **rule})
    till.shop.give(till.member, 2730)
    assert type_of(till.pay(expect=409, **payment)) == problem
    assert till.shop.rows("points_payments") == []
    assert till.balance == 2730


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        pytest.param({}, "/points", id="neither points nor a value"),
        pytest.param({"points": 1, "value": 1}, "/points", id="points and a value"),
        ({"points": 0}, "/points"),
        ({"value": 0}, "/value"),
        ({"value": 10**12, "orderTotal": 10**13}, "/value"),
        ({"points": 100, "validFor": "P8D"}, "/validFor"),
        ({"points": 100, "validFor": "PT0S"}, "/validFor"),
    ],
)
def test_a_malformed_payment_is_refused(funded_till, body, pointer):
    assert [error["pointer"] for error in funded_till.pay(expect=400, **body)["errors"]] == [pointer]


def test_points_of_an_account_with_an_overdraft_limit_cannot_be_held(till):
    till.allow(POLICY, overdraftLimit=50)
    till.shop.give(till.member, 100)
    # A payment holds points; a hold cannot use the overdraft.
    assert type_of(till.pay(points=101, expect=409)) == "insufficient-balance"
    # The balance suffices, but such an account has no holds.
    assert type_of(till.pay(points=100, expect=409)) == "capture-not-supported"


def test_the_same_request_gets_the_first_response(funded_till):
    fields = {"points": 2500, "systemUniqueKey": key(), "orderExternalId": "1718"}
    payment = funded_till.pay(**fields)
    assert funded_till.pay(**fields) == payment
    funded_till.act(payment, "capture", {"points": 1000})
    funded_till.refund(payment, points=1000)
    # The first response shows the held payment, although it is refunded now.
    assert funded_till.pay(**fields) == payment
    assert type_of(funded_till.pay(expect=409, **{**fields, "points": 2400})) == "key-reused"
    assert funded_till.balance == 2730


def test_a_member_token_pays_and_cannot_read_or_capture(funded_till):
    member_surface = funded_till.shop.integration.with_token(
        funded_till.shop.organization.member_token(funded_till.member)
    )
    body = {"points": 100, "orderTotal": 50, "systemUniqueKey": key()}
    payment = member_surface.post(funded_till.path, body, expect=201)["pointsPayment"]
    member_surface.post(
        f"/members/{funded_till.shop.member()}/points-payments", {**body, "systemUniqueKey": key()}, expect=403
    )
    member_surface.get(f"/points-payments/{payment['pointsPaymentKey']}", expect=403)
    member_surface.post(f"/points-payments/{payment['pointsPaymentKey']}/capture", expect=403)


def test_deactivating_a_member_releases_held_points_and_prevents_payments(funded_till):
    payment = funded_till.pay(points=2500)
    funded_till.shop.integration.patch(f"/members/{funded_till.member}", {"active": False})
    assert funded_till.read(payment)["status"] == "released"
    assert type_of(funded_till.pay(points=100, expect=409)) == "member-inactive"
    funded_till.shop.check_ledger()


# --- captures and releases ---------------------------------------------------------------------------------------


def test_a_captured_payment_burns_its_points(funded_till):
    payment = funded_till.pay(points=2500)
    captured_payment = funded_till.act(payment, "capture")
    assert captured_payment == {**payment, "status": "captured", "updatedAt": captured_payment["updatedAt"]}
    assert funded_till.balance == 2730 - 2500
    [_mint, burn] = funded_till.shop.rows(
        "ledger_transactions", "status, amount, fiat_value, fiat_currency", order="ledger_transaction_id"
    )
    assert tuple(burn) == (SETTLED, 2500, 25, "EUR")
    assert funded_till.shop.rows("ledger_balances", "total_fiat_value") == [(25,)]


def test_a_partial_capture_has_its_share_of_the_value_and_releases_the_rest(funded_till):
    payment = funded_till.pay(value=9.99)
    assert payment["points"] == 999
    captured_payment = funded_till.act(payment, "capture", {"points": 500})
    # 9.99 x 500 / 999
    assert (captured_payment["points"], captured_payment["value"]) == (500, 5)
    assert funded_till.balance == 2730 - 500
    assert funded_till.refund(captured_payment, value=5)["status"] == "refunded"


def test_a_share_of_a_value_is_rounded_down(till):
    till.allow({"pointsPerUnit": 3, "currency": "EUR"})
    till.shop.give(till.member, 10)
    # 3.33 x 7 / 10 = 2.331
    assert till.act(till.pay(points=10), "capture", {"points": 7})["value"] == Decimal("2.33")


def test_a_payment_is_captured_or_released_once(funded_till):
    captured_payment, released_payment = funded_till.pay(points=1000), funded_till.pay(points=500)
    funded_till.act(captured_payment, "capture")
    assert funded_till.act(released_payment, "release")["status"] == "released"
    for payment in (captured_payment, released_payment):
        for action in ("capture", "release"):
            assert type_of(funded_till.act(payment, action, expect=409)) == "payment-not-held"
    assert funded_till.balance == 2730 - 1000
    funded_till.shop.check_ledger()


def test_a_capture_of_more_than_the_held_points_is_refused(funded_till):
    payment = funded_till.pay(points=1000)
    assert type_of(funded_till.act(payment, "capture", {"points": 1001}, expect=409)) == "capture-exceeds-hold"
    assert funded_till.act(payment, "capture", {"points": 0}, expect=400)["errors"][0]["pointer"] == "/points"
    [error] = funded_till.act(payment, "capture", {"points": 5.5}, expect=400)["errors"]
    assert error["pointer"] == "/points"
    assert error["detail"] == "points has more than the 0 fraction digits of this account."
    assert funded_till.read(payment)["status"] == "held"


def test_the_end_of_the_hold_releases_all_points_without_a_job(funded_till):
    payment = funded_till.pay(points=2500)
    # A hold ends after an hour.
    funded_till.clock.wait(minutes=59, seconds=50)
    assert (funded_till.read(payment)["status"], funded_till.balance) == ("held", 2730 - 2500)
    funded_till.clock.wait(seconds=10)
    assert (funded_till.read(payment)["status"], funded_till.balance) == ("released", 2730)
    assert type_of(funded_till.act(payment, "capture", expect=409)) == "payment-not-held"
    # Another payment of these points does not change the first.
    funded_till.act(funded_till.pay(points=2500), "capture")
    assert funded_till.read(payment)["status"] == "released"
    assert funded_till.balance == 2730 - 2500
    funded_till.shop.check_ledger()


def test_an_unknown_payment_is_not_found(funded_till):
    unknown_payment = {"pointsPaymentKey": str(uuid.uuid4())}
    for action in ("capture", "release"):
        funded_till.act(unknown_payment, action, expect=404)
    funded_till.refund(unknown_payment, points=1, expect=404)


def test_a_policy_cannot_be_removed_while_points_are_held(funded_till):
    payment = funded_till.pay(points=1000)
    assert type_of(funded_till.allow(None, expect=409)) == "ledger-account-in-use"
    funded_till.act(payment, "capture")
    funded_till.allow(None)
    assert funded_till.refund(payment, value=1)["refundedPoints"] == 100


# --- refunds -----------------------------------------------------------------------------------------------------


def test_refunds_add_up_to_the_payment(funded_till):
    payment = funded_till.act(funded_till.pay(points=1000), "capture")
    assert [funded_till.refund(payment, value=3.33)["refundedPoints"] for _ in range(2)] == [333, 666]
    refunded_payment = funded_till.refund(payment, value=3.34)
    assert refunded_payment["status"] == "refunded"
    assert (refunded_payment["refundedPoints"], refunded_payment["refundedValue"]) == (1000, 10)
    assert funded_till.balance == 2730
    assert funded_till.shop.rows("ledger_balances", "total_fiat_value") == [(0,)]
    assert type_of(funded_till.refund(payment, points=1, expect=409)) == "refund-exceeds-payment"
    funded_till.shop.check_ledger()


def test_points_are_refunded_with_their_value(till):
    till.allow({"pointsPerUnit": 3, "currency": "EUR"})
    till.shop.give(till.member, 10)
    payment = till.act(till.pay(points=10), "capture")
    # 4 / 3, and 10 / 3 in all; both are rounded down.
    assert till.refund(payment, points=4)["refundedValue"] == Decimal("1.33")
    assert till.refund(payment, points=6)["refundedValue"] == Decimal("3.33")
    till.shop.check_ledger()


def test_a_refund_of_more_than_was_captured_is_refused(funded_till):
    uncaptured_payment = funded_till.pay(points=500)
    assert type_of(funded_till.refund(uncaptured_payment, points=1, expect=409)) == "refund-exceeds-payment"
    payment = funded_till.act(funded_till.pay(points=1000), "capture", {"points": 800})
    for body in ({"points": 801}, {"value": 8.01}):
        assert type_of(funded_till.refund(payment, expect=409, **body)) == "refund-exceeds-payment"
    # A refund has either points or a value.
    for body in ({}, {"points": 1, "value": 1}, {"points": 0}):
        problem = funded_till.refund(payment, expect=400, **body)
        assert [error["pointer"] for error in problem["errors"]] == ["/points"]
    assert funded_till.read(payment) == payment


@pytest.mark.parametrize("points", ["0.5", "1e-7", "1e-71"])
def test_a_refund_with_more_fraction_digits_than_the_account_is_refused(funded_till, points):
    payment = funded_till.act(funded_till.pay(points=1000), "capture")
    [error] = funded_till.refund(payment, points=Decimal(points), expect=400)["errors"]
    assert error == {"detail": "points has more than the 0 fraction digits of this account.", "pointer": "/points"}
    assert funded_till.read(payment) == payment
    assert funded_till.balance == 2730 - 1000
    funded_till.shop.check_ledger()


@pytest.mark.parametrize("value", ["0.001", "0.0155", "1e-71"])
def test_a_value_with_more_fraction_digits_than_the_currency_is_refused(funded_till, value):
    fault = {"detail": "value has more than 2 fraction digits.", "pointer": "/value"}
    assert funded_till.pay(value=Decimal(value), expect=400)["errors"] == [fault]
    payment = funded_till.act(funded_till.pay(points=10), "capture")
    assert funded_till.refund(payment, value=Decimal(value), expect=400)["errors"] == [fault]
    funded_till.refund(payment, value=Decimal("0.02"))
    problem = funded_till.refund(payment, value=1, expect=409)
    assert problem["detail"] == "8 points, worth 0.08, are left of the payment."
    current_payment = funded_till.read(payment)
    assert (current_payment["refundedPoints"], current_payment["refundedValue"]) == (2, Decimal("0.02"))


def test_the_same_refund_gets_the_first_response(funded_till):
    payment = funded_till.act(funded_till.pay(points=1000), "capture")
    refund_of_a_part = {"value": 4, "systemUniqueKey": key()}
    first_response = funded_till.refund(payment, **refund_of_a_part)
    assert (first_response["refundedPoints"], first_response["status"]) == (400, "captured")
    refund_of_the_rest = {"points": 600, "systemUniqueKey": key()}
    assert funded_till.refund(payment, **refund_of_the_rest)["status"] == "refunded"
    assert funded_till.refund(payment, **refund_of_a_part) == first_response
    assert funded_till.refund(payment, **refund_of_the_rest)["status"] == "refunded"
    assert type_of(funded_till.refund(payment, expect=409, **{**refund_of_a_part, "value": 3})) == "key-reused"
    assert funded_till.balance == 2730


def test_a_revert_in_the_ledger_refunds_the_rest_of_the_payment(funded_till):
    payment = funded_till.act(funded_till.pay(points=1000), "capture")
    funded_till.refund(payment, points=300)
    path = f"{funded_till.account_path}/transactions/{payment['ledgerTransactionId']}/revert"
    funded_till.shop.administration.post(path, {}, expect=200)
    current_payment = funded_till.read(payment)
    assert current_payment["status"] == "refunded"
    assert (current_payment["refundedPoints"], current_payment["refundedValue"]) == (1000, 10)
    assert funded_till.balance == 2730
    funded_till.shop.check_ledger()


def test_a_refund_goes_to_the_lots_that_expire_last(till):
    till.allow(POLICY, expiresInMonths=1)
    till.shop.give(till.member, 300)
    till.clock.wait(days=10)
    till.shop.give(till.member, 500)
    payment = till.act(till.pay(points=700), "capture")
    till.refund(payment, points=450)
    # The payment took all 300 of the first lot and 400 of the second. The refund returns 400 to the second lot, which
    # expires last, and 50 to the first.
    lots = till.shop.rows("ledger_lots", "amount, remaining", order="ledger_lot_id")
    assert [tuple(lot) for lot in lots] == [(300, 50), (500, 500)]
    till.shop.check_ledger()


@pytest.mark.parametrize(("restored_expiry_days", "expected_balance"), [(0, 0), (30, 100 + 200)])
def test_points_refunded_to_an_expired_lot_are_valid_for_the_restored_expiry_days(
    till, restored_expiry_days, expected_balance
):
    till.allow(POLICY, expiresInMonths=1, restoredExpiryDays=restored_expiry_days)
    till.shop.give(till.member, 500)
    payment = till.act(till.pay(points=500), "capture")
    # The points of the payment expired after a month.
    till.clock.wait(days=40)
    till.refund(payment, points=100)
    till.refund(payment, points=200)
    assert till.balance == expected_balance
    till.shop.check_ledger()
    till.clock.wait(days=31)
    assert till.balance == 0
