"""Stacking groups over HTTP, and which of their actions apply to events."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from domain.ledger.records import PENDING, REVERTED
from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running

BODY = {"name": "Best offer", "mode": "best", "scope": "item", "active": False, "externalKey": "best"}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def group(administration):
    """A function that creates a group and returns its key."""

    def make(mode="best", **more):
        body = {"name": mode, "mode": mode, **more}
        return administration.post("/stacking-groups", body)["stackingGroup"]["stackingGroupKey"]

    return make


def percent_off(value, **params):
    return effect("discount", type="percentage", value=value, **params)


def amount_off(value, **params):
    return effect("discount", type="amount", value=value, **params)


def items(*totals):
    return [{"productCode": f"p-{index}", "total": Decimal(total)} for index, total in enumerate(totals)]


def applied_effects(result):
    """(action name, effect id, worth) of each effect that was applied."""
    return [(outcome["actionName"], outcome["effectId"], outcome["worth"]) for outcome in result["effects"]]


def test_a_group_is_stored_with_every_field(administration):
    stacking_group = administration.post("/stacking-groups", BODY)["stackingGroup"]
    assert stacking_group == {
        **BODY,
        "organizationId": stacking_group["organizationId"],
        "stackingGroupId": stacking_group["stackingGroupId"],
        "stackingGroupKey": str(uuid.UUID(stacking_group["stackingGroupKey"])),
        "createdAt": stacking_group["createdAt"],
        "updatedAt": stacking_group["createdAt"],
    }
    path = f"/stacking-groups/{stacking_group['stackingGroupId']}"
    assert administration.get(path) == {"stackingGroup": stacking_group}
    assert administration.get("/stacking-groups", externalKey="best")["results"] == [stacking_group]
    updated_group = administration.put(path, {"name": "Worst", "mode": "worst"})["stackingGroup"]
    assert updated_group == {
        **stacking_group,
        "name": "Worst",
        "mode": "worst",
        "updatedAt": updated_group["updatedAt"],
    }


def test_a_group_with_only_required_fields_is_active_and_has_the_scope_order(administration):
    stacking_group = administration.post("/stacking-groups", {"name": "All", "mode": "all"})["stackingGroup"]
    assert (stacking_group["scope"], stacking_group["active"], stacking_group["externalKey"]) == ("order", True, None)


@pytest.mark.parametrize("change", [{"mode": "any"}, {"scope": "line"}, {"name": " "}, {"mode": None}, {"size": 3}])
def test_an_invalid_group_is_refused(administration, change):
    administration.post("/stacking-groups", {"name": "All", "mode": "all", **change}, expect=400)


def test_a_group_is_unknown_in_another_organization(api, administration, group):
    key = group()
    [stacking_group] = administration.get("/stacking-groups")["results"]
    other = api.organization("Other").administration
    other.get(f"/stacking-groups/{stacking_group['stackingGroupId']}", expect=404)
    campaign = other.post("/campaigns", {"code": "c", "name": "C"})["campaign"]
    actions = f"/campaigns/{campaign['campaignId']}/actions"
    problem = other.post(actions, running(percent_off(5), stackingGroupKey=key), expect=404)
    assert problem["type"] == "/problems/unknown-stacking-group"


@pytest.fixture
def actions(administration):
    campaign = administration.post("/campaigns", {"code": "c", "name": "C"})["campaign"]
    return f"/campaigns/{campaign['campaignId']}/actions"


def faults(problem):
    return [fault["pointer"] for fault in problem["errors"]]


def test_an_action_cannot_be_in_a_stacking_group_and_an_exclusive_group(administration, actions, group):
    body = running(percent_off(5), stackingGroupKey=group(), exclusiveGroup="g")
    assert faults(administration.post(actions, body, expect=400)) == ["/stackingGroupKey"]


@pytest.mark.slow
def test_actions_that_compete_need_a_worth(shop, administration, actions, group):
    account_with_worth = shop.account(fiatPerPoint=Decimal("0.01"))["ledgerAccountKey"]
    books = CouponBooks(shop.organization)
    with_face_value, without_face_value = (
        books.make(type="codeless", **more)["couponBookKey"] for more in ({"faceValue": 2}, {"name": "Without"})
    )
    badge = shop.integration.post("/badges", {"name": "Buyer", "maxAmount": 9, "active": True})["badge"]["badgeKey"]
    for effects, expect in (
        ([percent_off(5)], 201),
        ([mint(5, ledgerAccountKey=account_with_worth)], 201),
        ([mint(5, ledgerAccountKey=("=", f'"{account_with_worth}"'))], 201),
        ([effect("assign-coupon", couponBookKey=with_face_value)], 201),
        ([mint(5)], 400),
        ([effect("assign-coupon", couponBookKey=without_face_value)], 400),
        ([effect("assign-badge", badgeKey=badge)], 400),
        ([], 400),
    ):
        for mode in ("best", "worst"):
            response = administration.post(actions, running(*effects, stackingGroupKey=group(mode)), expect=expect)
            assert expect == 201 or faults(response) == ["/stackingGroupKey"]
        administration.post(actions, running(*effects, stackingGroupKey=group("first")))


@pytest.mark.parametrize("mode", ["first", "best", "worst", "all"])
def test_actions_of_a_group_for_items_need_a_discount(shop, administration, actions, group, mode):
    account_with_worth = shop.account(fiatPerPoint=Decimal("0.01"))["ledgerAccountKey"]
    points, by_item = mint(5, ledgerAccountKey=account_with_worth), {"stackingGroupKey": group(mode, scope="item")}
    for effects in ([points], []):
        problem = administration.post(actions, running(*effects, **by_item), expect=400)
        assert (faults(problem), problem["detail"]) == (
            ["/stackingGroupKey"],
            "stackingGroupKey lets actions apply to single items, and an action has no discount.",
        )
    administration.post(actions, running(points, percent_off(5), **by_item))
    action = administration.post(actions, running(points))["action"]
    path = f"{actions}/{action['actionId']}"
    assert faults(administration.put(path, running(points, **by_item), expect=400)) == ["/stackingGroupKey"]
    administration.put(path, running(percent_off(5), **by_item))
    # The action is in the group, and cannot lose its discount.
    assert faults(administration.put(path, running(points, **by_item), expect=400)) == ["/stackingGroupKey"]


@pytest.mark.parametrize("mode", ["first", "best", "worst", "all"])
def test_the_scope_item_is_refused_while_an_action_of_the_group_gives_no_discount(
    shop, administration, actions, group, mode
):
    account_with_worth = shop.account(fiatPerPoint=Decimal("0.01"))["ledgerAccountKey"]
    in_group = {"stackingGroupKey": group("all", externalKey="group")}
    action = administration.post(actions, running(mint(5, ledgerAccountKey=account_with_worth), **in_group))["action"]
    [stacking_group] = administration.get("/stacking-groups", externalKey="group")["results"]
    path, body = f"/stacking-groups/{stacking_group['stackingGroupId']}", {"name": "G", "mode": mode, "scope": "item"}
    assert faults(administration.put(path, body, expect=400)) == ["/scope"]
    assert administration.get(path)["stackingGroup"]["scope"] == "order"
    administration.put(f"{actions}/{action['actionId']}", running(percent_off(5), **in_group))
    assert administration.put(path, body)["stackingGroup"]["scope"] == "item"


def test_an_action_without_a_worth_can_neither_join_nor_stay_in_a_group_that_compares(administration, actions, group):
    action = administration.post(actions, running(mint(5)))["action"]
    path = f"{actions}/{action['actionId']}"
    in_best_group = running(mint(5), stackingGroupKey=group("best"))
    assert faults(administration.put(path, in_best_group, expect=400)) == ["/stackingGroupKey"]
    administration.put(path, {**in_best_group, "stackingGroupKey": group("all", externalKey="all")})
    [all_group] = administration.get("/stacking-groups", externalKey="all")["results"]
    best = {"name": "Best", "mode": "best"}
    problem = administration.put(f"/stacking-groups/{all_group['stackingGroupId']}", best, expect=400)
    assert faults(problem) == ["/mode"]
    administration.put(path, {**in_best_group, "stackingGroupKey": None})
    administration.put(f"/stacking-groups/{all_group['stackingGroupId']}", best)


@pytest.mark.slow
def test_a_group_has_at_most_fifty_actions(administration, actions, group):
    key = group("all")
    for _ in range(50):
        last = administration.post(actions, running(percent_off(1), stackingGroupKey=key))["action"]
    assert faults(administration.post(actions, running(percent_off(1), stackingGroupKey=key), expect=400)) == [
        "/stackingGroupKey"
    ]
    # Actions of the group can still be changed.
    administration.put(f"{actions}/{last['actionId']}", running(percent_off(2), stackingGroupKey=key))


@pytest.fixture
def three_offers(shop, group):
    """The best of 10 %, 5.00, and 300 points of 0.03 each. For an order of 80 they are worth 8, 5 and 9."""
    account = shop.account(fiatPerPoint=Decimal("0.03"))["ledgerAccountKey"]
    key = group("best")
    points = {"scope": "member", "type": "points", "period": "monthly", "limit": 400}
    return shop.campaign(
        running(percent_off(10), name="A", stackingGroupKey=key),
        running(amount_off(5), name="B", stackingGroupKey=key),
        running(mint(300, ledgerAccountKey=account), name="C", stackingGroupKey=key),
        eventType=ORDER_CREATED,
        limitRules=[points],
        allowPartialApplicationOnLimit=True,
    )


@pytest.mark.parametrize("mode", ["full", "dryRun", "authorize"])
def test_the_best_action_applies_in_all_modes(shop, three_offers, mode):
    result = shop.track_one(order(shop.member(), 80), executionMode=mode)
    assert applied_effects(result) == [("C", "mint-points", 9)]


def test_the_worth_of_points_depends_on_the_rest_of_the_limit_which_a_cancellation_restores(shop, three_offers):
    member = shop.member()
    # The second order could get only 100 points, which are worth 3.
    first, second, third = (shop.track_one(order(member, 80)) for _ in range(3))
    assert [applied_effects(result) for result in (first, second, third)] == [
        [("C", "mint-points", 9)],
        [("A", "discount", 8)],
        [("A", "discount", 8)],
    ]
    shop.integration.post(f"/events/{first['loyaltyEventKey']}/cancel", {}, expect=200)
    assert applied_effects(shop.track_one(order(member, 80))) == [("C", "mint-points", 9)]
    shop.check_ledger()


def test_an_authorized_order_holds_only_the_winners_points_until_cancelled(shop, three_offers):
    result = shop.track_one(order(shop.member(), 80), executionMode="authorize")
    transactions = [
        (transaction.status, transaction.amount) for transaction in shop.rows("ledger_transactions", "status, amount")
    ]
    assert transactions == [(PENDING, 300)]
    assert [counter.used for counter in shop.rows("campaign_limit_counters", "used")] == [300]
    shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
    # The release of the waiting points is a transaction as well.
    assert [transaction.status for transaction in shop.rows("ledger_transactions", "status")] == [REVERTED, REVERTED]
    assert [counter.used for counter in shop.rows("campaign_limit_counters", "used")] == [0]
    shop.check_ledger()


def test_a_dry_run_reports_why_the_other_actions_did_not_apply(shop, three_offers):
    result = shop.track_one(order(shop.member(), 80), executionMode="dryRun")
    actions = {action["name"]: action["actionId"] for action in three_offers["actions"]}
    reasons = {entry["actionName"]: entry.get("reason") for entry in result["explain"] if entry["actionId"]}
    assert reasons["C"] is None
    assert (reasons["A"]["code"], reasons["A"]["actual"]) == (
        "BEATEN_BY",
        {"actionId": actions["C"], "worth": 8, "winnerWorth": 9},
    )
    assert reasons["B"]["actual"] == {"actionId": actions["C"], "worth": 5, "winnerWorth": 9}


def test_the_next_best_action_applies_after_the_campaign_of_the_best_is_deactivated(shop, group):
    key = group("best")
    best = shop.campaign(running(percent_off(30), name="A", stackingGroupKey=key), eventType=ORDER_CREATED)
    shop.campaign(running(percent_off(20), name="B", stackingGroupKey=key), eventType=ORDER_CREATED)
    assert applied_effects(shop.track_one(order(shop.member(), 100))) == [("A", "discount", 30)]
    path = f"/campaigns/{best['campaignId']}"
    shop.administration.put(path, {"code": best["code"], "name": "Off", "active": False, "eventType": ORDER_CREATED})
    assert applied_effects(shop.track_one(order(shop.member(), 100))) == [("B", "discount", 20)]


def test_each_item_takes_its_best_action(shop, group):
    key = group("best", scope="item")
    shop.campaign(
        running(percent_off(20), name="A", stackingGroupKey=key),
        running(amount_off(5, per="item"), name="B", stackingGroupKey=key),
        eventType=ORDER_CREATED,
    )
    result = shop.track_one(order(shop.member(), 40, items=items(30, 10)))
    assert applied_effects(result) == [("A", "discount", 6), ("B", "discount", 5)]
    assert [outcome["allocation"] for outcome in result["effects"]] == [
        [{"itemIndex": 0, "amount": 6}],
        [{"itemIndex": 1, "amount": 5}],
    ]
    assert result["discountTotal"] == 11


@pytest.mark.parametrize("mode", ["full", "dryRun"])
def test_a_coupon_that_the_book_refuses_is_worth_nothing(shop, group, mode):
    book = CouponBooks(shop.organization).make(type="codeless", faceValue=20, maxCouponCount=1)
    key = group("best")
    coupon = effect("assign-coupon", couponBookKey=book["couponBookKey"])
    shop.campaign(
        running(coupon, name="coupon", stackingGroupKey=key),
        running(amount_off(5), name="cash", stackingGroupKey=key),
        eventType=ORDER_CREATED,
    )
    first, second = shop.member(), shop.member()
    assert applied_effects(shop.track_one(order(first, 100), executionMode=mode)) == [("coupon", "assign-coupon", 20)]
    shop.track_one(order(first, 100))
    assert applied_effects(shop.track_one(order(second, 100), executionMode=mode)) == [("cash", "discount", 5)]
    usages = shop.integration.get(f"/members/{first}/coupon-usages")["results"]
    assert [usage["amountAssigned"] for usage in usages] == [1]


def test_an_action_that_loses_assigns_no_coupon(shop, group):
    book = CouponBooks(shop.organization).make("A", "B", type="list", faceValue=2)
    key, member = group("best"), shop.member()
    shop.campaign(
        running(effect("assign-coupon", couponBookKey=book["couponBookKey"]), stackingGroupKey=key),
        running(amount_off(5), name="cash", stackingGroupKey=key),
        eventType=ORDER_CREATED,
    )
    assert applied_effects(shop.track_one(order(member, 100))) == [("cash", "discount", 5)]
    assert shop.integration.get(f"/members/{member}/coupons")["results"] == []
    assert CouponBooks(shop.organization).get(book)["totalAssigned"] == 0
    types = [event["eventType"] for event in shop.events(member)]
    assert "coupon-code-assigned" not in types


def test_an_exclusive_campaign_excludes_all_others(shop):
    shop.campaign(running(amount_off(10), name="ordinary"), eventType=ORDER_CREATED)
    exclusive_campaign = shop.campaign(
        running(percent_off(20), name="alone", priority=9), eventType=ORDER_CREATED, exclusive=True
    )
    result = shop.track_one(order(shop.member(), 100), executionMode="dryRun")
    assert applied_effects(result) == [("alone", "discount", 20)]
    [reason] = [entry["reason"] for entry in result["explain"] if entry["actionName"] == "ordinary"]
    assert (reason["code"], reason["actual"]) == ("NOT_COMBINABLE", exclusive_campaign["campaignId"])


# The discount is 20 % of 30, so 64 of 70 remain.
@pytest.mark.parametrize(("threshold", "balance"), [(68, 0), (60, 7)])
def test_rules_see_the_order_after_discounts(shop, threshold, balance):
    shirts = 'item.productCode == "p-0"'
    shop.campaign(
        running(percent_off(20, itemFilter=("=", shirts))),
        running(mint(7), rule=f"orderAfter.total >= {threshold}", priority=2),
        eventType=ORDER_CREATED,
    )
    member = shop.member()
    assert shop.track_one(order(member, 70, items=items(30, 40)))["discountTotal"] == 6
    assert shop.balance(member) == balance


def test_order_after_is_null_for_an_event_without_an_order(shop):
    shop.campaign(running(mint(1), rule="orderAfter == null"), running(percent_off(10)), eventType=GENERIC)
    member = shop.member()
    shop.track_one(event(member))
    assert shop.balance(member) == 1


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"base": "whole"}, "value"),
        ({"per": "line"}, "value"),
        ({"maxAmount": 0}, "value"),
        ({"itemFilter": "item.total > 3"}, "value"),
        ({"itemFilter": ("=", "item.totl > 3")}, "expression"),
        ({"itemFilter": ("=", "item.total")}, "expression"),
        ({"maxAmount": ("=", "item.total")}, "expression"),
    ],
)
def test_invalid_parameters_of_a_discount_are_refused_with_their_field(administration, actions, params, field):
    problem = administration.post(actions, running(percent_off(5, **params)), expect=400)
    assert faults(problem) == [f"/effects/items/0/params/2/{field}"]


def test_a_simulation_reports_the_effects_and_the_discount_of_tracking(shop, three_offers):
    member, basket = shop.member(), {"total": 80, "items": items(50, 30)}
    body = {"loyaltyMemberId": member, "order": basket}
    earn = shop.integration.post("/simulations", body, expect=200)["simulation"]["earn"]
    result = shop.track_one(order(member, 80, items=basket["items"]))
    assert [{**outcome, "status": "executed"} for outcome in earn["effects"]] == result["effects"]
    assert earn["discountTotal"] == result["discountTotal"]
