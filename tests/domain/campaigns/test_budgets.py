"""Budgets of campaigns: limits of money and coupons, of locations, shared ones, and the alerts about them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.campaigns.context import ExecutorResult
from domain.campaigns.counters import ALL_CAMPAIGNS
from domain.campaigns.discounts import Basket
from domain.campaigns.limits import limit_rules_of
from tests.builders.campaigns import MEMBER_ID, Bench, account, action, campaign, effect, facts, group, mint, statuses

PENNY_POINTS = account(fiat_per_point=Decimal("0.01"))


def rule(limit, kind="money", scope="campaign", period="total", **more):
    """A limit of money of the campaign for all time, unless the kind, the scope or the period differs."""
    return {"scope": scope, "type": kind, "period": period, "limit": limit, **more}


def limited_campaign(*effects, limit, allow_parts=True, **values):
    """A campaign of one action, whose money is in euros; with `allow_parts`, effects are cut to the limit."""
    settings = {"default_currency": "EUR", "limit_rules": (limit,), "allow_partial_application_on_limit": allow_parts}
    return campaign(action(1, *effects), **{**settings, **values})


def order_in_euros(total, **values):
    """An event with an order without items."""
    return facts(total, **{"currency": "EUR", "basket": Basket(MEMBER_ID, Decimal(total), "EUR", []), **values})


def discount(value, kind="amount"):
    """A discount of an amount, or of a percentage."""
    return effect("discount", type=kind, value=value)


def assign_coupons(number):
    """An effect that assigns coupons."""
    return effect("assign-coupon", couponBookKey="cup", amount=number)


def amounts(evaluations):
    """The amount and the status of the first discount of each event."""
    return [(evaluation.effects[0].discount.amount, evaluation.effects[0].status) for evaluation in evaluations]


def first_statuses(evaluations):
    """The status of the first effect of each event."""
    return [evaluation.effects[0].status for evaluation in evaluations]


# --- money --------------------------------------------------------------------------------------------------------


def test_a_discount_is_cut_to_the_remaining_money():
    # 30 % of 20 are 6: 4 of the limit of 10 remain for the second order.
    bench = Bench(limited_campaign(discount(30, "percentage"), limit=rule(10)))
    evaluations = [bench.run(order_in_euros(20)) for _ in range(3)]
    assert amounts(evaluations) == [(6, "executed"), (4, "partial"), (0, "skipped")]
    assert [dict(evaluation.effects[0].params)["type"] for evaluation in evaluations] == [
        "percentage",
        "amount",
        "amount",
    ]
    assert evaluations[1].effects[0].error["detail"] == "The limit of 10 EUR of a campaign (total) is reached."
    assert dict(evaluations[1].effects[0].params)["value"] == 4
    assert [count.amount for count in bench.counters.count_log] == [6, 4, 0]


def test_without_partial_application_a_discount_over_the_remaining_money_is_skipped():
    bench = Bench(limited_campaign(discount(6), limit=rule(10), allow_parts=False))
    assert first_statuses([bench.run(order_in_euros(20)) for _ in range(2)]) == ["executed", "skipped"]
    # An order of 4.00 gets only 4.00 off, which is what the limit has left.
    assert amounts([bench.run(order_in_euros(4))]) == [(4, "partial")]


def test_a_limit_counts_the_amount_that_each_discount_takes_off_the_order():
    """Two discounts of 6.00 take 6.00 and then 4.00 off an order of 10.00."""
    bench_within_limit = Bench(limited_campaign(discount(6), discount(6), limit=rule(10), allow_parts=False))
    assert statuses(bench_within_limit.run(order_in_euros(10))) == [(1, "executed"), (1, "partial")]
    bench_beyond_limit = Bench(
        limited_campaign(discount(6), discount(6), limit=rule(Decimal("9.99")), allow_parts=False)
    )
    assert statuses(bench_beyond_limit.run(order_in_euros(10))) == [(1, "skipped")] * 2


def test_remaining_money_is_rounded_down_to_the_digits_of_the_currency():
    bench = Bench(limited_campaign(discount(6), limit=rule(Decimal("3.339"))))
    assert amounts([bench.run(order_in_euros(20))]) == [(Decimal("3.33"), "partial")]


def test_remaining_points_are_not_rounded_to_the_currency():
    accounts = [account(decimals=3)]
    tested_campaign = limited_campaign(mint(6), limit=rule(Decimal("3.339"), "points"), accounts=accounts)
    bench = Bench(tested_campaign, accounts=accounts)
    bench.run(order_in_euros(20))
    assert bench.balance() == Decimal("3.339")


@pytest.mark.parametrize(("currency", "used_money"), [("EUR", 6), ("USD", 0)])
def test_a_discount_in_another_currency_uses_no_money(currency, used_money):
    bench = Bench(limited_campaign(discount(6), limit=rule(10)))
    evaluations = [bench.run(order_in_euros(20, currency=currency)) for _ in range(2)]
    assert sum(count.amount for count in evaluations[0].counts) == used_money
    assert first_statuses(evaluations) == ["executed", "partial" if used_money else "executed"]


def test_an_order_without_a_currency_uses_money_as_well():
    bench = Bench(limited_campaign(discount(6), limit=rule(10)))
    evaluations = [bench.run(order_in_euros(20, currency=None)) for _ in range(2)]
    assert amounts(evaluations) == [(6, "executed"), (4, "partial")]


def test_without_an_order_an_amount_is_cut_and_a_percentage_uses_nothing():
    bench = Bench(limited_campaign(discount(6), limit=rule(10)))
    evaluations = [bench.run(facts()) for _ in range(3)]
    assert first_statuses(evaluations) == ["executed", "partial", "skipped"]
    assert dict(evaluations[1].effects[0].params)["value"] == 4
    assert [count.amount for count in bench.counters.count_log] == [6, 4, 0]
    percentage = Bench(limited_campaign(discount(6, "percentage"), limit=rule(10)))
    assert first_statuses([percentage.run(facts())]) == ["executed"]
    assert [count.amount for count in percentage.counters.count_log] == [0]


def test_points_with_a_worth_use_money():
    """500 points are worth 5.00, and the limit is 8.00, which is 800 points."""
    accounts = [PENNY_POINTS]
    bench = Bench(limited_campaign(mint(500), limit=rule(8), accounts=accounts), accounts=accounts)
    evaluations = [bench.run(order_in_euros(20, home_currency="EUR")) for _ in range(3)]
    assert first_statuses(evaluations) == ["executed", "partial", "skipped"]
    assert bench.balance() == 800


def test_points_that_are_worth_another_currency_use_no_money():
    accounts = [PENNY_POINTS]
    bench = Bench(limited_campaign(mint(500), limit=rule(8), accounts=accounts), accounts=accounts)
    # 3 * 500 points are worth 15.00 US dollars, and the limit is 8.00 euros.
    evaluations = [bench.run(order_in_euros(20, home_currency="USD")) for _ in range(3)]
    assert first_statuses(evaluations) == ["executed"] * 3


def test_a_money_limit_has_the_currency_of_the_campaign_or_the_default_one():
    in_euros, in_default = (campaign(limit_rules=(rule(10),), currency=currency).record for currency in ("EUR", None))
    campaign_of_points = campaign(limit_rules=(rule(10, "points"),), currency="EUR").record
    for tested_campaign, currency in ((in_euros, "EUR"), (in_default, "USD"), (campaign_of_points, None)):
        [limit_rule] = limit_rules_of(tested_campaign, {}, default_currency="USD")
        assert limit_rule.currency == currency


# --- coupons ------------------------------------------------------------------------------------------------------


def assigning(assigned_amounts):
    """Executors that append the amount of each assignment of coupons to a list."""

    def assign(event, params):
        assigned_amounts.append(params["amount"])
        return ExecutorResult(amount=params["amount"])

    return {"assign-coupon": assign, "assign-badge": lambda event, params: None}


def test_an_assignment_is_cut_to_the_remaining_coupons():
    assigned_amounts: list = []
    bench = Bench(limited_campaign(assign_coupons(3), limit=rule(5, "coupons")), executors=assigning(assigned_amounts))
    evaluations = [bench.run() for _ in range(3)]
    assert first_statuses(evaluations) == ["executed", "partial", "skipped"]
    assert assigned_amounts == [3, 2]
    assert [count.amount for count in bench.counters.count_log] == [3, 2]
    assert [dict(evaluation.effects[0].params)["amount"] for evaluation in evaluations] == [3, 2, 0]
    assert [evaluation.effects[0].error and evaluation.effects[0].error["type"] for evaluation in evaluations] == [
        None,
        "/problems/limit-reached",
        "/problems/limit-reached",
    ]


def test_a_cut_assignment_reports_the_remaining_coupons_if_its_executor_reports_none():
    executors = {"assign-coupon": lambda event, params: None}
    evaluations = [Bench(limited_campaign(assign_coupons(3), limit=rule(2, "coupons")), executors=executors).run()]
    assert first_statuses(evaluations) == ["partial"]
    assert dict(evaluations[0].effects[0].params)["amount"] == 2
    assert dict(evaluations[0].effects[0].params)["requestedAmount"] == 3


def test_without_partial_application_more_than_the_remaining_coupons_are_not_assigned():
    assigned_amounts: list = []
    tested_campaign = limited_campaign(
        assign_coupons(2), assign_coupons(2), limit=rule(5, "coupons"), allow_parts=False
    )
    bench = Bench(tested_campaign, executors=assigning(assigned_amounts))
    assert statuses(bench.run()) == [(1, "executed")] * 2
    assert statuses(bench.run()) == [(1, "skipped")] * 2
    assert assigned_amounts == [2, 2]


def test_an_inactive_member_uses_no_coupon_of_a_limit():
    tested_campaign = limited_campaign(
        assign_coupons(9), effect("notify", name="n"), limit=rule(5, "coupons"), allow_parts=False
    )
    evaluation = Bench(tested_campaign, executors={"notify": lambda event, params: None}).run(facts(is_active=False))
    assert statuses(evaluation) == [(1, "skipped"), (1, "executed")]
    assert evaluation.effects[0].error["detail"] == "The member of the event is not active."


def test_a_limit_of_coupons_does_not_limit_badges():
    bench = Bench(
        limited_campaign(
            effect("assign-badge", badgeKey="b", amount=9),
            assign_coupons(1),
            limit=rule(1, "coupons"),
            allow_parts=False,
        ),
        executors=assigning([]),
    )
    assert statuses(bench.run()) == [(1, "executed")] * 2
    assert [count.amount for count in bench.counters.count_log] == [1]


def test_a_limit_ignores_a_broken_effect_and_counts_those_after_it():
    broken_effect = effect("discount", type="amount", value=("=", "order.total"))
    tested_campaign = limited_campaign(broken_effect, assign_coupons(6), limit=rule(5, "coupons"), allow_parts=False)
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
    first_campaign = campaign(action(1, mint(6)), limit_rules=(shared_rule,))
    second_campaign = campaign(action(2, mint(6)), limit_rules=(shared_rule,), campaign_id=2)
    bench = Bench(first_campaign, second_campaign)
    # Of the limit of 10, the 6 points of the first campaign leave 4.
    assert statuses(bench.run()) == [(1, "executed"), (2, "skipped")]
    [count] = bench.counters.count_log
    assert (count.key.campaign_id, count.key.shared_key, count.campaign_id) == (ALL_CAMPAIGNS, "year", 1)


# --- alerts -------------------------------------------------------------------------------------------------------


def alerts(evaluation):
    """(percentage, used amount, limit, location) of each alert."""
    return [(alert.share, alert.used, alert.limit, alert.location) for alert in evaluation.alerts]


def test_an_alert_is_reported_when_the_use_first_reaches_its_share():
    # 80 % of 200 are 160.
    bench = Bench(limited_campaign(mint(("=", "order.total")), limit=rule(200, "points", alertShares=[100, 80])))
    assert alerts(bench.run(facts(total=159))) == []
    assert alerts(bench.run(facts(total=1))) == [(80, 160, 200, None)]
    assert alerts(bench.run(facts(total=39))) == []
    assert alerts(bench.run(facts(total=1))) == [(100, 200, 200, None)]


def test_alerts_of_one_event_are_reported_in_the_order_of_their_shares():
    bench = Bench(limited_campaign(mint(200), limit=rule(200, "points", alertShares=[100, 50])))
    evaluation = bench.run()
    assert alerts(evaluation) == [(50, 200, 200, None), (100, 200, 200, None)]
    assert {(alert.campaign_key, alert.rule.limit) for alert in evaluation.alerts} == {("campaign-1", 200)}


def test_each_location_has_its_own_alerts():
    bench = Bench(limited_campaign(mint(5), limit=rule(10, "points", "location", alertShares=[50])))
    # 50 % of 10 are 5. The location of events without one is the empty text.
    assert alerts(bench.run(facts(location_code="MAD"))) == [(50, 5, 10, "MAD")]
    assert alerts(bench.run(facts(location_code="MAD"))) == []
    assert alerts(bench.run(facts(location_code=None))) == [(50, 5, 10, "")]


def test_a_counter_has_to_be_exact_at_its_alerts_and_its_limit():
    without_alert, with_alert = (
        limited_campaign(limit=rule(1000, alertShares=shares)).limits[0].ceiling(Decimal(1000)) for shares in ([], [80])
    )
    assert without_alert.next_amount(()) == 1000
    # 80 % of 1000.
    assert with_alert.next_amount(()) == 800
    # After the alert has been reported, only the limit counts.
    [alert] = with_alert.alerts
    assert with_alert.next_amount([alert]) == 1000


def test_an_action_that_is_beaten_in_its_stacking_group_reports_no_alert():
    """100 points are worth 1.00, and lose against 5.00 off."""
    accounts, groups = [PENNY_POINTS], [group()]
    rules = (rule(100, "points", alertShares=[50]),)
    action_of_points = action(1, mint(100), stacking_group_key="group")
    better_campaign = campaign(action(2, discount(5), stacking_group_key="group"), campaign_id=2, groups=groups)
    tested_campaign = campaign(action_of_points, limit_rules=rules, accounts=accounts, groups=groups)
    assert Bench(tested_campaign, better_campaign, accounts=accounts).run(order_in_euros(20)).alerts == []
    assert alerts(Bench(tested_campaign, accounts=accounts).run(order_in_euros(20))) == [(50, 100, 100, None)]
