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
    """The loyaltyMemberId of a new member."""
    return shop.member()


def basket(coffees=0, cakes=0):
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
    baskets = [basket(coffees=3, cakes=1), basket(cakes=4), basket(coffees=6), basket(coffees=2, cakes=1)]
    assert [counters(shop.track_one(order(ana, 9, items=items))) for items in baskets] == [
        [MissionCount(before=0, after=3, achieved=False, times=0)],
        [],
        [MissionCount(before=3, after=9, achieved=False, times=0)],
        [MissionCount(before=9, after=1, achieved=True, times=1)],
    ]
    assert shop.balance(ana) == 50
    # One order can achieve the mission several times: 1 + 25 coffees are two goals of 10, and 6.
    assert counters(shop.track_one(order(ana, 90, items=basket(coffees=25)))) == [
        MissionCount(before=1, after=6, achieved=True, times=3)
    ]
    assert shop.balance(ana) == 3 * 50
    shop.check_ledger()


def test_events_of_both_interfaces_are_counted_by_the_expression(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=10, countExpression=COFFEES)
    shop.track_one(order(ana, 9, items=basket(coffees=4)))
    # The administration names members by the memberId.
    administration_order = order(ana, 9, items=basket(coffees=3))
    del administration_order["loyaltyMemberId"]
    administration_order |= {"organizationId": shop.organization.id, "memberId": member_id_of(shop, ana)}
    shop.administration.post("/events/track", administration_order, expect=200)
    assert times_and_count(shop, ana, mission) == (0, 4 + 3)


def test_an_event_counts_for_no_mission_whose_item_matcher_costs_too_much(shop, ana):
    condition = {"field": "customAttributes.labels", "operator": "contains", "value": "fair"}
    matcher = {"operator": "OR", "conditions": [condition] * 50}
    costly_mission = create(shop, eventType=ORDER_CREATED, inlineMatcher=matcher, goalCount=5)
    plain_mission = create(shop, eventType=ORDER_CREATED, goalCount=5)
    [coffee] = basket(coffees=1)
    item_with_few_labels, item_with_many_labels = (
        {**coffee, "customAttributes": {"labels": [0] * count + ["fair"]}} for count in (100, 30_000)
    )
    assert shop.track_one(order(ana, 3, items=[item_with_few_labels]))["errors"] == []
    assert times_and_count(shop, ana, costly_mission) == (0, 1)
    result = shop.track_one(order(ana, 3, items=[item_with_many_labels]))
    [error] = result["errors"]
    assert (error["missionId"], error["actionId"]) == (costly_mission["missionId"], None)
    assert error["message"] == "the expression costs more than its budget allows"
    assert times_and_count(shop, ana, costly_mission) == (0, 1)
    assert times_and_count(shop, ana, plain_mission) == (0, 2)


def test_the_coffees_of_a_returned_order_and_their_achievements_no_longer_count(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=10, countExpression=COFFEES, pointsAccrual=50)
    large_order = order(ana, 36, items=basket(coffees=12))
    shop.track(order(ana, 9, items=basket(coffees=3)), large_order)
    # 3 + 12 coffees: the goal of 10, and 5.
    assert times_and_count(shop, ana, mission) == (1, 5)
    name = large_order["payload"]["order"]["externalId"]
    shop.track(order_update(ana, name, "confirmed"), order_update(ana, name, "returned"))
    assert times_and_count(shop, ana, mission) == (0, 3)
    assert shop.balance(ana) == 0


def test_an_event_whose_count_cannot_be_evaluated_does_not_count_and_reports_an_error(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, countExpression=COFFEES)
    mission_without_expression = create(shop, eventType=ORDER_CREATED)
    # The coffee has no quantity.
    items = [{"productCode": "ESP-1", "categoryCode": "coffee", "total": 3}]
    result = shop.track_one(order(ana, 3, items=items))
    assert [entry["missionId"] for entry in result["missions"]] == [mission_without_expression["missionId"]]
    [error] = result["errors"]
    assert (error["missionId"], error["campaignId"], error["actionId"]) == (mission["missionId"], None, None)
    assert error["position"] == {"start": 0, "end": len(COFFEES)}
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
    first_mission = create(shop, goalCount=1)
    expression = (
        f'order.items.filter(i, matches(i, "{key}")).size() + missions["{first_mission["missionKey"]}"].timesAchieved'
    )
    second_mission = create(shop, eventType=ORDER_CREATED, goalCount=100, countExpression=expression)
    shop.track(event(ana), event(ana))
    # The matcher matches one of two items, and the first mission was achieved twice.
    shop.track_one(order(ana, 9, items=basket(coffees=2, cakes=2)))
    assert times_and_count(shop, ana, second_mission) == (0, 1 + 2)


def test_a_mission_whose_expression_is_removed_counts_events_again(shop, ana):
    mission = create(shop, eventType=ORDER_CREATED, goalCount=10, countExpression="4")
    shop.track_one(order(ana, 9))
    path, mission_body = f"/missions/{mission['missionId']}", body(eventType=ORDER_CREATED, goalCount=10)
    updated_mission = shop.administration.put(path, {**mission_body, "countExpression": None})["mission"]
    assert updated_mission["countExpression"] is None
    shop.track_one(order(ana, 9))
    # 4 by the expression, and one event without it.
    assert times_and_count(shop, ana, mission) == (0, 4 + 1)
