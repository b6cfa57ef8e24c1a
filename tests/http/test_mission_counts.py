"""Missions that count by an expression, such as coffees instead of orders."""

from __future__ import annotations

import pytest

from handlers import metrics
from tests.builders.missions import MissionCount, body, counters, create, member_id_of, times_and_count
from tests.builders.tracking import ORDER_CREATED, Shop, event, order, order_update

COFFEES = 'order.items.filter(i, i.categoryCode == "coffee").map(i, i.quantity).sum()'


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(shop):
    return shop.member()


def basket(coffees, cakes=0):
    """The items of an order: coffees and cakes, each for 3."""
    items = (("ESP-1", "coffee", coffees), ("CAKE-9", "cake", cakes))
    return [
        {"productCode": code, "categoryCode": category, "quantity": quantity, "total": 3 * quantity}
        for code, category, quantity in items
        if quantity
    ]


def test_the_tenth_coffee_is_rewarded_and_not_the_tenth_order(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=10, countExpression=COFFEES, pointsAccrual=50)
    assert mission["countExpression"] == COFFEES
    counts = [
        counters(shop.track_one(order(ana, 9, items=basket(*coffees_and_cakes))))
        for coffees_and_cakes in ((3, 1), (0, 4), (6,), (2, 1))
    ]
    assert counts == [
        [MissionCount(before=0, after=3, achieved=False, times=0)],
        [],
        [MissionCount(before=3, after=9, achieved=False, times=0)],
        [MissionCount(before=9, after=1, achieved=True, times=1)],
    ]
    assert shop.balance(ana) == 50
    # One order can achieve the mission several times: 1 + 25 coffees are two goals of 10, and 6.
    assert counters(shop.track_one(order(ana, 90, items=basket(25)))) == [
        MissionCount(before=1, after=6, achieved=True, times=3)
    ]
    assert shop.balance(ana) == 150
    shop.check_ledger()


def test_events_of_both_interfaces_are_counted_by_the_expression(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=10, countExpression=COFFEES)
    first = order(ana, 9, items=basket(4))
    shop.track_one(first)
    second = order(ana, 9, items=basket(3))
    second |= {"organizationId": shop.organization.id, "memberId": member_id_of(shop, second.pop("loyaltyMemberId"))}
    shop.administration.post("/events/track", second, expect=200)
    assert times_and_count(shop, ana, mission) == (0, 7)


def test_an_event_counts_for_no_mission_whose_item_matcher_costs_too_much(shop, ana):
    condition = {"field": "customAttributes.labels", "operator": "contains", "value": "fair"}
    matcher = {"operator": "OR", "conditions": [condition] * 50}
    costly_mission = create(shop, eventType=ORDER_CREATED, inlineMatcher=matcher, goalCount=5)
    plain_mission = create(shop, eventType=ORDER_CREATED, goalCount=5)
    [coffee] = basket(1)
    few, many = [{**coffee, "customAttributes": {"labels": [0] * count + ["fair"]}} for count in (100, 30_000)]
    assert shop.track_one(order(ana, 3, items=[few]))["errors"] == []
    assert times_and_count(shop, ana, costly_mission) == (0, 1)
    result = shop.track_one(order(ana, 3, items=[many]))
    [error] = result["errors"]
    assert (error["missionId"], error["actionId"]) == (costly_mission["missionId"], None)
    assert error["message"] == "the expression costs more than its budget allows"
    assert times_and_count(shop, ana, costly_mission) == (0, 1)
    assert times_and_count(shop, ana, plain_mission) == (0, 2)


def test_the_coffees_of_a_returned_order_and_their_achievements_no_longer_count(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=10, countExpression=COFFEES, pointsAccrual=50)
    large_order = order(ana, 36, items=basket(12))
    shop.track(order(ana, 9, items=basket(3)), large_order)
    # 3 + 12 coffees.
    assert times_and_count(shop, ana, mission) == (1, 5)
    name = large_order["payload"]["order"]["externalId"]
    shop.track(order_update(ana, name, "confirmed"), order_update(ana, name, "returned"))
    assert times_and_count(shop, ana, mission) == (0, 3)
    assert shop.balance(ana) == 0


def test_an_event_whose_count_cannot_be_evaluated_does_not_count_and_reports_an_error(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, countExpression=COFFEES)
    other = create(shop, eventType=ORDER_CREATED)
    # The coffee has no quantity.
    items = [{"productCode": "ESP-1", "categoryCode": "coffee", "total": 3}]
    result = shop.track_one(order(ana, 3, items=items))
    assert [entry["missionId"] for entry in result["missions"]] == [other["missionId"]]
    [error] = result["errors"]
    assert (error["missionId"], error["campaignId"], error["actionId"]) == (mission["missionId"], None, None)
    assert error["position"]["start"] >= 0
    [dry_run_result] = shop.track(order(ana, 3, items=items), executionMode="dryRun")
    assert dry_run_result["errors"] == [error]
    labels = f'mission="{mission["missionId"]}",organization="{shop.organization.id}"'
    assert f"loyalty_mission_count_errors_total{{{labels}}} 1.0" in metrics.exposition().decode()


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("order.items.size() > 1", "type"),
        ("order.itmes.size()", "unknown-field"),
        ('order.items.filter(i, matches(i, "11111111-2222-4333-8444-555555555555")).size()', "unknown-matcher"),
        ('missions["11111111-2222-4333-8444-555555555555"].timesAchieved', "unknown-key"),
    ],
)
def test_an_invalid_count_expression_is_refused_with_its_fault(shop, expression, code):
    problem = shop.administration.post("/missions", body(countExpression=expression), expect=400)
    [fault] = problem["errors"]
    assert (fault["pointer"], fault["code"]) == ("/countExpression", code)


def test_a_count_can_depend_on_matchers_and_on_other_missions(shop, ana):
    conditions = [{"field": "categoryCode", "operator": "equals", "value": "coffee"}]
    matcher = {"name": "Coffee", "type": "item-matcher", "matcher": {"operator": "AND", "conditions": conditions}}
    key = shop.administration.post("/matchers", matcher)["matcher"]["matcherKey"]
    first = create(shop, goalCount=1)
    expression = f'order.items.filter(i, matches(i, "{key}")).size() + missions["{first["missionKey"]}"].timesAchieved'
    second = create(shop, eventType=ORDER_CREATED, goalCount=100, countExpression=expression)
    shop.track(event(ana), event(ana))
    # The matcher matches one of two items, and the first mission was achieved twice.
    shop.track_one(order(ana, 9, items=basket(2, 2)))
    assert times_and_count(shop, ana, second) == (0, 3)


def test_a_mission_whose_expression_is_removed_counts_events_again(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=10, countExpression="4")
    shop.track_one(order(ana, 9))
    path, mission_body = f"/missions/{mission['missionId']}", body(eventType=ORDER_CREATED, goalCount=10)
    assert (
        shop.administration.put(path, {**mission_body, "countExpression": None})["mission"]["countExpression"] is None
    )
    shop.track_one(order(ana, 9))
    # 4 by the expression, and one event without it.
    assert times_and_count(shop, ana, mission) == (0, 4 + 1)
