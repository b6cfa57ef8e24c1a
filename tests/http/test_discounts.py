"""Discounts and the worth of effects in the results of events."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import text

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.partners import PAYMENT, Partner
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running

TEN_PERCENT = effect("discount", type="percentage", value=10)


@pytest.fixture
def shop(organization):
    return Shop(organization)


def items(*totals):
    """The items of an order with these totals."""
    return [{"productCode": f"p-{index}", "total": Decimal(total)} for index, total in enumerate(totals)]


def simulate(shop, **body):
    """The earnings that a simulation reports."""
    return shop.integration.post("/simulations", body, expect=200)["simulation"]["earn"]


def discounts_of(result):
    """(status, amount, shares of the items, worth) of each effect; a share is (index of the item, amount)."""
    return [
        (
            outcome["status"],
            outcome.get("discountAmount"),
            [(share["itemIndex"], share["amount"]) for share in outcome.get("allocation", [])],
            outcome.get("worth"),
        )
        for outcome in result["effects"]
    ]


@pytest.mark.parametrize("mode", ["full", "dryRun", "authorize"])
def test_a_discount_is_spread_over_the_items_in_all_modes(shop, mode):
    shop.campaign(running(TEN_PERCENT), eventType=ORDER_CREATED)
    result = shop.track_one(order(shop.member(), 30, items=items(10, 20)), executionMode=mode)
    status = {"full": "executed", "dryRun": "evaluated", "authorize": "authorized"}[mode]
    # 10 % of 30, that is 10 % of 10 and 10 % of 20.
    assert discounts_of(result) == [(status, 3, [(0, 1), (1, 2)], 3)]
    assert result["discountTotal"] == 3


def test_the_worth_of_effects_is_that_of_their_points_and_coupons(shop):
    account = shop.account(fiatPerPoint=Decimal("0.03"))
    book = CouponBooks(shop.organization).make(type="codeless", faceValue=Decimal("2.50"))
    coupons = effect("assign-coupon", couponBookKey=book["couponBookKey"], amount=3)
    shop.campaign(running(mint(300, ledgerAccountKey=account["ledgerAccountKey"]), mint(7), coupons), eventType=GENERIC)
    result = shop.track_one(event(shop.member()))
    # 300 points of 0.03, points without a worth, 3 coupons of 2.50
    assert [outcome.get("worth") for outcome in result["effects"]] == [9, None, Decimal("7.5")]
    assert result["discountTotal"] == 0


def test_the_worth_covers_only_the_points_that_a_limit_allows(shop):
    account = shop.account(fiatPerPoint=Decimal("0.03"))
    shop.campaign(
        running(mint(300, ledgerAccountKey=account["ledgerAccountKey"])),
        eventType=GENERIC,
        pointsMonthlyLimitPerMember=100,
        allowPartialApplicationOnLimit=True,
    )
    # 100 points of 0.03
    assert discounts_of(shop.track_one(event(shop.member()))) == [("partial", None, [], 3)]


def test_an_event_that_an_order_causes_discounts_the_rest_of_the_order(shop):
    badge = shop.integration.post("/badges", {"name": "Buyer", "maxAmount": 9, "active": True})["badge"]
    shop.campaign(running(TEN_PERCENT, effect("assign-badge", badgeKey=badge["badgeKey"])), eventType=ORDER_CREATED)
    shop.campaign(running(TEN_PERCENT), eventType="badge-assigned")
    member = shop.member()
    earn = simulate(shop, loyaltyMemberId=member, order={"total": 100})
    # 10 % of 100, then 10 % of the remaining 90
    assert [discount["amount"] for discount in earn["discounts"]] == [10, 9]
    assert earn["discountTotal"] == 19
    # The next event is no purchase, so the amount of its discount is unknown.
    shop.campaign(running(TEN_PERCENT), eventType=GENERIC)
    assert discounts_of(shop.track_one(event(member))) == [("executed", None, [], None)]


@pytest.mark.parametrize(
    ("total", "discount", "problem"),
    [
        (0, TEN_PERCENT, "discount-exceeds-total"),
        (10, effect("discount", type="amount", value=Decimal("0.004")), "zero-amount"),
        (Decimal("0.01"), TEN_PERCENT, "zero-amount"),
    ],
)
def test_a_discount_of_0_uses_no_limit_and_excludes_no_campaign(shop, total, discount, problem):
    limit_of_one = {"scope": "campaign", "type": "transactions", "period": "total", "limit": 1}
    offer = shop.campaign(running(discount), eventType=ORDER_CREATED, exclusive=True, limitRules=[limit_of_one])
    shop.campaign(running(mint(3)), eventType=ORDER_CREATED)
    member = shop.member()
    result = shop.track_one(order(member, total))
    assert [effect["status"] for effect in result["effects"]] == ["skipped", "executed"]
    assert (result["effects"][0]["error"]["type"], result["effects"][0]["discountAmount"]) == (
        f"/problems/{problem}",
        0,
    )
    assert (result["discountTotal"], shop.balance(member)) == (0, 3)
    campaign = shop.administration.get(f"/campaigns/{offer['campaignId']}", include="limits")["campaign"]
    [limit] = campaign["limits"]
    assert limit["used"] == 0


def test_simulations_report_allocations_and_cut_discounts(shop):
    shop.campaign(
        running(effect("discount", type="amount", value=8)),
        running(effect("discount", type="amount", value=5), priority=2),
        eventType=ORDER_CREATED,
    )
    # After a discount of 8 on 10, the second discount of 5 is cut to 2.
    earn = simulate(shop, order={"total": 10, "items": items(4, 6)})
    assert [(discount["amount"], discount["allocation"]) for discount in earn["discounts"]] == [
        (8, [{"itemIndex": 0, "amount": Decimal("3.2")}, {"itemIndex": 1, "amount": Decimal("4.8")}]),
        (2, [{"itemIndex": 0, "amount": Decimal("0.8")}, {"itemIndex": 1, "amount": Decimal("1.2")}]),
    ]
    assert earn["discountTotal"] == 10


def test_a_partner_gets_each_discount_and_the_total_after_it(shop):
    shop.campaign(running(TEN_PERCENT, effect("discount", type="amount", value=5)), eventType=PAYMENT)
    response = Partner.of(shop).pay(shop.member(), 20)
    # 10 % of 20, then 5 of the remaining 18.
    assert [
        (partner_effect["discount"], partner_effect["discountedTotal"]) for partner_effect in response["effects"]
    ] == [(2, 18), (5, 13)]


def test_stored_results_of_earlier_versions_have_a_discount_total_of_0(shop):
    order_event = order(shop.member(), 10)
    first_result = shop.track_one(order_event)
    with shop.engine.begin() as db:
        statement = "UPDATE events SET result = (result::jsonb - 'discountTotal')::json WHERE organization_id = :o"
        db.execute(text(statement), {"o": shop.organization.id})
    assert shop.track_one(order_event) == {**first_result, "discountTotal": 0}
