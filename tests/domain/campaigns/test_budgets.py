"""Budgets of campaigns: limits of money and coupons, of locations, shared ones, and the alerts about them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.campaigns.context import Performed
from domain.campaigns.counters import ALL_CAMPAIGNS
from domain.campaigns.discounts import Basket
from domain.campaigns.limits import limit_rules_of
from tests.builders.campaigns import MEMBER_ID, Bench, account, action, campaign, effect, facts, group, mint, statuses

PENNY_POINTS = account(fiat_per_point=Decimal("0.01"))


def rule(limit, kind="money", scope="campaign", period="total", **more):
    return {"scope": scope, "type": kind, "period": period, "limit": limit, **more}


def limited_campaign(*effects, limit, parts=True, **values):
    """A campaign of one action, whose money is in euros; `parts` of its effects are applied within the limit."""
    values = {"default_currency": "EUR", "limit_rules": (limit,), "allow_partial_application_on_limit": parts, **values}
    return campaign(action(1, *effects), **values)


def euros(total, **values):
    return facts(total, **{"currency": "EUR", "basket": Basket(MEMBER_ID, Decimal(total), "EUR", []), **values})


def off(value, kind="amount"):
    return effect("discount", type=kind, value=value)


def coupons(number):
    return effect("assign-coupon", couponBookKey="cup", amount=number)


def amounts(results):
    """The amount and the status of the first discount of each event."""
    return [(result.effects[0].discount.amount, result.effects[0].status) for result in results]


def first_statuses(results):
    return [result.effects[0].status for result in results]


# --- money --------------------------------------------------------------------------------------------------------


def test_a_discount_is_cut_to_the_remaining_money():
    bench = Bench(limited_campaign(off(30, "percentage"), limit=rule(10)))
    results = [bench.run(euros(20)) for _ in range(3)]
    assert amounts(results) == [(6, "executed"), (4, "partial"), (0, "skipped")]
    assert [dict(result.effects[0].params)["type"] for result in results] == ["percentage", "amount", "amount"]
    assert results[1].effects[0].error["detail"] == "The limit of 10 EUR of a campaign (total) is reached."
    assert dict(results[1].effects[0].params)["value"] == 4
    assert [count.amount for count in bench.counters.count_log] == [6, 4, 0]


def test_without_partial_application_a_discount_over_the_remaining_money_is_skipped():
    bench = Bench(limited_campaign(off(6), limit=rule(10), parts=False))
    assert first_statuses([bench.run(euros(20)) for _ in range(2)]) == ["executed", "skipped"]
    # An order of 4.00 gets only 4.00 off, which is what the limit has left.
    assert amounts([bench.run(euros(4))]) == [(4, "partial")]


def test_a_limit_counts_the_amount_that_each_discount_takes_off_the_order():
    """Two discounts of 6.00 take 6.00 and then 4.00 off an order of 10.00."""
    bench_within_limit = Bench(limited_campaign(off(6), off(6), limit=rule(10), parts=False))
    assert statuses(bench_within_limit.run(euros(10))) == [(1, "executed"), (1, "partial")]
    bench_beyond_limit = Bench(limited_campaign(off(6), off(6), limit=rule(Decimal("9.99")), parts=False))
    assert statuses(bench_beyond_limit.run(euros(10))) == [(1, "skipped")] * 2


def test_remaining_money_is_rounded_down_to_the_digits_of_the_currency():
    bench = Bench(limited_campaign(off(6), limit=rule(Decimal("3.339"))))
    assert amounts([bench.run(euros(20))]) == [(Decimal("3.33"), "partial")]


def test_remaining_points_are_not_rounded_to_the_currency():
    accounts = [account(decimals=3)]
    tested_campaign = limited_campaign(mint(6), limit=rule(Decimal("3.339"), "points"), accounts=accounts)
    bench = Bench(tested_campaign, accounts=accounts)
    bench.run(euros(20))
    assert bench.balance() == Decimal("3.339")


@pytest.mark.parametrize(("currency", "used_money"), [("EUR", 6), ("USD", 0)])
def test_a_discount_in_another_currency_uses_no_money(currency, used_money):
    bench = Bench(limited_campaign(off(6), limit=rule(10)))
    results = [bench.run(euros(20, currency=currency)) for _ in range(2)]
    assert sum(count.amount for count in results[0].counted) == used_money
    assert first_statuses(results) == ["executed", "partial" if used_money else "executed"]


def test_an_order_without_a_currency_uses_money_as_well():
    bench = Bench(limited_campaign(off(6), limit=rule(10)))
    results = [bench.run(euros(20, currency=None)) for _ in range(2)]
    assert amounts(results) == [(6, "executed"), (4, "partial")]


def test_without_an_order_an_amount_is_cut_and_a_percentage_uses_nothing():
    bench = Bench(limited_campaign(off(6), limit=rule(10)))
    results = [bench.run(facts()) for _ in range(3)]
    assert first_statuses(results) == ["executed", "partial", "skipped"]
    assert dict(results[1].effects[0].params)["value"] == 4
    assert [count.amount for count in bench.counters.count_log] == [6, 4, 0]
    percentage = Bench(limited_campaign(off(6, "percentage"), limit=rule(10)))
    assert first_statuses([percentage.run(facts())]) == ["executed"]
    assert [count.amount for count in percentage.counters.count_log] == [0]


def test_points_with_a_worth_use_money():
    """500 points are worth 5.00, and the limit is 8.00, which is 800 points."""
    accounts = [PENNY_POINTS]
    bench = Bench(limited_campaign(mint(500), limit=rule(8), accounts=accounts), accounts=accounts)
    results = [bench.run(euros(20, home_currency="EUR")) for _ in range(3)]
    assert first_statuses(results) == ["executed", "partial", "skipped"]
    assert bench.balance() == 800


def test_points_that_are_worth_another_currency_use_no_money():
    accounts = [PENNY_POINTS]
    bench = Bench(limited_campaign(mint(500), limit=rule(8), accounts=accounts), accounts=accounts)
    results = [bench.run(euros(20, home_currency="USD")) for _ in range(3)]
    assert first_statuses(results) == ["executed"] * 3


def test_a_money_limit_has_the_currency_of_the_campaign_or_the_default_one():
    in_euros, in_default = (campaign(limit_rules=(rule(10),), currency=currency).campaign for currency in ("EUR", None))
    assert [limit_rules_of(one_campaign, {}, "USD")[0].currency for one_campaign in (in_euros, in_default)] == [
        "EUR",
        "USD",
    ]
    campaign_of_points = campaign(limit_rules=(rule(10, "points"),), currency="EUR").campaign
    assert limit_rules_of(campaign_of_points, {}, "USD")[0].currency is None


# --- coupons ------------------------------------------------------------------------------------------------------


def assigning(assigned_amounts):
    def assign(event, params):
        assigned_amounts.append(params["amount"])
        return Performed(params["amount"])

    return {"assign-coupon": assign, "assign-badge": lambda event, params: None}


def test_an_assignment_is_cut_to_the_remaining_coupons():
    assigned_amounts: list = []
    bench = Bench(limited_campaign(coupons(3), limit=rule(5, "coupons")), executors=assigning(assigned_amounts))
    results = [bench.run() for _ in range(3)]
    assert first_statuses(results) == ["executed", "partial", "skipped"]
    assert assigned_amounts == [3, 2]
    assert [count.amount for count in bench.counters.count_log] == [3, 2]
    assert [dict(result.effects[0].params)["amount"] for result in results] == [3, 2, 0]
    assert [result.effects[0].error and result.effects[0].error["type"] for result in results] == [
        None,
        "/problems/limit-reached",
        "/problems/limit-reached",
    ]


def test_a_cut_assignment_reports_the_remaining_coupons_if_its_executor_reports_none():
    executors = {"assign-coupon": lambda event, params: None}
    results = [Bench(limited_campaign(coupons(3), limit=rule(2, "coupons")), executors=executors).run()]
    assert first_statuses(results) == ["partial"]
    assert dict(results[0].effects[0].params)["amount"] == 2
    assert dict(results[0].effects[0].params)["requestedAmount"] == 3


def test_without_partial_application_more_than_the_remaining_coupons_are_not_assigned():
    assigned_amounts: list = []
    tested_campaign = limited_campaign(coupons(2), coupons(2), limit=rule(5, "coupons"), parts=False)
    bench = Bench(tested_campaign, executors=assigning(assigned_amounts))
    assert statuses(bench.run()) == [(1, "executed")] * 2
    assert statuses(bench.run()) == [(1, "skipped")] * 2
    assert assigned_amounts == [2, 2]


def test_an_inactive_member_uses_no_coupon_of_a_limit():
    tested_campaign = limited_campaign(coupons(9), effect("notify", name="n"), limit=rule(5, "coupons"), parts=False)
    evaluation = Bench(tested_campaign, executors={"notify": lambda event, params: None}).run(facts(is_active=False))
    assert statuses(evaluation) == [(1, "skipped"), (1, "executed")]
    assert evaluation.effects[0].error["detail"] == "The member of the event is not active."


def test_a_limit_of_coupons_does_not_limit_badges():
    bench = Bench(
        limited_campaign(
            effect("assign-badge", badgeKey="b", amount=9), coupons(1), limit=rule(1, "coupons"), parts=False
        ),
        executors=assigning([]),
    )
    assert statuses(bench.run()) == [(1, "executed")] * 2
    assert [count.amount for count in bench.counters.count_log] == [1]


def test_a_limit_ignores_a_broken_effect_and_counts_those_after_it():
    broken_effect = effect("discount", type="amount", value=("=", "order.total"))
    tested_campaign = limited_campaign(broken_effect, coupons(6), limit=rule(5, "coupons"), parts=False)
    evaluation = Bench(tested_campaign, executors=assigning([])).run()
    # The broken effect counts nothing. The 6 coupons after it exceed the limit of 5.
    assert [(outcome.status, outcome.error["type"]) for outcome in evaluation.effects] == [
        ("skipped", "/problems/effect-parameter"),
        ("skipped", "/problems/limit-reached"),
    ]


# --- locations and several campaigns ------------------------------------------------------------------------------


def test_each_location_has_a_limit_of_its_own():
    """MAD may have 20 points, all other locations 10, and so may events without a location."""
    bench = Bench(limited_campaign(mint(10), limit=rule(10, "points", "location", locationLimits={"MAD": 20})))
    location_codes = ["MAD", "MAD", "MAD", "LPA", "LPA", None, None]
    assert first_statuses([bench.run(facts(location_code=code)) for code in location_codes]) == [
        *("executed", "executed", "skipped"),
        *("executed", "skipped"),
        *("executed", "skipped"),
    ]
    assert {key.location_code for key, *_ in bench.counters.count_log} == {"MAD", "LPA", ""}


def test_events_without_a_location_can_have_a_limit_of_their_own():
    bench = Bench(limited_campaign(mint(10), limit=rule(10, "points", "location", locationLimits={"": 20})))
    assert first_statuses([bench.run(facts()) for _ in range(3)]) == ["executed", "executed", "skipped"]


def test_rules_with_one_shared_key_count_together():
    shared_rule = rule(10, "points", sharedKey="year")
    first = campaign(action(1, mint(6)), limit_rules=(shared_rule,))
    second = campaign(action(2, mint(6)), limit_rules=(shared_rule,), campaign_id=2)
    bench = Bench(first, second)
    assert statuses(bench.run()) == [(1, "executed"), (2, "skipped")]
    assert [(key.campaign_id, key.shared_key, by) for key, _, by, _ in bench.counters.count_log] == [
        (ALL_CAMPAIGNS, "year", 1)
    ]


# --- alerts -------------------------------------------------------------------------------------------------------


def alerts(evaluation):
    return [(alert.share, alert.used, alert.limit, alert.location) for alert in evaluation.alerts]


def test_an_alert_is_reported_when_the_use_first_reaches_its_share():
    bench = Bench(limited_campaign(mint(("=", "order.total")), limit=rule(200, "points", alertShares=[100, 80])))
    assert [alerts(bench.run(facts(total))) for total in (159, 1, 39, 1)] == [
        [],
        [(80, 160, 200, None)],
        [],
        [(100, 200, 200, None)],
    ]


def test_alerts_of_one_event_are_reported_in_the_order_of_their_shares():
    bench = Bench(limited_campaign(mint(200), limit=rule(200, "points", alertShares=[100, 50])))
    evaluation = bench.run()
    assert alerts(evaluation) == [(50, 200, 200, None), (100, 200, 200, None)]
    assert {(alert.campaign_key, alert.rule.limit) for alert in evaluation.alerts} == {("campaign-1", 200)}


def test_each_location_has_its_own_alerts():
    bench = Bench(limited_campaign(mint(5), limit=rule(10, "points", "location", alertShares=[50])))
    assert [alerts(bench.run(facts(location_code=code))) for code in ("MAD", "MAD", None)] == [
        [(50, 5, 10, "MAD")],
        [],
        [(50, 5, 10, "")],
    ]


def test_a_counter_has_to_be_exact_at_its_alerts_and_its_limit():
    without_alert, with_alert = (
        limited_campaign(limit=rule(1000, alertShares=shares)).limits[0].ceiling(Decimal(1000)) for shares in ([], [80])
    )
    assert (without_alert.next_amount(()), with_alert.next_amount(())) == (1000, 800)
    # After the alert has been reported, only the limit counts.
    [alert] = with_alert.alerts
    assert with_alert.next_amount([alert]) == 1000


def test_an_action_that_is_beaten_in_its_stacking_group_reports_no_alert():
    """100 points are worth 1.00, and lose against 5.00 off."""
    accounts, groups = [PENNY_POINTS], [group()]
    rules = (rule(100, "points", alertShares=[50]),)
    action_of_points = action(1, mint(100), stacking_group_key="group")
    better_campaign = campaign(action(2, off(5), stacking_group_key="group"), campaign_id=2, groups=groups)
    tested_campaign = campaign(action_of_points, limit_rules=rules, accounts=accounts, groups=groups)
    assert Bench(tested_campaign, better_campaign, accounts=accounts).run(euros(20)).alerts == []
    assert alerts(Bench(tested_campaign, accounts=accounts).run(euros(20))) == [(50, 100, 100, None)]
