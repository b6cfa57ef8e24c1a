"""Real purchases earn points, which are compared with totals that are computed outside the product."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest

from tests.purchases.cdnow import (
    AT_LENGTH,
    FIRST_ORDERS,
    MEMBERS,
    ORDERS,
    POINTS,
    TOP_MEMBER,
    TOP_POINTS,
    Order,
    orders,
    reckon,
)
from tests.purchases.shop import Shop, mint

LIMIT = 100


def without_zeros(figures):
    return {key: value for key, value in figures.items() if value}


def points_of(result):
    """The points that a result reports as minted."""
    return sum(
        param["value"]
        for effect in result["effects"]
        for param in effect["params"]
        if param["id"] == "amount" and effect["status"] == "executed"
    )


@pytest.mark.parametrize("count", AT_LENGTH)
def test_each_whole_dollar_earns_a_point_and_repetitions_earn_nothing(api, count):
    purchases = orders(count)
    shop = Shop.new(api, purchases)
    shop.campaign(mint("floor(order.total)"))
    results = shop.track(purchases)
    balances = shop.balances()

    expected_balances: Counter[str] = Counter()
    for order in purchases:
        expected_balances[order.customer] += int(order.total)
    assert balances == without_zeros(expected_balances)
    if count == ORDERS:
        assert (len(purchases), len(expected_balances)) == (ORDERS, MEMBERS)
        assert sum(balances.values()) == POINTS
        top_member = max(balances, key=balances.__getitem__)
        assert (top_member, balances[top_member]) == (TOP_MEMBER, TOP_POINTS)
    assert all(points_of(result) == int(order.total) for order, result in zip(purchases, results, strict=True))
    assert shop.faults() == []

    sizes_before = shop.sizes()
    assert sizes_before["events"] == sizes_before["purchase_orders"] == count
    # The same requests again.
    assert shop.track(purchases) == results
    assert shop.sizes() == sizes_before
    assert shop.balances() == balances


@pytest.mark.parametrize("partially", [False, True], ids=["whole mints only", "partial mints"])
@pytest.mark.parametrize("count", AT_LENGTH)
def test_double_points_stop_at_a_monthly_limit(api, count, partially):
    purchases = orders(count)
    shop = Shop.new(api, purchases)
    shop.campaign(
        mint("floor(order.total) * (order.total >= 20 ? 2 : 1)"),
        limitRules=[{"scope": "member", "type": "points", "period": "monthly", "limit": LIMIT}],
        allowPartialApplicationOnLimit=partially,
    )
    results = shop.track(purchases)

    reckoning = reckon(
        purchases, [lambda total: int(total) * (2 if total >= 20 else 1)], limit=LIMIT, partially=partially
    )
    assert shop.balances() == without_zeros(reckoning.minted)
    assert shop.discarded_points() == without_zeros(reckoning.discarded)
    assert shop.counters() == without_zeros(reckoning.used)
    assert sum(result["limitDiscardedTotalAmount"] for result in results) == sum(reckoning.discarded.values())
    limited_effects = [
        effect
        for result in results
        for effect in result["effects"]
        if effect.get("error", {}).get("type", "").endswith("limit-reached")
    ]
    assert len(limited_effects) == reckoning.cut
    assert shop.faults() == []


@pytest.mark.parametrize("partially", [False, True], ids=["whole mints only", "partial mints"])
def test_a_monthly_limit_is_applied_to_each_mint_of_an_order_and_not_to_their_sum(api, partially):
    purchases = orders(FIRST_ORDERS)
    shop = Shop.new(api, purchases)
    shop.campaign(
        mint("floor(order.total)"),
        mint("floor(order.total)", "order.total >= 20"),
        pointsMonthlyLimitPerMember=LIMIT,
        allowPartialApplicationOnLimit=partially,
    )
    shop.track(purchases)
    mints = [int, lambda total: int(total) if total >= 20 else 0]
    reckoning = reckon(purchases, mints, limit=LIMIT, partially=partially)
    assert shop.balances() == without_zeros(reckoning.minted)
    assert shop.discarded_points() == without_zeros(reckoning.discarded)
    assert shop.counters() == without_zeros(reckoning.used)


def test_the_reckoning_depends_on_the_order_of_purchases_and_on_partial_mints():
    """So the comparisons above would fail if the product applied the limit differently."""
    order_of_60 = Order(number=1, customer="1", date="19970105", total=Decimal(60))
    order_of_90 = Order(number=2, customer="1", date="19970105", total=Decimal(90))
    # One mint of a point for each whole dollar. The limit of 100 allows only the first of the two mints, or a part of
    # the second one.
    mints = [int]
    assert reckon([order_of_60, order_of_90], mints, limit=100, partially=False).minted == {"1": 60}
    assert reckon([order_of_90, order_of_60], mints, limit=100, partially=False).minted == {"1": 90}
    partial_reckoning = reckon([order_of_60, order_of_90], mints, limit=100, partially=True)
    assert partial_reckoning.minted == {"1": 100}
    assert partial_reckoning.discarded == {"1": 60 + 90 - 100}
