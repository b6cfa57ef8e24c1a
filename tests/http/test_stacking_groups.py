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


def percent_off(percentage, **params):
    return effect("discount", type="percentage", value=percentage, **params)


def amount_off(amount, **params):
    return effect("discount", type="amount", value=amount, **params)


def items(*totals):
    """Items p-0, p-1 and so on of an order, of these totals."""
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
def test_an_invalid_group_is_refused_with_the_field(administration, change):
    problem = administration.post("/stacking-groups", {"name": "All", "mode": "all", **change}, expect=400)
    # A mode that is null has two faults: it is no text, and no mode.
    assert set(faults(problem)) == {f"/{field}" for field in change}


def test_a_group_is_unknown_in_another_organization(api, administration, group):
    key = group()
    [stacking_group] = administration.get("/stacking-groups")["results"]
    foreign_administration = api.organization("Other").administration
    foreign_administration.get(f"/stacking-groups/{stacking_group['stackingGroupId']}", expect=404)
    campaign = foreign_administration.post("/campaigns", {"code": "c", "name": "C"})["campaign"]
    foreign_path = f"/campaigns/{campaign['campaignId']}/actions"
    problem = foreign_administration.post(foreign_path, running(percent_off(5), stackingGroupKey=key), expect=404)
    assert problem["type"] == "/problems/unknown-stacking-group"


@pytest.fixture
def actions_path(administration):
    """The path of the actions of a new campaign."""
    campaign = administration.post("/campaigns", {"code": "c", "name": "C"})["campaign"]
    return f"/campaigns/{campaign['campaignId']}/actions"


def faults(problem):
    """The pointers of the faults of a 400."""
    return [fault["pointer"] for fault in problem["errors"]]


def test_an_action_cannot_be_in_a_stacking_group_and_an_exclusive_group(administration, actions_path, group):
    body = running(percent_off(5), stackingGroupKey=group(), exclusiveGroup="g")
    assert faults(administration.post(actions_path, body, expect=400)) == ["/stackingGroupKey"]


