"""Timelines of real customers contain every order and every point once."""

from __future__ import annotations

import pytest

from domain.timeline.rows import EVENT, POINTS
from handlers.services.members.timeline import TimelineQuery, timeline_of
from persistence.members import MEMBERS
from tests.purchases.cdnow import ORDERS, orders
from tests.purchases.shop import Shop, mint

# Few of the first orders have the same customer; the whole file has customers with hundreds of orders.
FIRST_ORDERS = 300


def timeline(db, member):
    """All rows of the timeline, read page by page."""
    rows, query = [], TimelineQuery(limit=100)
    while True:
        page = timeline_of(db, member, query)
        rows += page.rows
        if page.next is None:
            return rows
        query = TimelineQuery(limit=100, positions=page.next)


def executed_effects(result):
    """The effects of an event that were executed."""
    return [effect for effect in result["effects"] if effect["status"] == "executed"]


@pytest.mark.parametrize(
    "count",
    [pytest.param(FIRST_ORDERS, id="some"), pytest.param(ORDERS, id="the whole file", marks=pytest.mark.stress)],
)
def test_the_timelines_of_customers_contain_each_order_and_point_once(api, count):
    purchases = orders(count)
    shop = Shop.new(api, purchases)
    shop.campaign(mint("floor(order.total)"))
    results = {result["systemUniqueKey"]: result for result in shop.track(purchases)}
    balances = shop.balances()
    order_keys = set()
    with api.engine.connect() as db:
        for customer in sorted({order.customer for order in purchases}):
            rows = timeline(db, MEMBERS.find_by(db, shop.organization.id, loyalty_member_id=customer))
            events = {row.loyalty_event_id: row.details for row in rows if row.kind == EVENT}
            order_keys |= {details["systemUniqueKey"] for details in events.values()}
            points_of_events: dict[int, int] = {}
            for row in rows:
                if row.kind == POINTS:
                    assert row.details["source"] == "campaign"
                    points_before = points_of_events.get(row.loyalty_event_id, 0)
                    points_of_events[row.loyalty_event_id] = points_before + row.details["amount"]
            assert sum(points_of_events.values()) == balances.get(customer, 0)
            for event_id, details in events.items():
                shown_effects = executed_effects(details)
                reported_effects = executed_effects(results[details["systemUniqueKey"]])
                assert [effect["effectId"] for effect in shown_effects] == [
                    effect["effectId"] for effect in reported_effects
                ]
                assert sum(effect["amount"] for effect in shown_effects) == points_of_events.get(event_id, 0)
    assert order_keys == {order.key for order in purchases} == results.keys()
