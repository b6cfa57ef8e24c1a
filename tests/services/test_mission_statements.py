"""Statements about missions: none for events that no mission counts, and the same number for 1 event and for 100."""

from __future__ import annotations

import pytest

from tests.builders.missions import create, new_badge
from tests.builders.statements import count_statements
from tests.builders.tracking import ORDER_CREATED, Shop, event, order


@pytest.fixture
def shop(api):
    return Shop(api.organization())


@pytest.mark.slow
def test_tracking_costs_as_many_statements_for_1_event_as_for_100(shop):
    badge = new_badge(shop, maxAmount=10**6)
    for period in ("daily", "weekly", "yearly"):
        create(shop, goalCount=1, pointsAccrual=1, badgeKey=badge, repetitionPeriod=period, periodLimit=10**6)
    create(shop, eventType="mission-status-updated")
    members = [shop.member() for _ in range(20)]

    def cost(size):
        with count_statements(shop.engine) as statements:
            results = shop.track(*(event(members[number % 20]) for number in range(size)))
        entries = [entry for result in results for entry in result["missions"]]
        assert len(entries) == 3 * size
        assert {reward["status"] for entry in entries for reward in entry["rewards"]} == {"executed"}
        # The ids of events that the server reports are reserved in numbers that double.
        return len([statement for statement in statements if "nextval" not in statement])

    cost(20)
    assert cost(1) == cost(10) == cost(100)


def test_events_that_no_mission_counts_take_no_statement_about_missions(shop):
    create(shop, eventType=ORDER_CREATED)
    ana = shop.member()
    shop.track(event(ana))
    with count_statements(shop.engine) as statements:
        shop.track(event(ana))
    assert [statement for statement in statements if "mission" in statement] == []
    # The mission counts an order.
    with count_statements(shop.engine) as statements:
        shop.track(order(ana, 5))
    assert len([statement for statement in statements if "mission" in statement]) == 3