@pytest.mark.slow
def test_actions_that_compete_need_a_worth(shop, administration, actions_path, group):
    account_with_worth = shop.account(fiatPerPoint=Decimal("0.01"))["ledgerAccountKey"]
    books = CouponBooks(shop.organization)
    with_face_value = books.make(type="codeless", faceValue=2)["couponBookKey"]
    without_face_value = books.make(type="codeless", name="Without")["couponBookKey"]
    badge = shop.integration.post("/badges", {"name": "Buyer", "maxAmount": 9, "active": True})["badge"]["badgeKey"]
    for effects, status in (
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
            response = administration.post(actions_path, running(*effects, stackingGroupKey=group(mode)), expect=status)
            if status == 400:
                assert faults(response) == ["/stackingGroupKey"]
        # The first action applies whatever it is worth.
        administration.post(actions_path, running(*effects, stackingGroupKey=group("first")))


@pytest.mark.parametrize("mode", ["first", "best", "worst", "all"])
def test_actions_of_a_group_for_items_need_a_discount(shop, administration, actions_path, group, mode):
    account_with_worth = shop.account(fiatPerPoint=Decimal("0.01"))["ledgerAccountKey"]
    points, in_group = mint(5, ledgerAccountKey=account_with_worth), {"stackingGroupKey": group(mode, scope="item")}
    for effects in ([points], []):
        problem = administration.post(actions_path, running(*effects, **in_group), expect=400)
        assert faults(problem) == ["/stackingGroupKey"]
        detail = "stackingGroupKey lets actions apply to single items, and an action has no discount."
        assert problem["detail"] == detail
    administration.post(actions_path, running(points, percent_off(5), **in_group))
    action = administration.post(actions_path, running(points))["action"]
    path = f"{actions_path}/{action['actionId']}"
    assert faults(administration.put(path, running(points, **in_group), expect=400)) == ["/stackingGroupKey"]
    administration.put(path, running(percent_off(5), **in_group))
    # The action is in the group, and cannot lose its discount.
    assert faults(administration.put(path, running(points, **in_group), expect=400)) == ["/stackingGroupKey"]


@pytest.mark.parametrize("mode", ["first", "best", "worst", "all"])
def test_the_scope_item_is_refused_while_an_action_of_the_group_gives_no_discount(
    shop, administration, actions_path, group, mode
):
    account_with_worth = shop.account(fiatPerPoint=Decimal("0.01"))["ledgerAccountKey"]
    in_group = {"stackingGroupKey": group("all", externalKey="group")}
    action = administration.post(actions_path, running(mint(5, ledgerAccountKey=account_with_worth), **in_group))[
        "action"
    ]
    [stacking_group] = administration.get("/stacking-groups", externalKey="group")["results"]
    path, body = f"/stacking-groups/{stacking_group['stackingGroupId']}", {"name": "G", "mode": mode, "scope": "item"}
    assert faults(administration.put(path, body, expect=400)) == ["/scope"]
    assert administration.get(path)["stackingGroup"]["scope"] == "order"
    administration.put(f"{actions_path}/{action['actionId']}", running(percent_off(5), **in_group))
    assert administration.put(path, body)["stackingGroup"]["scope"] == "item"


def test_an_action_without_a_worth_can_neither_join_nor_stay_in_a_group_that_compares(
    administration, actions_path, group
):
    action = administration.post(actions_path, running(mint(5)))["action"]
    path = f"{actions_path}/{action['actionId']}"
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
def test_a_group_has_at_most_fifty_actions(administration, actions_path, group):
    key = group("all")
    body = running(percent_off(1), stackingGroupKey=key)
    saved_actions = [administration.post(actions_path, body)["action"] for _ in range(50)]
    problem = administration.post(actions_path, body, expect=400)
    assert faults(problem) == ["/stackingGroupKey"]
    # Actions of the group can still be changed.
    path = f"{actions_path}/{saved_actions[-1]['actionId']}"
    administration.put(path, running(percent_off(2), stackingGroupKey=key))


@pytest.fixture
def three_offers(shop, group):
    """The best of A: 10 %, B: 5.00, and C: 300 points of 0.03 each. For an order of 80 they are worth 8, 5 and 9.

    A member can get 400 points in a month.
    """
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
    result = shop.track_one(order(shop.member(), total=80), executionMode=mode)
    assert applied_effects(result) == [("C", "mint-points", 9)]


def test_the_worth_of_points_depends_on_the_rest_of_the_limit_which_a_cancellation_restores(shop, three_offers):
    member = shop.member()
    # The second order could get only 100 points, which are worth 3.
    results = [shop.track_one(order(member, total=80)) for _ in range(3)]
    assert [applied_effects(result) for result in results] == [
        [("C", "mint-points", 9)],
        [("A", "discount", 8)],
        [("A", "discount", 8)],
    ]
    shop.integration.post(f"/events/{results[0]['loyaltyEventKey']}/cancel", {}, expect=200)
    assert applied_effects(shop.track_one(order(member, total=80))) == [("C", "mint-points", 9)]
    shop.check_ledger()


def test_an_authorized_order_holds_only_the_winners_points_until_cancelled(shop, three_offers):
    result = shop.track_one(order(shop.member(), total=80), executionMode="authorize")
    # The winner is C.
    [transaction] = shop.rows("ledger_transactions", "status, amount")
    assert (transaction.status, transaction.amount) == (PENDING, 300)
    assert [counter.used for counter in shop.rows("campaign_limit_counters", "used")] == [300]
    shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
    # The release of the waiting points is a transaction as well.
    assert [transaction.status for transaction in shop.rows("ledger_transactions", "status")] == [REVERTED, REVERTED]
    assert [counter.used for counter in shop.rows("campaign_limit_counters", "used")] == [0]
    shop.check_ledger()


def test_a_dry_run_reports_why_the_other_actions_did_not_apply(shop, three_offers):
    result = shop.track_one(order(shop.member(), total=80), executionMode="dryRun")
    actions = {action["name"]: action["actionId"] for action in three_offers["actions"]}
    reasons = {entry["actionName"]: entry.get("reason") for entry in result["explain"] if entry["actionId"]}
    assert reasons["C"] is None
    assert reasons["A"]["code"] == "BEATEN_BY"
    assert reasons["A"]["actual"] == {"actionId": actions["C"], "worth": 8, "winnerWorth": 9}
    assert reasons["B"]["actual"] == {"actionId": actions["C"], "worth": 5, "winnerWorth": 9}


def test_the_next_best_action_applies_after_the_campaign_of_the_best_is_deactivated(shop, group):
    key = group("best")
    best_campaign = shop.campaign(running(percent_off(30), name="A", stackingGroupKey=key), eventType=ORDER_CREATED)
    shop.campaign(running(percent_off(20), name="B", stackingGroupKey=key), eventType=ORDER_CREATED)
    assert applied_effects(shop.track_one(order(shop.member(), total=100))) == [("A", "discount", 30)]
    body = {"code": best_campaign["code"], "name": "Off", "active": False, "eventType": ORDER_CREATED}
    shop.administration.put(f"/campaigns/{best_campaign['campaignId']}", body)
    assert applied_effects(shop.track_one(order(shop.member(), total=100))) == [("B", "discount", 20)]


def test_each_item_takes_its_best_action(shop, group):
    key = group("best", scope="item")
    shop.campaign(
        running(percent_off(20), name="A", stackingGroupKey=key),
        running(amount_off(5, per="item"), name="B", stackingGroupKey=key),
        eventType=ORDER_CREATED,
    )
    # 20 % of the item of 30 are 6, more than 5. 20 % of the item of 10 are 2, less than 5.
    result = shop.track_one(order(shop.member(), total=40, items=items(30, 10)))
    assert applied_effects(result) == [("A", "discount", 6), ("B", "discount", 5)]
    assert [outcome["allocation"] for outcome in result["effects"]] == [
        [{"itemIndex": 0, "amount": 6}],
        [{"itemIndex": 1, "amount": 5}],
    ]
    assert result["discountTotal"] == 6 + 5


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
    holder, member_without_coupon = shop.member(), shop.member()
    assert applied_effects(shop.track_one(order(holder, total=100), executionMode=mode)) == [
        ("coupon", "assign-coupon", 20)
    ]
    # After a dry run, this order assigns the only coupon.
    shop.track_one(order(holder, total=100))
    result = shop.track_one(order(member_without_coupon, total=100), executionMode=mode)
    assert applied_effects(result) == [("cash", "discount", 5)]
    usages = shop.integration.get(f"/members/{holder}/coupon-usages")["results"]
    assert [usage["amountAssigned"] for usage in usages] == [1]


def test_an_action_that_loses_assigns_no_coupon(shop, group):
    # The coupon is worth 2, the discount 5.
    book = CouponBooks(shop.organization).make("A", "B", type="list", faceValue=2)
    key, member = group("best"), shop.member()
    shop.campaign(
        running(effect("assign-coupon", couponBookKey=book["couponBookKey"]), stackingGroupKey=key),
        running(amount_off(5), name="cash", stackingGroupKey=key),
        eventType=ORDER_CREATED,
    )
    assert applied_effects(shop.track_one(order(member, total=100))) == [("cash", "discount", 5)]
    assert shop.integration.get(f"/members/{member}/coupons")["results"] == []
    assert CouponBooks(shop.organization).get(book)["totalAssigned"] == 0
    types = [event["eventType"] for event in shop.events(member)]
    assert "coupon-code-assigned" not in types


def test_an_exclusive_campaign_excludes_all_others(shop):
    shop.campaign(running(amount_off(10), name="ordinary"), eventType=ORDER_CREATED)
    exclusive_campaign = shop.campaign(
        running(percent_off(20), name="alone", priority=9), eventType=ORDER_CREATED, exclusive=True
    )
    result = shop.track_one(order(shop.member(), total=100), executionMode="dryRun")
    assert applied_effects(result) == [("alone", "discount", 20)]
    [reason] = [entry["reason"] for entry in result["explain"] if entry["actionName"] == "ordinary"]
    assert (reason["code"], reason["actual"]) == ("NOT_COMBINABLE", exclusive_campaign["campaignId"])


# The discount is 20 % of 30, so 64 of 70 remain.
@pytest.mark.parametrize(("threshold", "balance"), [(68, 0), (60, 7)])
def test_rules_see_the_order_after_discounts(shop, threshold, balance):
    # p-0 is the item of 30.
    shop.campaign(
        running(percent_off(20, itemFilter=("=", 'item.productCode == "p-0"'))),
        running(mint(7), rule=f"orderAfter.total >= {threshold}", priority=2),
        eventType=ORDER_CREATED,
    )
    member = shop.member()
    result = shop.track_one(order(member, total=70, items=items(30, 40)))
    assert result["discountTotal"] == 6
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
def test_invalid_parameters_of_a_discount_are_refused_with_their_field(administration, actions_path, params, field):
    problem = administration.post(actions_path, running(percent_off(5, **params)), expect=400)
    # The parameters 0 and 1 of the effect are its type and value.
    assert faults(problem) == [f"/effects/items/0/params/2/{field}"]


def test_a_simulation_reports_the_effects_and_the_discount_of_tracking(shop, three_offers):
    member, basket = shop.member(), {"total": 80, "items": items(50, 30)}
    body = {"loyaltyMemberId": member, "order": basket}
    earn = shop.integration.post("/simulations", body, expect=200)["simulation"]["earn"]
    result = shop.track_one(order(member, total=80, items=basket["items"]))
    assert [{**outcome, "status": "executed"} for outcome in earn["effects"]] == result["effects"]
    assert earn["discountTotal"] == result["discountTotal"]
