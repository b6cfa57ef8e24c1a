"""Currencies of orders, payments, campaigns, missions and the organization over HTTP."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import mint
from tests.builders.missions import create, member_id_of
from tests.builders.tracking import ORDER_CREATED, WHOLE_DOLLARS, Shop, event, order, order_update, running

PAYMENT_CONFIRMED = "member-payment-confirmed"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(shop):
    return shop.member()


def set_currency(shop, currency):
    """Set the currency of the organization."""
    return shop.administration.put("", {"defaultLocale": "en", "currency": currency})["organization"]


def payment(member, total, payment_id, **more):
    """A confirmed payment of the member."""
    return event(member, PAYMENT_CONFIRMED, payload={"payment": {"paymentId": payment_id, "total": total, **more}})


def currencies_of_orders(shop, member):
    """The currencies of the member's orders by their externalId."""
    path = f"/members/{member_id_of(shop, member)}/purchase-orders"
    orders = shop.administration.get(path, order="orderId,asc")["results"]
    return {purchase_order["externalId"]: purchase_order["currency"] for purchase_order in orders}


def test_an_order_or_payment_has_the_currency_of_the_organization_unless_it_names_one(shop, ana):
    assert set_currency(shop, "EUR")["currency"] == "EUR"
    shop.campaign(running(mint(1), rule='order.currency == "EUR"'), eventType=ORDER_CREATED)
    results = shop.track(order(ana, 10), order(ana, 10, currency="USD"), order(ana, 10, currency=None))
    assert [len(result["effects"]) for result in results] == [1, 0, 1]
    shop.campaign(running(mint(1), rule='payment.currency == "EUR"'), eventType=PAYMENT_CONFIRMED)
    results = shop.track(
        payment(ana, 1, "pay-1"), payment(ana, 1, "pay-2", currency="USD"), payment(ana, 1, "pay-3", currency="EUR")
    )
    assert [len(result["effects"]) for result in results] == [1, 0, 1]


def test_an_order_has_no_currency_if_neither_it_nor_the_organization_names_one(shop, ana):
    shop.campaign(running(mint(1), rule="order.currency == null"), eventType=ORDER_CREATED)
    assert [len(result["effects"]) for result in shop.track(order(ana, 1), order(ana, 1, currency="EUR"))] == [1, 0]


def test_a_campaign_applies_only_to_orders_in_its_currency(shop, ana):
    campaign = shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, currency="EUR")
    assert campaign["currency"] == "EUR"
    assert shop.track_one(order(ana, 10, currency="USD"))["effects"] == []
    assert shop.track_one(order(ana, 10))["effects"] == []
    [result] = shop.track(order(ana, 10, currency="USD"), dryRun=True)
    [explanation] = result["explain"]
    assert explanation["reason"] == {
        "code": "CURRENCY",
        "label": "the campaign is for EUR, the event is in USD",
        "start": None,
        "end": None,
        "actual": "USD",
    }
    shop.track_one(order(ana, 10, currency="EUR"))
    # A point for each whole unit of the currency.
    assert shop.balance(ana) == 10


def test_a_mission_counts_only_orders_in_its_currency(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=2, pointsAccrual=5, currency="EUR")
    assert mission["currency"] == "EUR"
    shop.track(order(ana, 1, currency="EUR"), order(ana, 1, currency="USD"), order(ana, 1))
    assert shop.balance(ana) == 0
    shop.track_one(order(ana, 1, currency="EUR"))
    assert shop.balance(ana) == 5


def test_a_later_event_of_an_order_cannot_name_another_currency(shop, ana):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.track_one(order(ana, 10, external_id="o-1", currency="EUR"))
    shop.track_one(order_update(ana, "o-1", "confirmed"))
    [result] = shop.track(order_update(ana, "o-1", "partially-returned", currency="USD", items=[{"total": 4}]))
    assert result["error"]["type"] == "/problems/currency-mismatch"
    assert result["error"]["detail"] == "The order o-1 is in EUR, the event names USD."
    # A point for each whole unit of the currency.
    assert shop.balance(ana) == 10
    shop.track_one(order_update(ana, "o-1", "partially-returned", currency="EUR", items=[{"total": 4}]))
    assert shop.balance(ana) == 10 - 4
    shop.track_one(order_update(ana, "o-1", "returned"))
    assert shop.balance(ana) == 0


# 10.90 dollars, or twice 10.90 euros, rounded down.
@pytest.mark.parametrize(("currency", "points"), [("USD", 10), ("EUR", 21)])
def test_amounts_can_depend_on_the_currency(shop, ana, currency, points):
    set_currency(shop, "EUR")
    amount = 'order.currency == "USD" ? floor(order.total) : floor(order.total * 2)'
    shop.campaign(running(mint(("=", amount))), eventType=ORDER_CREATED)
    currency_field = {} if currency == "EUR" else {"currency": currency}
    shop.track_one(order(ana, Decimal("10.90"), **currency_field))
    assert shop.balance(ana) == points


def test_stored_orders_keep_their_currency_when_the_organization_gets_another_one(shop, ana):
    shop.track_one(order(ana, 1, external_id="none"))
    set_currency(shop, "EUR")
    shop.track_one(order(ana, 1, external_id="euro"))
    assert set_currency(shop, "JPY")["currency"] == "JPY"
    shop.track_one(order(ana, 1, external_id="yen"))
    assert currencies_of_orders(shop, ana) == {"none": None, "euro": "EUR", "yen": "JPY"}
    shop.track_one(order_update(ana, "euro", "confirmed", currency="EUR"))
    # An order stored without a currency accepts later events in any currency.
    shop.track_one(order_update(ana, "none", "confirmed", currency="JPY"))
    assert shop.expect_refusal(order_update(ana, "yen", "confirmed", currency="EUR")) == "/problems/currency-mismatch"
    assert currencies_of_orders(shop, ana) == {"none": None, "euro": "EUR", "yen": "JPY"}


def test_an_order_created_by_request_has_its_currency(shop, ana):
    path = f"/members/{member_id_of(shop, ana)}/purchase-orders"
    body = {"externalId": "o-1", "type": "dine-in", "total": 1055, "currency": "JPY", "status": "confirmed"}
    purchase_order = shop.administration.post(path, body)["order"]
    assert purchase_order["currency"] == "JPY"
    assert shop.administration.get(f"{path}/{purchase_order['orderId']}")["order"] == purchase_order
    problem = shop.administration.post(path, {**body, "externalId": "o-2", "currency": "Yen"}, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/currency"]


def test_a_simulation_depends_on_the_currency_of_the_order(shop, ana):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, currency="EUR")

    def earnable_points(**more):
        """The points of each account that a simulated order of 10 earns."""
        body = {"loyaltyMemberId": ana, "order": {"total": 10, **more}}
        accounts = shop.integration.post("/simulations", body, expect=200)["simulation"]["earn"]["accounts"]
        return [account["available"] for account in accounts]

    assert earnable_points() == []
    assert earnable_points(currency="USD") == []
    assert earnable_points(currency="EUR") == [10]
    set_currency(shop, "EUR")
    assert earnable_points() == [10]
    assert earnable_points(currency="USD") == []
