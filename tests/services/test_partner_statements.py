"""Statements of payment intents: about the same number for any number of products, campaigns and missions."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.missions import create as create_mission
from tests.builders.partners import PAYMENT, Partner, customer
from tests.builders.statements import count
from tests.builders.tracking import Shop, running


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def products(number):
    return [{"sku": f"sku-{n}", "total": n, "quantity": 1} for n in range(number)]


def add_campaigns_and_missions(shop, number):
    for _ in range(number):
        shop.campaign(running(mint(1)), eventType=PAYMENT)
        create_mission(shop, eventType=PAYMENT, goalCount=1, pointsAccrual=1)


@pytest.mark.slow
def test_a_payment_of_100_products_in_16_campaigns_and_missions_takes_about_as_many_statements_as_of_1(shop):
    partner = Partner.of(shop)
    members = [shop.member() for _ in range(2)]

    def cost(size, **more):
        return count(shop.engine, lambda: partner.pay(members[0], products=products(size), **more))

    add_campaigns_and_missions(shop, 1)
    partner.pay(members[0])
    cost_of_one = cost(1)
    assert abs(cost(100) - cost_of_one) <= 2
    add_campaigns_and_missions(shop, 15)
    partner.pay(members[0])
    # Ids are reserved in numbers that double; nothing else grows.
    assert abs(cost(100) - cost_of_one) <= 6
    assert cost_of_one <= 40


def test_a_payment_that_enrols_its_customer_takes_at_most_10_more_statements(shop):
    partner = Partner.of(shop)
    add_campaigns_and_missions(shop, 1)
    partner.pay(customer(), forceUserSubscription=True)
    member = shop.member()
    statements_of_member = count(shop.engine, lambda: partner.pay(member))
    info = {"userGovId": "30111222", "data": {str(n): n for n in range(200)}}
    statements_of_customer = count(
        shop.engine, lambda: partner.pay(customer(), forceUserSubscription=True, memberInfo=info)
    )
    assert statements_of_member < statements_of_customer <= statements_of_member + 10
