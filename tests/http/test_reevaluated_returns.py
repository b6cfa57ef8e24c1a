"""Partial returns of orders whose campaigns are reevaluated on the remaining order (`onReturn: reevaluate`)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.tracking import ORDER_CREATED, Shop, order, running

BOUNDARY = "order.total >= 100"
SHIRT, MUG = {"productCode": "shirt", "quantity": 2, "total": 80}, {"productCode": "mug", "quantity": 1, "total": 40}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(shop):
    return shop.member()


def campaign(shop, *actions, **more):
    return shop.campaign(*actions, eventType=ORDER_CREATED, **{"onReturn": "reevaluate", **more})


def buy(shop, member, total=120, **more):
    result = shop.track_one(order(member, total, external_id="o-1", **more))
    shop.track_one(order(member, None, "confirmed", "o-1"))
    return result


def give_back(shop, member, *items, **more):
    return shop.track_one(order(member, None, "partially-returned", "o-1", items=list(items), **more))


def usage(shop, record):
    limits = shop.administration.get(f"/campaigns/{record['campaignId']}", include="limits")["campaign"]["limits"]
    return [limit["used"] for limit in limits]


@pytest.mark.parametrize(("on_return", "balance"), [("prorate", 166), ("reevaluate", 0)])
def test_example_7_below_the_boundary_nothing_is_left(shop, ana, on_return, balance):
    campaign(shop, running(mint(500), rule=BOUNDARY), onReturn=on_return)
    buy(shop, ana)
    assert shop.balance(ana) == 500
    result = give_back(shop, ana, {"total": 80})
    assert shop.balance(ana) == balance
    [part] = result["reverted"]
    assert [transaction["revertedAmount"] for transaction in part["ledgerTransactions"]] == [500 - balance]
    shop.check_ledger()


def test_above_the_boundary_everything_is_left(shop, ana):
    campaign(shop, running(mint(500), rule=BOUNDARY))
    buy(shop, ana)
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 500
    give_back(shop, ana, {"total": Decimal("0.01")})
    assert shop.balance(ana) == 0


def test_the_least_spend_is_evaluated_again_as_well(shop, ana):
    campaign(shop, running(mint(500)), minSpendValue=100)
    buy(shop, ana)
    give_back(shop, ana, {"total": 21})
    assert shop.balance(ana) == 0


def test_an_amount_is_computed_on_what_is_left(shop, ana):
    campaign(shop, running(mint(("=", "floor(order.total / 50.0) * 10.0"))))
    buy(shop, ana)
    assert shop.balance(ana) == 20
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 20
    give_back(shop, ana, {"total": 30})
    assert shop.balance(ana) == 10


def test_a_return_never_gives_more_points(shop, ana):
    campaign(shop, running(mint(("=", "200.0 - order.total"))))
    buy(shop, ana)
    assert shop.balance(ana) == 80
    give_back(shop, ana, {"total": 60})
    assert shop.balance(ana) == 80


def test_points_once_taken_are_not_given_again(shop, ana):
    campaign(shop, running(mint(50), rule="order.total >= 100 || order.total < 50"))
    buy(shop, ana)
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 0
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 0


def test_returned_items_are_not_in_the_order_any_more(shop, ana):
    campaign(
        shop,
        running(mint(7), rule="order.items.exists(i, i.productCode == 'mug')", name="mug"),
        running(mint(("=", "order.items.map(i, i.quantity).sum() * 100.0")), name="quantity"),
    )
    buy(shop, ana, items=[SHIRT, MUG])
    assert shop.balance(ana) == 307
    give_back(shop, ana, {"productCode": "shirt", "quantity": 1})
    assert shop.balance(ana) == 207
    give_back(shop, ana, {"productCode": "mug"})
    assert shop.balance(ana) == 100


def test_the_rest_of_a_reevaluated_return_equals_a_full_return(shop, ana):
    saved_campaign = campaign(
        shop,
        running(mint(("=", "floor(order.total / 50.0) * 10.0"))),
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 1000}],
    )
    buy(shop, ana)
    give_back(shop, ana, {"total": 30})
    assert (shop.balance(ana), usage(shop, saved_campaign)) == (10, [10])
    shop.track_one(order(ana, None, "returned", "o-1"))
    assert (shop.balance(ana), usage(shop, saved_campaign)) == (0, [0])
    shop.check_ledger()


def test_other_campaigns_of_the_order_are_taken_back_in_proportion(shop, ana):
    campaign(shop, running(mint(500), rule=BOUNDARY))
    campaign(shop, running(mint(60)), onReturn="prorate")
    buy(shop, ana)
    give_back(shop, ana, {"total": 40})
    # The 500 are taken since 80.00 is below 100.00; two thirds of the 60 are left.
    assert shop.balance(ana) == 40


def test_actions_that_were_not_granted_are_not_tried(shop, ana):
    campaign(shop, running(mint(500), rule=BOUNDARY), running(mint(30), rule="order.total < 100"))
    buy(shop, ana)
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 0


def test_later_changes_of_the_campaign_do_not_matter(shop, ana):
    saved_campaign = campaign(shop, running(mint(500), rule=BOUNDARY))
    buy(shop, ana)
    path = f"/campaigns/{saved_campaign['campaignId']}/actions/{saved_campaign['actions'][0]['actionId']}"
    action_body = running(
        mint(5), rule="order.total >= 1000", campaignVersionId=saved_campaign["campaignVersionId"] + 1
    )
    shop.administration.put(path, action_body)
    shop.administration.put(
        f"/campaigns/{saved_campaign['campaignId']}", {"code": saved_campaign["code"], "name": "Over", "active": False}
    )
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 500
    give_back(shop, ana, {"total": 1})
    assert shop.balance(ana) == 0


def test_a_reevaluation_sees_the_balances_of_the_purchase(shop, ana):
    campaign(shop, running(mint(500), rule="balances['points'] < 100.0 && balancesAfter['points'] < 100.0"))
    buy(shop, ana)
    give_back(shop, ana, {"total": 20})
    assert shop.balance(ana) == 500


def test_a_rule_that_fails_on_what_is_left_takes_back_in_proportion(shop, ana):
    campaign(shop, running(mint(500), rule="order.items[1].total > 0.0"))
    buy(shop, ana, items=[SHIRT, MUG])
    give_back(shop, ana, {"productCode": "mug"})
    assert shop.balance(ana) == 333


def test_points_that_a_limit_cut_are_kept_up_to_the_reevaluated_amount(shop, ana):
    saved_campaign = campaign(
        shop,
        running(mint(("=", "order.total"))),
        allowPartialApplicationOnLimit=True,
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 100}],
    )
    buy(shop, ana)
    give_back(shop, ana, {"total": 20})
    assert (shop.balance(ana), usage(shop, saved_campaign)) == (100, [100])
    give_back(shop, ana, {"total": 30})
    assert (shop.balance(ana), usage(shop, saved_campaign)) == (70, [70])


def test_spent_points_are_taken_only_in_part(shop, ana):
    campaign(shop, running(mint(500), rule=BOUNDARY))
    buy(shop, ana)
    shop.give(ana, 450, "burn")
    result = give_back(shop, ana, {"total": 80})
    [part] = result["reverted"]
    assert [(transaction["revertedAmount"], transaction["outcome"]) for transaction in part["ledgerTransactions"]] == [
        (50, "partial")
    ]
    assert shop.balance(ana) == 0


def test_a_budget_gets_back_the_difference_of_the_discounts(shop, ana):
    saved_campaign = campaign(
        shop,
        running(effect("discount", type="amount", value=10), rule=BOUNDARY, name="ten"),
        running(effect("discount", type="percentage", value=10), name="tenth"),
        currency="EUR",
        limitRules=[{"scope": "campaign", "type": "money", "period": "total", "limit": 100}],
    )
    buy(shop, ana, currency="EUR")
    assert usage(shop, saved_campaign) == [21]
    give_back(shop, ana, {"total": 20})
    # 10.00 and a tenth of 90.00.
    assert usage(shop, saved_campaign) == [19]
    give_back(shop, ana, {"total": 60})
    assert usage(shop, saved_campaign) == [4]


def test_waiting_points_are_reduced(shop, ana):
    campaign(shop, running(mint(500, availableAfter="P14D"), rule=BOUNDARY))
    buy(shop, ana)
    give_back(shop, ana, {"total": 80})
    [balance] = shop.integration.get(f"/members/{ana}")["loyaltyMember"]["ledgerBalances"]
    assert (balance["balance"], balance["pending"]) == (0, 0)


def test_qualifying_points_are_reduced_by_their_own_amount(shop, ana):
    campaign(shop, running(mint(100, qualifyingAmount=("=", "order.total"))))
    buy(shop, ana)
    give_back(shop, ana, {"total": 40})
    assert shop.balance(ana) == 100
    assert [row.earned for row in shop.rows("ledger_balances", "earned")] == [80]


def test_a_dry_run_of_a_return_reports_the_same_amount(shop, ana):
    campaign(shop, running(mint(500), rule=BOUNDARY))
    buy(shop, ana)
    partial_return = order(ana, None, "partially-returned", "o-1", items=[{"total": 80}])
    [tried] = shop.track(partial_return, executionMode="dryRun")
    assert [transaction["revertedAmount"] for transaction in tried["reverted"][0]["ledgerTransactions"]] == [500]
    assert shop.balance(ana) == 500
