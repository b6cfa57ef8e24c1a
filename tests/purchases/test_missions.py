"""Achievements of real customers in a mission, compared with a count outside the product."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.builders.missions import create
from tests.builders.tracking import Shop as TrackingShop
from tests.purchases.cdnow import AT_LENGTH, orders
from tests.purchases.shop import EVENT_TYPE, Shop

GOAL, MAX_REPETITIONS = 3, 5


@pytest.mark.parametrize("count", AT_LENGTH)
def test_every_three_orders_are_an_achievement_up_to_five_times(api, count):
    purchases = orders(count)
    shop = Shop.new(api, purchases)
    create(
        TrackingShop(shop.organization),
        eventType=EVENT_TYPE,
        goalCount=GOAL,
        maxRepetitions=MAX_REPETITIONS,
        pointsAccrual=10,
    )
    results = shop.track(purchases)

    order_counts = Counter(order.customer for order in purchases)
    expected_times = {
        customer: min(MAX_REPETITIONS, order_count // GOAL) for customer, order_count in order_counts.items()
    }
    # Some customers have no achievement, some have one, and so on.
    assert set(expected_times.values()) == set(range(MAX_REPETITIONS + 1))

    rows = shop.ask(
        "SELECT loyalty_member_id, counted, times_achieved FROM member_missions JOIN members"
        " USING (organization_id, member_id) WHERE organization_id = :organization_id"
    )
    assert {member: times for member, _, times in rows} == expected_times
    assert {member: counted_orders for member, counted_orders, _ in rows} == {
        customer: min(order_count, GOAL * MAX_REPETITIONS) for customer, order_count in order_counts.items()
    }
    assert shop.balances() == {customer: 10 * times for customer, times in expected_times.items() if times}

    achievements = sum(expected_times.values())
    assert sum(mission["achieved"] for result in results for mission in result["missions"]) == achievements
    [[event_count]] = shop.ask(
        "SELECT count(*) FROM events WHERE organization_id = :organization_id AND event_type = 'mission-status-updated'"
    )
    assert event_count == achievements
    assert shop.faults() == []
