"""Partial returns of orders whose campaigns are reevaluated on the remaining order (`onReturn: reevaluate`)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.queue import drain, send
from tests.builders.tracking import ORDER_CREATED, Shop, order, order_update, running

AT_LEAST_100 = "order.total >= 100"
SHIRT, MUG = {"productCode": "shirt", "quantity": 2, "total": 80}, {"productCode": "mug", "quantity": 1, "total": 40}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(shop):
    return shop.member()


def campaign(shop, *actions, **more):
    """A new campaign for created orders that is reevaluated on partial returns."""
    return shop.campaign(*actions, eventType=ORDER_CREATED, **{"onReturn": "reevaluate", **more})


def buy_for_120(shop, member, **more):
    """Create and confirm the order o-1 of 120.00."""
    shop.track_one(order(member, total=120, external_id="o-1", **more))
    shop.track_one(order_update(member, "o-1", "confirmed"))


def give_back(shop, member, *items, **more):
    """Return items of the order o-1, by product or only by total; return the result of the event."""
    return shop.track_one(order_update(member, "o-1", "partially-returned", items=list(items), **more))


def used_amounts(shop, record):
    """The used amount of each limit of a campaign."""
    limits = shop.administration.get(f"/campaigns/{record['campaignId']}", include="limits")["campaign"]["limits"]
    return [limit["used"] for limit in limits]


# 40 of 120 remain of the order.
@pytest.mark.parametrize(("on_return", "balance"), [("prorate", 500 * 40 // 120), ("reevaluate", 0)])
def test_no_points_remain_if_the_rule_is_false_for_the_remaining_order(shop, ana, on_return, balance):
    campaign(shop, running(mint(500), rule=AT_LEAST_100), onReturn=on_return)
    buy_for_120(shop, ana)
    assert shop.balance(ana) == 500
    result = give_back(shop, ana, {"total": 80})
    assert shop.balance(ana) == balance
    [reversal] = result["reverted"]
    assert [transaction["revertedAmount"] for transaction in reversal["ledgerTransactions"]] == [500 - balance]
    shop.check_ledger()


def test_all_points_remain_while_the_rule_is_true_for_the_remaining_order(shop, ana):
    campaign(shop, running(mint(500), rule=AT_LEAST_100))
    buy_for_120(shop, ana)
    # 100.00 of the order remain.
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 500
    give_back(shop, ana, {"total": Decimal("0.01")})
    assert shop.balance(ana) == 0


@pytest.mark.parametrize("evaluation", ["captured", "queued"])
def test_captured_and_queued_orders_are_reevaluated_on_a_return(shop, ana, evaluation):
    campaign(shop, running(mint(500), rule=AT_LEAST_100))
    creation = order(ana, total=120, external_id="o-1")
    if evaluation == "captured":
        key = shop.track_one(creation, executionMode="captureOnly")["loyaltyEventKey"]
        shop.administration.post(f"/events/{key}/evaluate", expect=200)
    else:
        send(shop, creation)
        drain(shop)
    shop.track_one(order_update(ana, "o-1", "confirmed"))
    assert shop.balance(ana) == 500
    give_back(shop, ana, {"total": 80})
    assert shop.balance(ana) == 0


def test_the_minimum_spend_is_evaluated_again(shop, ana):
    campaign(shop, running(mint(500)), minSpendValue=100)
    buy_for_120(shop, ana)
    # 99.00 of the order remain.
    give_back(shop, ana, {"total": 21})
    assert shop.balance(ana) == 0


def test_an_amount_is_computed_from_the_remaining_order(shop, ana):
    # 10 points for each 50.00.
    campaign(shop, running(mint(("=", "floor(order.total / 50.0) * 10.0"))))
    buy_for_120(shop, ana)
    assert shop.balance(ana) == 20
    # 100.00 remain, then 70.00.
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 20
    give_back(shop, ana, {"total": 30})
    assert shop.balance(ana) == 10


def test_a_return_never_gives_more_points(shop, ana):
    campaign(shop, running(mint(("=", "200.0 - order.total"))))
    buy_for_120(shop, ana)
    assert shop.balance(ana) == 200 - 120
    # The effect would mint 140 for the remaining 60.00.
    give_back(shop, ana, {"total": 60})
    assert shop.balance(ana) == 80


def test_a_second_return_does_not_restore_points_of_the_first(shop, ana):
    campaign(shop, running(mint(50), rule="order.total >= 100 || order.total < 50"))
    buy_for_120(shop, ana)
    # The rule is false for the remaining 80.00.
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 0
    # It is true for the remaining 40.00.
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 0


def test_the_remaining_order_has_no_returned_items(shop, ana):
    campaign(
        shop,
        running(mint(7), rule="order.items.exists(i, i.productCode == 'mug')", name="mug"),
        running(mint(("=", "order.items.map(i, i.quantity).sum() * 100.0")), name="quantity"),
    )
    buy_for_120(shop, ana, items=[SHIRT, MUG])
    # 7 for the mug, and 100 for each of two shirts and a mug.
    assert shop.balance(ana) == 7 + 3 * 100
    give_back(shop, ana, {"productCode": "shirt", "quantity": 1})
    assert shop.balance(ana) == 7 + 2 * 100
    give_back(shop, ana, {"productCode": "mug"})
    assert shop.balance(ana) == 100


def test_a_return_of_the_rest_after_a_reevaluation_equals_a_full_return(shop, ana):
    saved_campaign = campaign(
        shop,
        running(mint(("=", "floor(order.total / 50.0) * 10.0"))),
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 1000}],
    )
    buy_for_120(shop, ana)
    # 10 for each 50.00 of the remaining 90.00.
    give_back(shop, ana, {"total": 30})
    assert (shop.balance(ana), used_amounts(shop, saved_campaign)) == (10, [10])
    shop.track_one(order_update(ana, "o-1", "returned"))
    assert (shop.balance(ana), used_amounts(shop, saved_campaign)) == (0, [0])
    shop.check_ledger()


def test_campaigns_that_prorate_are_reverted_in_proportion(shop, ana):
    campaign(shop, running(mint(500), rule=AT_LEAST_100))
    campaign(shop, running(mint(60)), onReturn="prorate")
    buy_for_120(shop, ana)
    # 80.00 of the order remain.
    give_back(shop, ana, {"total": 40})
    # All of the 500 are reverted, since 80.00 is below 100.00. Two thirds of the 60 remain.
    assert shop.balance(ana) == 40


def test_a_return_does_not_evaluate_actions_that_did_not_apply_to_the_purchase(shop, ana):
    campaign(shop, running(mint(500), rule=AT_LEAST_100), running(mint(30), rule="order.total < 100"))
    buy_for_120(shop, ana)
    # The rule of the second action is true for the remaining 80.00.
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 0


def test_a_reevaluation_ignores_later_changes_of_the_campaign(shop, ana):
    saved_campaign = campaign(shop, running(mint(500), rule=AT_LEAST_100))
    buy_for_120(shop, ana)
    path = f"/campaigns/{saved_campaign['campaignId']}/actions/{saved_campaign['actions'][0]['actionId']}"
    # The record is from before the action was added, which made the next version.
    current_version = saved_campaign["campaignVersionId"] + 1
    shop.administration.put(path, running(mint(5), rule="order.total >= 1000", campaignVersionId=current_version))
    shop.administration.put(
        f"/campaigns/{saved_campaign['campaignId']}", {"code": saved_campaign["code"], "name": "Over", "active": False}
    )
    # 100.00 remain, then 99.00.
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 500
    give_back(shop, ana, {"total": 1})
    assert shop.balance(ana) == 0


def test_a_reevaluation_sees_the_balances_of_the_purchase(shop, ana):
    campaign(shop, running(mint(500), rule="balances['points'] < 100.0 && balancesAfter['points'] < 100.0"))
    buy_for_120(shop, ana)
    # The balance is 500 now and was 0 at the purchase.
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 500


def test_points_are_reverted_in_proportion_if_the_rule_fails_on_the_remaining_order(shop, ana):
    campaign(shop, running(mint(500), rule="order.items[1].total > 0.0"))
    buy_for_120(shop, ana, items=[SHIRT, MUG])
    # The remaining order has no second item.
    give_back(shop, ana, {"productCode": "mug"})
    assert shop.balance(ana) == 500 * 80 // 120


def test_points_that_a_limit_cut_remain_up_to_the_reevaluated_amount(shop, ana):
    saved_campaign = campaign(
        shop,
        running(mint(("=", "order.total"))),
        allowPartialApplicationOnLimit=True,
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 100}],
    )
    buy_for_120(shop, ana)
    # The limit cut 120 to 100, and 100 of the order remain.
    give_back(shop, ana, {"total": 20})
    assert (shop.balance(ana), used_amounts(shop, saved_campaign)) == (100, [100])
    # 70.00 of the order remain.
    give_back(shop, ana, {"total": 30})
    assert (shop.balance(ana), used_amounts(shop, saved_campaign)) == (70, [70])


def test_points_are_clawed_back_only_as_far_as_they_are_not_spent(shop, ana):
    campaign(shop, running(mint(500), rule=AT_LEAST_100))
    buy_for_120(shop, ana)
    shop.take(ana, 450)
    result = give_back(shop, ana, {"total": 80})
    [reversal] = result["reverted"]
    [transaction] = reversal["ledgerTransactions"]
    assert (transaction["revertedAmount"], transaction["outcome"]) == (500 - 450, "partial")
    assert shop.balance(ana) == 0


def test_a_return_reduces_the_used_budget_to_the_discounts_of_the_remaining_order(shop, ana):
    saved_campaign = campaign(
        shop,
        running(effect("discount", type="amount", value=10), rule=AT_LEAST_100, name="ten"),
        running(effect("discount", type="percentage", value=10), name="tenth"),
        currency="EUR",
        limitRules=[{"scope": "campaign", "type": "money", "period": "total", "limit": 100}],
    )
    buy_for_120(shop, ana, currency="EUR")
    # 10.00 and a tenth of the other 110.00.
    assert used_amounts(shop, saved_campaign) == [10 + 11]
    give_back(shop, ana, {"total": 20})
    # 10.00 and a tenth of 90.00.
    assert used_amounts(shop, saved_campaign) == [10 + 9]
    give_back(shop, ana, {"total": 60})
    # A tenth of 40.00.
    assert used_amounts(shop, saved_campaign) == [4]


def test_a_return_reduces_points_that_wait(shop, ana):
    campaign(shop, running(mint(500, availableAfter="P14D"), rule=AT_LEAST_100))
    buy_for_120(shop, ana)
    give_back(shop, ana, {"total": 80})
    [balance] = shop.integration.get(f"/members/{ana}")["loyaltyMember"]["ledgerBalances"]
    assert (balance["balance"], balance["pending"]) == (0, 0)


def test_qualifying_points_are_reduced_to_their_own_reevaluated_amount(shop, ana):
    campaign(shop, running(mint(100, qualifyingAmount=("=", "order.total"))))
    buy_for_120(shop, ana)
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 100
    assert [row.earned for row in shop.rows("ledger_balances", "earned")] == [120 - 40]


def test_a_dry_run_of_a_return_reports_the_same_amount(shop, ana):
    campaign(shop, running(mint(500), rule=AT_LEAST_100))
    buy_for_120(shop, ana)
    partial_return = order_update(ana, "o-1", "partially-returned", items=[{"total": 80}])
    [result] = shop.track(partial_return, executionMode="dryRun")
    assert [transaction["revertedAmount"] for transaction in result["reverted"][0]["ledgerTransactions"]] == [500]
    assert shop.balance(ana) == 500
