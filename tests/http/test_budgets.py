"""Budgets of campaigns over HTTP: limits in money and coupons, per location, shared, and with alerts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running

DISCOUNT_7_50 = effect("discount", type="amount", value=7.5)
LIMIT_REACHED = "/problems/limit-reached"
BUDGET = Decimal("10000")
# The fields that a rule has without being sent.
RULE_DEFAULTS = {"ledgerAccountKey": None, "sharedKey": None, "locationLimits": {}, "alertShares": []}


@pytest.fixture
def shop(organization):
    organization.administration.put("", {"defaultLocale": "en", "currency": "EUR"})
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def ana(shop):
    return shop.member()


def money(limit: Any = BUDGET, *, scope: str = "campaign", **more: Any) -> dict[str, Any]:
    """A rule that limits the money of a campaign, without a period."""
    return {"scope": scope, "type": "money", "period": "total", "limit": limit, **more}


def create_campaign(shop, *rules, effects=(DISCOUNT_7_50,), partial=False, **body):
    """A campaign under these rules that gives a discount of 7.50 on each new order, unless the arguments differ."""
    return shop.campaign(
        running(*effects),
        **{"eventType": ORDER_CREATED, "limitRules": rules, "allowPartialApplicationOnLimit": partial, **body},
    )


def sell(shop, member, *, orders, total=60, **more):
    """Track new orders of the member; return the discounts of their first effects, None for a skipped one."""
    amounts = []
    for start in range(0, orders, 100):
        results = shop.track(*(order(member, total, **more) for _ in range(min(100, orders - start))))
        assert {result["status"] for result in results} == {"success"}
        amounts += [_amount(result["effects"][0]) for result in results if result["effects"]]
    return amounts


def _amount(outcome):
    """The discount of the effect, or None if it was skipped."""
    return None if outcome["status"] == "skipped" else outcome["discountAmount"]


def limits(shop, campaign):
    """(used, left, location) of each limit of the campaign."""
    limit_states = shop.administration.get(f"/campaigns/{campaign['campaignId']}", include="limits")["campaign"][
        "limits"
    ]
    return [(limit["used"], limit["left"], limit["location"]) for limit in limit_states]


# --- worked examples, with a discount of 7.50 on each order ----------------------------------------------------------


@pytest.mark.parametrize(("partial", "discount_count", "used_amount"), [(False, 13, "97.50"), (True, 14, "100.00")])
def test_a_budget_is_spent_completely_only_with_partial_application(shop, ana, partial, discount_count, used_amount):
    campaign = create_campaign(shop, money(100), partial=partial)
    amounts = sell(shop, ana, orders=20)
    granted_amounts = [amount for amount in amounts if amount is not None]
    # 13 discounts of 7.50 are 97.50. Only with partial application there is a discount of the remaining 2.50.
    assert (len(granted_amounts), sum(granted_amounts)) == (discount_count, Decimal(used_amount))
    assert amounts[13:15] == ([Decimal("2.5"), None] if partial else [None, None])
    assert limits(shop, campaign) == [(Decimal(used_amount), 100 - Decimal(used_amount), None)]
    [result] = shop.track(order(ana, 60))
    assert result["effects"][0]["error"]["type"] == LIMIT_REACHED
    assert result["effects"][0]["error"]["detail"] == "The limit of 100 EUR of a campaign (total) is reached."


# The order of 60 got a discount of 7.50, and half of the order half of it.
@pytest.mark.parametrize(
    ("partial", "returned_total", "remaining", "next_amount"),
    [
        pytest.param(True, "60", Decimal("7.50"), Decimal("7.5"), id="whole order"),
        pytest.param(True, "30", Decimal("3.75"), Decimal("3.75"), id="half of the order"),
        pytest.param(
            False, "30", Decimal("2.50") + Decimal("3.75"), None, id="half of the order, 2.50 not used before"
        ),
    ],
)
def test_a_return_gives_its_share_back_to_the_budget(shop, ana, partial, returned_total, remaining, next_amount):
    campaign = create_campaign(shop, money(100), partial=partial)
    shop.track_one(order(ana, 60, external_id="first"))
    # With partial application 100 of the budget are used then, else 97.50.
    sell(shop, ana, orders=14)
    shop.track_one(order_update(ana, "first", "confirmed"))
    shop.track_one(order_update(ana, "first", "partially-returned", items=[{"total": Decimal(returned_total)}]))
    assert limits(shop, campaign) == [(100 - remaining, remaining, None)]
    assert sell(shop, ana, orders=1) == [next_amount]


def test_a_return_in_three_parts_gives_exactly_the_whole_amount_back_to_the_budget(shop, ana):
    campaign = create_campaign(shop, money(100), effects=(effect("discount", type="percentage", value=10),))
    # 10 % of 9.99, rounded, is a discount of 1.00.
    shop.track_one(order(ana, Decimal("9.99"), external_id="o-1"))
    shop.track_one(order_update(ana, "o-1", "confirmed"))
    # The rest of the order, times the discount of 1.00: 0.666..., 0.333..., 0.
    for used_amount in ("0.67", "0.33", "0"):
        shop.track_one(order_update(ana, "o-1", "partially-returned", items=[{"total": Decimal("3.33")}]))
        assert limits(shop, campaign) == [(Decimal(used_amount), 100 - Decimal(used_amount), None)]


def alerts(shop, trigger):
    """The payloads of the alerts, oldest first."""
    deliveries = shop.administration.get(f"/triggers/{trigger['triggerId']}/deliveries")["results"]
    payloads = [delivery["payload"] for delivery in deliveries if delivery["type"] == "campaign.limit-reached"]
    return payloads[::-1]


def web_hook(shop, **settings):
    """A trigger that gets the alerts, too."""
    body = {"triggerKey": "hook", "name": "Hook", "type": "WebHook", "active": True}
    settings = {"url": "https://hooks.invalid/x", "eventTypes": [GENERIC], **settings}
    return shop.administration.post("/triggers", {**body, "settings": settings})["trigger"]


def test_an_alert_share_is_reported_only_when_it_is_reached_for_the_first_time(shop, ana):
    hook = web_hook(shop)
    campaign = create_campaign(shop, money(100, alertShares=[80, 50, 100]), partial=True)
    sell(shop, ana, orders=10)
    # The seventh of ten discounts reaches half of the budget.
    [first_alert] = alerts(shop, hook)
    assert first_alert["data"] == {
        "campaignKey": campaign["campaignKey"],
        "rule": {**RULE_DEFAULTS, **money(100, alertShares=[80, 50, 100])},
        "share": 50,
        "used": Decimal("52.5"),
        "limit": 100,
        "location": None,
    }
    shop.track_one(order(ana, 60, external_id="eleventh"))
    assert [(alert["data"]["share"], alert["data"]["used"]) for alert in alerts(shop, hook)[1:]] == [
        (80, Decimal("82.5"))
    ]
    # A cancellation and two more orders cross the share of 80 again, which is not reported again.
    shop.track_one(order_update(ana, "eleventh", "cancelled"))
    sell(shop, ana, orders=2)
    assert len(alerts(shop, hook)) == 2
    sell(shop, ana, orders=5)
    assert [(alert["data"]["share"], alert["data"]["used"]) for alert in alerts(shop, hook)] == [
        (50, Decimal("52.5")),
        (80, Decimal("82.5")),
        (100, 100),
    ]


def test_a_changed_limit_has_its_own_alerts(shop, ana):
    hook = web_hook(shop)
    campaign = create_campaign(shop, money(20, alertShares=[50]))
    # Discounts of 15 in total, then of 22.50.
    sell(shop, ana, orders=2)
    path = f"/campaigns/{campaign['campaignId']}"
    body = {"code": campaign["code"], "name": "Campaign", "limitRules": [money(30, alertShares=[50])]}
    shop.administration.put(path, body)
    sell(shop, ana, orders=1)
    # More than half of 20, and more than half of 30.
    assert [(alert["data"]["limit"], alert["data"]["used"]) for alert in alerts(shop, hook)] == [
        (20, 15),
        (30, Decimal("22.5")),
    ]


def test_each_location_has_its_own_limit(shop, ana):
    # 40 in Madrid, 10 for orders without a location, 20 at all other locations.
    campaign = create_campaign(shop, money(20, scope="location", locationLimits={"MAD": 40, "": 10}))
    amounts_by_location = {code: sell(shop, ana, orders=6, locationCode=code) for code in ("MAD", "LPA", None)}
    # 5 x 7.50 of 40, 2 x 7.50 of 20, 7.50 of 10.
    assert {code: amounts.count(Decimal("7.5")) for code, amounts in amounts_by_location.items()} == {
        "MAD": 5,
        "LPA": 2,
        None: 1,
    }
    assert limits(shop, campaign) == [
        (Decimal("37.5"), Decimal("2.5"), "MAD"),
        (15, 5, "LPA"),
        (Decimal("7.5"), Decimal("2.5"), ""),
    ]
    # Later events of an order count at the location of its creation.
    confirmation_campaign = create_campaign(
        shop, money(8, scope="location"), eventType="member-purchase-order-confirmed"
    )
    shop.track(
        *(order(ana, 60, external_id=f"o-{code}", locationCode=code) for code in ("MAD", "LPA")),
        order_update(ana, "o-MAD", "confirmed"),
    )
    shop.track_one(order_update(ana, "o-LPA", "confirmed"))
    assert limits(shop, confirmation_campaign) == [(Decimal("7.5"), Decimal("0.5"), code) for code in ("LPA", "MAD")]


def test_orders_without_a_location_have_a_limit_of_their_own_besides_that_of_the_campaign(shop, ana):
    # Each order gets 7.50. The second one exceeds the 8 of its location.
    campaign = create_campaign(shop, money(20), money(8, scope="location"))
    assert sell(shop, ana, orders=2) == [Decimal("7.5"), None]
    assert sell(shop, ana, orders=2, locationCode="MAD") == [Decimal("7.5"), None]
    # (used, left, location): '' is no location, None the whole campaign.
    assert limits(shop, campaign) == [
        (15, 5, None),
        (Decimal("7.5"), Decimal("0.5"), ""),
        (Decimal("7.5"), Decimal("0.5"), "MAD"),
    ]


def test_campaigns_can_share_a_budget(shop, ana):
    rule = money(100, sharedKey="both")
    campaign_on_orders = create_campaign(shop, rule, partial=True)
    campaign_on_events = create_campaign(shop, rule, partial=True, eventType=GENERIC)
    sell(shop, ana, orders=6)
    for _ in range(7):
        shop.track_one(event(ana))
    # (6 + 7) x 7.50 = 97.50
    for campaign in (campaign_on_orders, campaign_on_events):
        assert limits(shop, campaign) == [(Decimal("97.5"), Decimal("2.5"), None)]
    assert sell(shop, ana, orders=2) == [Decimal("2.5"), None]
    # The event before the skipped one got the rest.
    [counter] = shop.events(ana)[1]["limitCounters"]
    assert counter["campaignId"] == campaign_on_orders["campaignId"]
    assert (counter["sharedKey"], counter["currency"], counter["amount"]) == ("both", "EUR", Decimal("2.5"))


def test_each_member_has_one_budget_for_campaigns_that_share_it(shop, ana):
    rule = money(10, scope="member", sharedKey="each")
    campaigns = [create_campaign(shop, rule, partial=True) for _ in range(2)]
    for member in (ana, shop.member()):
        effects = shop.track_one(order(member, 60))["effects"]
        assert [outcome["discountAmount"] for outcome in effects] == [Decimal("7.5"), Decimal("2.5")]
    # Figures of members are not in the record of a campaign.
    assert [limits(shop, campaign) for campaign in campaigns] == [[(None, None, None)]] * 2


def test_waiting_points_count_against_the_budget_at_once(shop, ana):
    rule = {"scope": "campaign", "type": "points", "period": "total", "limit": 1000}
    waiting_mint = mint(600, availableAfter="P14D")
    campaign = create_campaign(shop, rule, effects=(waiting_mint,), partial=True, eventType=GENERIC)
    outcomes = [shop.track_one(event(ana))["effects"][0] for _ in range(3)]
    assert [(outcome["status"], outcome["params"][0]["value"]) for outcome in outcomes] == [
        ("executed", 600),
        ("partial", 400),
        ("skipped", 0),
    ]
    assert limits(shop, campaign) == [(1000, 0, None)]
    assert shop.balance(ana) == 0


# --- amounts that count ----------------------------------------------------------------------------------------------


def test_points_count_against_a_money_budget_with_their_worth(shop, ana):
    account = shop.account(fiatPerPoint=Decimal("0.03"))
    points = mint(("=", "order.total"), ledgerAccountKey=account["ledgerAccountKey"])
    campaign = create_campaign(shop, money(5), effects=(points, mint(1)), partial=True)
    shop.track_one(order(ana, 100))
    # 100 points are worth 3. The points of the default account have no worth.
    assert limits(shop, campaign) == [(3, 2, None)]
    [outcome, _] = shop.track_one(order(ana, 100))["effects"]
    # 66 points are worth 1.98; 67 are worth more than the remaining 2.
    assert (outcome["status"], outcome["params"][0]["value"], outcome["worth"]) == ("partial", 66, Decimal("1.98"))
    assert limits(shop, campaign) == [(Decimal("4.98"), Decimal("0.02"), None)]
    assert shop.balance(ana, account["ledgerAccountId"]) == 100 + 66
    assert shop.balance(ana) == 1 + 1


def test_points_count_against_a_budget_only_in_the_currency_in_which_they_pay(shop, ana):
    account = shop.account(fiatPerPoint=1, redemption={"pointsPerUnit": 1, "currency": "USD"})
    points = mint(2, ledgerAccountKey=account["ledgerAccountKey"])
    in_euros = create_campaign(shop, money(5), effects=(points,))
    in_dollars = create_campaign(shop, money(5), effects=(points,), currency="USD")
    shop.track(order(ana, 10), order(ana, 10, currency="USD"), order(ana, 10, currency="USD"))
    assert limits(shop, in_euros) == [(0, 5, None)]
    # 2 points for each of the two orders in dollars.
    assert limits(shop, in_dollars) == [(4, 1, None)]


def test_an_action_without_partial_application_is_skipped_if_its_total_worth_exceeds_the_budget(shop, ana):
    account = shop.account(fiatPerPoint=1)
    effects = (effect("discount", type="percentage", value=50), mint(6, ledgerAccountKey=account["ledgerAccountKey"]))
    campaign = create_campaign(shop, money(10), effects=effects)
    # 50 % of the order and 6 points are worth 11 of 10, then 10 of 10.
    assert [outcome["status"] for outcome in shop.track_one(order(ana, 10))["effects"]] == ["skipped", "skipped"]
    assert [outcome["status"] for outcome in shop.track_one(order(ana, 8))["effects"]] == ["executed", "executed"]
    assert limits(shop, campaign) == [(10, 0, None)]


def test_a_percentage_discount_that_is_cut_becomes_an_amount(shop, ana):
    create_campaign(shop, money(10), effects=(effect("discount", type="percentage", value=25),), partial=True)
    # 25 % of 60 are 15, more than the budget of 10.
    [outcome] = shop.track_one(order(ana, 60))["effects"]
    assert outcome["status"] == "partial"
    assert outcome["params"][:2] == [{"id": "type", "value": "amount"}, {"id": "value", "value": 10}]
    assert outcome["discountAmount"] == 10
    assert outcome["error"]["type"] == LIMIT_REACHED


def test_a_budget_in_yen_is_cut_to_whole_yen(shop, ana):
    effects = (effect("discount", type="percentage", value=10),)
    campaign = create_campaign(shop, money(Decimal("150.9")), effects=effects, partial=True, currency="JPY")
    # 10 % of 1055 is 105.5, rounded away from zero; the remaining 44.9 is cut.
    assert sell(shop, ana, orders=3, total=1055, currency="JPY") == [106, 44, None]
    assert limits(shop, campaign) == [(150, Decimal("0.9"), None)]


def test_a_budget_counts_only_orders_in_its_currency(shop, ana):
    campaign = create_campaign(shop, money(10), partial=True)
    assert sell(shop, ana, orders=3, currency="USD") == [Decimal("7.5")] * 3
    assert limits(shop, campaign) == [(0, 10, None)]
    assert sell(shop, ana, orders=3) == [Decimal("7.5"), Decimal("2.5"), None]
    dollar_campaign = create_campaign(
        shop, money(10), partial=True, currency="USD", eventType="member-purchase-order-confirmed"
    )
    for number, currency in enumerate(("USD", "USD", "EUR")):
        shop.track_one(order(ana, 60, external_id=f"o-{number}", currency=currency))
        shop.track_one(order_update(ana, f"o-{number}", "confirmed"))
    # 7.50 for the first order in dollars, and the remaining 2.50 for the second.
    assert limits(shop, dollar_campaign) == [(10, 0, None)]


def test_coupons_count_against_a_limit_and_are_cut_to_the_remaining_number(shop, ana):
    book = CouponBooks(shop.organization).make(type="codeless")
    rule = {"scope": "campaign", "type": "coupons", "period": "total", "limit": 5}
    assign = effect("assign-coupon", couponBookKey=book["couponBookKey"], amount=2)
    campaign = create_campaign(shop, rule, effects=(assign,), partial=True, eventType=GENERIC)
    results = [shop.track_one(event(ana)) for _ in range(4)]
    outcomes = [result["effects"][0] for result in results]
    assert [outcome["status"] for outcome in outcomes] == ["executed", "executed", "partial", "skipped"]
    assert [outcome["params"][1]["value"] for outcome in outcomes] == [2, 2, 1, 0]
    assert outcomes[2]["params"][2] == {"id": "requestedAmount", "value": 2}
    assert limits(shop, campaign) == [(5, 0, None)]
    shop.integration.post(f"/events/{results[0]['loyaltyEventKey']}/cancel", {}, expect=200)
    assert limits(shop, campaign) == [(5 - 2, 0 + 2, None)]


def test_coupons_that_cannot_be_assigned_do_not_count_against_a_limit(shop, ana):
    book = CouponBooks(shop.organization).make(type="codeless", maxAssignedPerMember=1)
    rule = {"scope": "campaign", "type": "coupons", "period": "total", "limit": 5}
    assign = effect("assign-coupon", couponBookKey=book["couponBookKey"])
    campaign = create_campaign(shop, rule, effects=(assign,), eventType=GENERIC)
    assert [shop.track_one(event(ana))["effects"][0]["status"] for _ in range(2)] == ["executed", "skipped"]
    assert limits(shop, campaign) == [(1, 4, None)]


def test_authorizations_count_against_a_budget_and_dry_runs_do_not(shop, ana):
    campaign = create_campaign(shop, money(20))
    shop.track(order(ana, 60), dryRun=True)
    body = {"loyaltyMemberId": ana, "order": {"total": 60}}
    simulation = shop.integration.post("/simulations", body, expect=200)["simulation"]
    assert simulation["earn"]["discountTotal"] == Decimal("7.5")
    assert limits(shop, campaign) == [(0, 20, None)]
    [result] = shop.track(order(ana, 60), executionMode="authorize")
    assert result["effects"][0]["status"] == "authorized"
    assert limits(shop, campaign) == [(Decimal("7.5"), Decimal("12.5"), None)]


def test_a_budget_is_counted_in_the_period_of_the_event(shop, ana):
    campaign = create_campaign(shop, {**money(10), "period": "monthly"}, partial=True)
    for month in ("01", "02"):
        amounts = sell(shop, ana, orders=2, externalEventDate=f"2026-{month}-15T10:00:00Z")
        # Each order has a discount of 7.5, of which the second gets what is left of 10.
        assert amounts == [Decimal("7.5"), 10 - Decimal("7.5")]
    # In the current month nothing is used: (used, left, location).
    assert limits(shop, campaign) == [(0, 10, None)]


# --- refusals --------------------------------------------------------------------------------------------------------


def campaign_faults(shop, *rules, **body):
    """(pointer, detail) of each fault of a campaign that is refused."""
    request = {"code": "refused", "name": "Campaign", "limitRules": rules, **body}
    problem = shop.administration.post("/campaigns", request, expect=400)
    return [(error["pointer"], error["detail"]) for error in problem["errors"]]


def test_a_limit_in_money_needs_a_currency(shop):
    shop.administration.put("", {"defaultLocale": "en", "currency": None})
    detail = "type is money, and neither the campaign nor the organization has a currency."
    assert campaign_faults(shop, money()) == [("/limitRules/0/type", detail)]
    assert create_campaign(shop, money(), currency="KWD")["limitRules"][0]["type"] == "money"


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (money(locationLimits={"MAD": 1}), "locationLimits"),
        (money(scope="location", locationLimits={"x" * 101: 1}), "locationLimits"),
        (money(scope="member", alertShares=[80]), "alertShares"),
        (money(alertShares=[0]), "alertShares/0"),
        (money(alertShares=[101]), "alertShares/0"),
        (money(alertShares=[80, 80]), "alertShares"),
        (money(sharedKey=""), "sharedKey"),
        (money(ledgerAccountKey="2b1a0f9e-8d7c-4b6a-9a5b-4c3d2e1f0a9b"), "ledgerAccountKey"),
        ({**money(Decimal("1.5")), "type": "coupons"}, "limit"),
        ({**money(scope="location", locationLimits={"MAD": Decimal("1.5")}), "type": "coupons"}, "locationLimits"),
    ],
)
def test_invalid_rules_are_refused(shop, rule, field):
    assert [pointer for pointer, _ in campaign_faults(shop, rule)] == [f"/limitRules/0/{field}"]


@pytest.mark.parametrize(
    ("other_fields", "body", "difference"),
    [
        ({"limit": 99}, {}, "limit"),
        ({"period": "daily"}, {}, "period"),
        ({"scope": "location"}, {}, "scope"),
        ({"type": "points"}, {}, "type"),
        ({"alertShares": [80]}, {}, "alertShares"),
        ({}, {"currency": "EUR"}, "the currency of the campaign"),
    ],
)
def test_rules_with_a_shared_key_must_be_equal(shop, other_fields, body, difference):
    rule = money(100, sharedKey="both")
    campaign = create_campaign(shop, rule, code="first")
    faults = campaign_faults(shop, {**rule, **other_fields}, **body)
    detail = f"sharedKey both is shared with a rule of campaign first; the two rules differ in {difference}."
    assert faults == [("/limitRules/0/sharedKey", detail)]
    # Two rules of one campaign must be equal, too.
    assert len(campaign_faults(shop, rule, {**rule, "limit": 1}, active=False)) == 1
    # An inactive campaign does not count, so its rule may differ.
    create_campaign(shop, {**rule, **other_fields}, active=False, **body)
    # No other active campaign shares the rule, so it may change.
    update = {"code": "first", "name": "First", "limitRules": [money(200, sharedKey="both")]}
    shop.administration.put(f"/campaigns/{campaign['campaignId']}", update)


def test_rules_with_a_shared_key_may_list_alert_shares_in_any_order(shop):
    rule = money(100, scope="location", sharedKey="both", locationLimits={"MAD": 5}, alertShares=[80, 90])
    first_campaign = create_campaign(shop, rule)
    second_campaign = create_campaign(shop, {**rule, "alertShares": [90, 80], "ledgerAccountKey": None})
    assert first_campaign["limitRules"] == [{**RULE_DEFAULTS, **rule}]
    assert second_campaign["limitRules"] == [{**RULE_DEFAULTS, **rule, "alertShares": [90, 80]}]
