"""Stacking groups and exclusive campaigns: which of several actions apply, and what they leave for each other."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.campaigns.context import ExecutorResult
from domain.campaigns.discounts import Basket
from tests.builders.campaigns import (
    MEMBER_ID,
    Bench,
    account,
    action,
    campaign,
    effect,
    facts,
    group,
    mint,
    statuses,
)

POINTS_ACCOUNT = account(fiat_per_point=Decimal("0.03"))
SHIRTS = 'item.productCode == "shirt"'


def order(total=None, **items):
    """An order of items by their product codes; its total is the sum of their totals unless given."""
    lines = [{"productCode": code, "total": Decimal(price), "quantity": 1} for code, price in items.items()]
    whole = Decimal(total if total is not None else sum(items.values()))
    event = facts(whole, basket=Basket(MEMBER_ID, whole, None, lines))
    event.context["order"]["items"] = lines
    event.context["orderAfter"] = event.basket.remainder()
    return event


def percent(value, **params):
    """A discount of a percentage."""
    return effect("discount", type="percentage", value=value, **params)


def cash(value, **params):
    """A discount of an amount."""
    return effect("discount", type="amount", value=value, **params)


def in_group(number, *effects, name="group", **values):
    """An action in a stacking group."""
    return action(number, *effects, stacking_group_key=name, **values)


def discounts(evaluation):
    """The id of the action and the amount of each discount."""
    return [
        (outcome.action.action_id, outcome.discount.amount)
        for outcome in evaluation.effects
        if outcome.discount is not None
    ]


def run(event, *campaigns, **bench):
    """The evaluation of an event by campaigns; a point is worth 0.03."""
    return Bench(*campaigns, accounts=[POINTS_ACCOUNT], **bench).run(event)


def reasons_of_actions(event, *campaigns, **bench):
    """The reason of each action, by its id, with the actual value."""
    evaluation = Bench(*campaigns, accounts=[POINTS_ACCOUNT], **bench).run(event, explaining=True)
    return {
        explanation.action.action_id: explanation.reason and (explanation.reason.code, explanation.reason.actual)
        for explanation in evaluation.explanations
        if explanation.action is not None
    }


# --- the worked examples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    # The effects of the actions, in their order, and what remains of the order of 100.
    ("effects", "remaining_total"),
    [
        ([percent(20), cash(10)], 100 - 20 - 10),
        # 20 % of the remaining 90 are 18.
        ([cash(10), percent(20)], 100 - 10 - 18),
        ([percent(20, base="initial"), cash(10, base="initial")], 100 - 20 - 10),
        ([cash(10, base="initial"), percent(20, base="initial")], 100 - 10 - 20),
    ],
)
def test_discounts_apply_to_the_reduced_or_to_the_initial_total(effects, remaining_total):
    event = order(100)
    run(event, campaign(*[action(number, discount, priority=number) for number, discount in enumerate(effects, 1)]))
    assert event.basket.remaining_total == remaining_total


@pytest.mark.parametrize("priority", [1, 9])
def test_only_the_exclusive_campaign_applies(priority):
    exclusive_campaign = campaign(action(1, percent(20), priority=priority), exclusive=True)
    other_campaign = campaign(action(2, cash(10), priority=5), campaign_id=2)
    event = order(100)
    assert discounts(run(event, exclusive_campaign, other_campaign)) == [(1, 20)]
    assert event.basket.remaining_total == 80
    assert reasons_of_actions(order(100), exclusive_campaign, other_campaign) == {1: None, 2: ("NOT_COMBINABLE", 1)}


def three_offers(**settings):
    """A campaign with three actions in one group: 10 % off, 5.00 off, and 300 points, which are worth 9.00."""
    return campaign(
        in_group(1, percent(10)),
        in_group(2, cash(5)),
        in_group(3, mint(300)),
        groups=[group()],
        accounts=[POINTS_ACCOUNT],
        **settings,
    )


def test_the_best_action_applies():
    # Of 80.00, 10 % are 8.00.
    [outcome] = run(order(80), three_offers()).effects
    assert (outcome.action.action_id, outcome.effect_id, outcome.worth) == (3, "mint-points", 9)
    assert reasons_of_actions(order(80), three_offers()) == {
        1: ("BEATEN_BY", {"actionId": 3, "worth": 8, "winnerWorth": 9}),
        2: ("BEATEN_BY", {"actionId": 3, "worth": 5, "winnerWorth": 9}),
        3: None,
    }


def test_an_action_competes_with_the_points_that_its_limit_leaves():
    limit = {"scope": "member", "type": "points", "period": "monthly", "limit": 300}
    limited_campaign = three_offers(limit_rules=(limit,), allow_partial_application_on_limit=True)
    bench = Bench(limited_campaign, accounts=[POINTS_ACCOUNT])
    bench.run(order(10))
    [key] = [count.key for count in bench.counters.count_log]
    # Of the limit of 300 points, 100 remain, which are worth 3.00; 10 % of 80.00 are 8.00.
    evaluation = run(order(80), limited_campaign, used_amounts={key: Decimal(200)})
    assert discounts(evaluation) == [(1, 8)]
    assert reasons_of_actions(order(80), limited_campaign, used_amounts={key: Decimal(200)})[3] == (
        "BEATEN_BY",
        {"actionId": 1, "worth": 3, "winnerWorth": 8},
    )


def twenty_percent_or_five(*, scope, per):
    """A campaign of two actions in one group: 20 % off, or 5.00 off each item or the order."""
    return campaign(in_group(1, percent(20)), in_group(2, cash(5, per=per)), groups=[group(scope=scope)])


def test_each_item_takes_its_best_action():
    # 20 % of the shirt are 6.00, and of the mug 2.00.
    evaluation = run(order(shirt=30, mug=10), twenty_percent_or_five(scope="item", per="item"))
    assert discounts(evaluation) == [(1, 6), (2, 5)]
    assert [outcome.discount.allocation for outcome in evaluation.effects] == [((0, 6),), ((1, 5),)]
    assert evaluation.discount_total == 6 + 5


def test_the_whole_order_takes_the_best_action():
    # 20 % of the order are 8.00, and 5.00 off each of the two items are 10.00.
    evaluation = run(order(shirt=30, mug=10), twenty_percent_or_five(scope="order", per="item"))
    assert discounts(evaluation) == [(2, 10)]
    reasons = reasons_of_actions(order(shirt=30, mug=10), twenty_percent_or_five(scope="order", per="item"))
    assert reasons[1] == ("BEATEN_BY", {"actionId": 2, "worth": 8, "winnerWorth": 10})


def test_a_later_discount_is_cut_to_the_remaining_total():
    evaluation = run(
        order(100), campaign(action(1, percent(60, base="initial")), action(2, percent(50, base="initial")))
    )
    assert discounts(evaluation) == [(1, 60), (2, 40)]
    assert statuses(evaluation) == [(1, "executed"), (2, "partial")]


@pytest.mark.parametrize(("minimum", "applies"), [(68, False), (60, True)])
def test_rules_see_the_total_that_discounts_have_left(minimum, applies):
    """20 % of the shirt are 6.00, which leave 64.00 of the order of 70.00."""
    evaluation = run(
        order(shirt=30, trousers=40),
        campaign(
            action(1, percent(20, itemFilter=("=", SHIRTS))), action(2, mint(1), rule=f"orderAfter.total >= {minimum}")
        ),
    )
    assert discounts(evaluation) == [(1, 6)]
    assert statuses(evaluation) == [(1, "executed"), *([(2, "executed")] if applies else [])]


def test_the_next_best_action_wins_if_the_best_one_is_inactive():
    inactive_campaign = campaign(in_group(1, percent(30)), groups=[group()], campaign_id=1, active=False)
    active_campaign = campaign(in_group(2, percent(20)), in_group(3, percent(10)), groups=[group()], campaign_id=2)
    assert discounts(run(order(100), inactive_campaign, active_campaign)) == [(2, 20)]


# --- modes and scopes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "action_ids"), [("first", [1]), ("best", [3]), ("worst", [2]), ("all", [1, 2, 3])])
def test_the_mode_decides_which_actions_apply(mode, action_ids):
    tested_campaign = campaign(in_group(1, cash(5)), in_group(2, cash(3)), in_group(3, cash(9)), groups=[group(mode)])
    assert [action_id for action_id, _ in discounts(run(order(100), tested_campaign))] == action_ids


def test_an_inactive_group_does_not_restrict_its_actions():
    tested_campaign = campaign(in_group(1, cash(5)), in_group(2, cash(3)), groups=[group("best", active=False)])
    assert discounts(run(order(100), tested_campaign)) == [(1, 5), (2, 3)]


@pytest.mark.parametrize(
    ("mode", "amounts"),
    [
        ("best", [(1, 20), (2, 5)]),
        ("worst", [(1, 2), (2, 5)]),
        ("first", [(1, 20 + 2)]),
        ("all", [(1, 20 + 2), (2, 5 + 5)]),
    ],
)
def test_a_group_of_items_applies_its_mode_to_each_item(mode, amounts):
    """Action 1 takes 20.00 off the coat and 2.00 off the mug, action 2 takes 5.00 off each."""
    tested_campaign = campaign(
        in_group(1, percent(20)), in_group(2, cash(5, per="item")), groups=[group(mode, scope="item")]
    )
    assert discounts(run(order(coat=100, mug=10), tested_campaign)) == amounts


def test_the_worst_discount_applies_to_each_item():
    tested_campaign = campaign(
        in_group(1, cash(5, per="item")), in_group(2, cash(1, per="item")), groups=[group("worst", scope="item")]
    )
    assert discounts(run(order(coat=100, mug=10), tested_campaign)) == [(2, 1 + 1)]


def test_an_action_that_loses_two_items_equally_is_beaten_by_the_first_winner():
    """The 20 % win the coat, and the 10.00 the mug. Action 3 takes 3.00 off each item, and loses both."""
    tested_campaign = campaign(
        in_group(1, percent(20)),
        in_group(2, cash(10, itemFilter=("=", "item.total == 10.0"))),
        in_group(3, cash(3, per="item")),
        groups=[group("best", scope="item")],
    )
    assert discounts(run(order(coat=100, mug=10), tested_campaign)) == [(1, 20), (2, 10)]
    assert reasons_of_actions(order(coat=100, mug=10), tested_campaign)[3] == (
        "BEATEN_BY",
        {"actionId": 1, "worth": 3 + 3, "winnerWorth": 20 + 2},
    )


def test_priority_campaign_and_index_decide_between_equal_actions():
    campaign_2 = campaign(in_group(5, cash(10), priority=2, action_index=0), groups=[group()], campaign_id=2)
    campaign_1 = campaign(
        in_group(3, cash(10), priority=2, action_index=1),
        in_group(4, cash(10), priority=2, action_index=0),
        groups=[group()],
        campaign_id=1,
    )
    assert discounts(run(order(100), campaign_2, campaign_1)) == [(4, 10)]
    urgent_campaign = campaign(in_group(9, cash(10), priority=1), groups=[group()], campaign_id=3)
    assert discounts(run(order(100), campaign_2, campaign_1, urgent_campaign)) == [(9, 10)]


def test_a_group_is_applied_in_the_place_of_its_first_action():
    tested_campaign = campaign(
        in_group(1, cash(1), priority=1),
        action(2, percent(50), priority=2),
        in_group(3, percent(10), priority=3),
        groups=[group()],
    )
    # The group decides on 100: 10 % is better than 1, and comes before the 50 % of the remaining 90.
    assert discounts(run(order(100), tested_campaign)) == [(3, 10), (2, 45)]


def test_an_exclusive_group_depends_on_the_turn_of_each_action():
    tested_campaign = campaign(
        action(1, percent(10), priority=1, rule="false", exclusive_group="g"),
        action(2, percent(50), priority=2),
        action(3, percent(10), priority=3, exclusive_group="g"),
    )
    # 50 % of 100, and then 10 % of 50.
    assert discounts(run(order(100), tested_campaign)) == [(2, 50), (3, 5)]


def test_without_items_a_group_of_items_decides_on_the_order():
    # Action 1 takes off 20 %, action 2 takes off 5.
    assert discounts(run(order(100), twenty_percent_or_five(scope="item", per="order"))) == [(1, 20)]


def test_an_action_that_takes_nothing_off_is_not_the_worst():
    tested_campaign = campaign(
        in_group(1, percent(20, itemFilter=("=", "false"))), in_group(2, cash(5)), groups=[group("worst")]
    )
    assert discounts(run(order(shirt=30), tested_campaign)) == [(2, 5)]


def test_losers_use_no_limit_and_leave_no_points():
    limit = {"scope": "member", "type": "points", "period": "monthly", "limit": 300}
    tested_campaigns = [
        campaign(in_group(1, mint(100)), limit_rules=(limit,), groups=[group()], accounts=[POINTS_ACCOUNT]),
        campaign(in_group(2, cash(5)), groups=[group()], campaign_id=2),
    ]
    bench = Bench(*tested_campaigns, accounts=[POINTS_ACCOUNT])
    evaluation = bench.run(order(100))
    assert discounts(evaluation) == [(2, 5)]
    assert bench.session.steps == []
    assert bench.counters.count_log == []
    assert evaluation.counts == []
    assert bench.balance() == 0


def test_an_action_over_its_limit_does_not_compete():
    tested_campaign = campaign(
        in_group(1, percent(50)), in_group(2, percent(10)), groups=[group()], max_transactions_per_member=0
    )
    other_campaign = campaign(in_group(3, cash(1)), groups=[group()], campaign_id=2)
    evaluation = run(order(100), tested_campaign, other_campaign)
    assert statuses(evaluation) == [(1, "skipped"), (2, "skipped"), (3, "executed")]
    assert evaluation.effects[0].error["type"] == "/problems/limit-reached"


def test_the_worth_of_an_action_is_that_of_all_its_effects():
    tested_campaign = campaign(
        in_group(1, cash(4), mint(100), effect("assign-coupon", couponBookKey="cup")),
        in_group(2, cash(8)),
        groups=[group()],
        accounts=[POINTS_ACCOUNT],
    )
    assigned_keys = []

    def assign(event, params):
        assigned_keys.append(params["couponBookKey"])
        return ExecutorResult(amount=Decimal(1), worth=Decimal(2))

    bench = Bench(tested_campaign, accounts=[POINTS_ACCOUNT], executors={"assign-coupon": assign})
    assert [(outcome.effect_id, outcome.worth) for outcome in bench.run(order(100)).effects] == [
        ("discount", 4),
        ("mint-points", 3),
        ("assign-coupon", 2),
    ]
    # The first call is the trial, the second assigns.
    assert assigned_keys == ["cup", "cup"]


def test_a_trial_of_coupons_is_undone_and_repeated_only_if_it_wins():
    """The cup is worth 2.00, and the discount 1.00."""
    assignments_at_trials, assigned_keys = [], []

    def run_and_undo(execute):
        assignments_at_trials.append(len(assigned_keys))
        bid = execute()
        assigned_keys.pop()
        return bid

    def assign(event, params):
        assigned_keys.append(params["couponBookKey"])
        return ExecutorResult(amount=Decimal(1), worth=Decimal(2))

    cup = in_group(1, effect("assign-coupon", couponBookKey="cup"))
    badge = effect("assign-badge", badgeKey="b")
    tested_campaign = campaign(cup, in_group(2, cash(1), badge), groups=[group()])
    bench = {"executors": {"assign-coupon": assign}, "run_and_undo": run_and_undo}
    evaluation = run(order(100), tested_campaign, **bench)
    assert [(outcome.effect_id, outcome.worth) for outcome in evaluation.effects] == [("assign-coupon", 2)]
    # Only the action with coupons was tried, before anything was assigned.
    assert assignments_at_trials == [0]
    assert assigned_keys == ["cup"]
    better_campaign = campaign(in_group(3, cash(3)), groups=[group()], campaign_id=2)
    assert discounts(run(order(100), tested_campaign, better_campaign, **bench)) == [(3, 3)]
    assert assigned_keys == ["cup"]


def test_an_authorization_tries_coupons_to_compare_them_and_assigns_none():
    assigned_keys = []

    def assign(event, params):
        assigned_keys.append(params["couponBookKey"])
        return ExecutorResult(amount=Decimal(1), worth=Decimal(2))

    cup = in_group(1, effect("assign-coupon", couponBookKey="cup"))
    tested_campaign = campaign(
        cup, in_group(2, cash(1)), action(3, effect("assign-coupon", couponBookKey="mug")), groups=[group()]
    )
    bench = Bench(tested_campaign, accounts=[POINTS_ACCOUNT], executors={"assign-coupon": assign})
    assert statuses(bench.run(order(100), mode="authorize")) == [(1, "authorized"), (3, "authorized")]
    # The cup was assigned only by the trial.
    assert assigned_keys == ["cup"]


def test_effects_of_a_winner_other_than_discounts_are_executed_once_and_not_for_each_item():
    tested_campaign = campaign(
        in_group(1, percent(20), mint(7)), in_group(2, cash(5, per="item"), mint(5)), groups=[group(scope="item")]
    )
    bench = Bench(tested_campaign)
    bench.run(order(coat=100, mug=10, cup=10))
    # The first action wins the coat, the second one the mug and the cup.
    assert bench.balance() == 7 + 5


def test_a_failed_rule_and_an_aborted_campaign_take_no_part():
    tested_campaign = campaign(
        in_group(1, percent(50), rule="order.total / 0 > 1", abort_evaluation_on_error=True),
        in_group(2, percent(40)),
        groups=[group()],
    )
    other_campaign = campaign(in_group(3, cash(1)), groups=[group()], campaign_id=2)
    assert discounts(run(order(100), tested_campaign, other_campaign)) == [(3, 1)]
    assert reasons_of_actions(order(100), tested_campaign, other_campaign)[2][0] == "ABORTED"


# --- exclusive campaigns ------------------------------------------------------------------------------------------


def test_an_exclusive_campaign_whose_rules_fail_or_whose_limit_is_reached_lets_others_apply():
    other_campaign = campaign(action(9, cash(10)), campaign_id=2)
    for exclusive_campaign in (
        campaign(action(1, percent(20), rule="false"), exclusive=True),
        campaign(action(1, percent(20)), exclusive=True, max_transactions_per_member=0),
    ):
        assert discounts(run(order(100), exclusive_campaign, other_campaign)) == [(9, 10)]


def test_all_actions_of_an_exclusive_campaign_apply():
    exclusive_campaign = campaign(action(1, percent(20)), action(2, mint(5)), exclusive=True)
    assert statuses(run(order(100), campaign(action(9, cash(10)), campaign_id=2), exclusive_campaign)) == [
        (1, "executed"),
        (2, "executed"),
    ]


def test_the_first_priority_or_the_common_group_decides_between_exclusive_campaigns():
    def exclusive_campaign(number, discount, **values):
        exclusive_action = action(number, discount, priority=10 - number, **values)
        return campaign(exclusive_action, exclusive=True, campaign_id=number, groups=[group()])

    assert discounts(run(order(100), exclusive_campaign(1, percent(30)), exclusive_campaign(2, percent(20)))) == [
        (2, 20)
    ]
    grouped_campaigns = [
        exclusive_campaign(number, percent(10 * number), stacking_group_key="group") for number in (3, 2, 1)
    ]
    assert discounts(run(order(100), *grouped_campaigns)) == [(3, 30)]
    reasons = reasons_of_actions(order(100), *grouped_campaigns)
    assert reasons[3] is None
    assert (reasons[2][0], reasons[1][0]) == ("BEATEN_BY", "BEATEN_BY")


def test_in_a_group_an_exclusive_campaign_precedes_the_others():
    exclusive_campaign = campaign(in_group(1, percent(10), priority=5), exclusive=True, groups=[group()])
    better_campaign = campaign(in_group(2, percent(50)), campaign_id=2, groups=[group()])
    assert discounts(run(order(100), exclusive_campaign, better_campaign)) == [(1, 10)]
    assert reasons_of_actions(order(100), exclusive_campaign, better_campaign)[2] == ("NOT_COMBINABLE", 1)


# --- parameters of discounts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    # The shirt costs 30, and the mug 10.
    ("discount", "amount", "shares"),
    [
        (percent(50, itemFilter=("=", SHIRTS)), 15, [(0, 15)]),
        (percent(50, itemFilter=("=", SHIRTS), maxAmount=10), 10, [(0, 10)]),
        (cash(5, itemFilter=("=", "item.total >= 10.0")), 5, [(0, "3.75"), (1, "1.25")]),
        (cash(5, itemFilter=("=", "item.total >= 10.0"), per="item"), 10, [(0, 5), (1, 5)]),
        (percent(10, per="item"), 4, [(0, 3), (1, 1)]),
        (percent(10, per="item", maxAmount=2), 2, [(0, "1.5"), (1, "0.5")]),
        (percent(50, maxAmount=("=", "order.total / 10.0")), 4, [(0, 3), (1, 1)]),
    ],
)
def test_a_discount_on_items_is_allocated_to_them(discount, amount, shares):
    [outcome] = run(order(shirt=30, mug=10), campaign(action(1, discount))).effects
    assert (outcome.status, outcome.discount.amount) == ("executed", amount)
    assert outcome.discount.allocation == tuple((index, Decimal(share)) for index, share in shares)


def test_a_discount_of_no_item_is_skipped():
    [outcome] = run(order(shirt=30), campaign(action(1, percent(50, itemFilter=("=", "item.total > 30.0"))))).effects
    assert (outcome.status, outcome.error["type"], outcome.discount.amount) == ("skipped", "/problems/zero-amount", 0)


@pytest.mark.parametrize("condition", ["item.total / 0 > 1", "item.customAttributes.size > 3"])
def test_a_filter_that_cannot_be_computed_fails_the_effect(condition):
    [outcome] = run(order(shirt=30), campaign(action(1, percent(50, itemFilter=("=", condition))))).effects
    assert (outcome.status, outcome.error["type"]) == ("failed", "/problems/effect-parameter")


def test_an_amount_per_item_is_at_most_the_total_of_the_item():
    [outcome] = run(order(shirt=30, gum=2), campaign(action(1, cash(5, per="item")))).effects
    assert outcome.status == "partial"
    assert outcome.discount.requested == 5 + 5
    assert outcome.discount.amount == 5 + 2


def test_each_discount_reduces_the_remainder_of_the_order_that_rules_see():
    event = order(shirt=30, mug=10)
    tested_campaign = campaign(
        action(1, percent(50, itemFilter=("=", SHIRTS))),
        action(2, mint(("=", "orderAfter.items[0].total")), rule="orderAfter.items[1].total == 10.0"),
    )
    bench = Bench(tested_campaign)
    bench.run(event)
    # Half of the shirt.
    assert bench.balance() == 15


# --- properties ---------------------------------------------------------------------------------------------------

EFFECTS = st.one_of(
    st.builds(percent, st.integers(1, 60), base=st.sampled_from(["reduced", "initial"])),
    st.builds(cash, st.integers(1, 40), per=st.sampled_from(["order", "item"])),
    st.builds(lambda value: percent(value, itemFilter=("=", SHIRTS)), st.integers(1, 100)),
    st.builds(mint, st.integers(1, 500)),
)
GROUPS = [
    group("best", scope="order", name="A"),
    group("worst", scope="order", name="B"),
    group("best", scope="item", name="C"),
    group("first", scope="item", name="D"),
    group("first", scope="order", name="E"),
    group("all", scope="order", name="F"),
]
ACTIONS = 31
SETTINGS = st.tuples(EFFECTS, st.sampled_from([None, *"ABCDEF"]), st.integers(1, 3), st.integers(1, 5), st.booleans())


def evaluate_in_order(settings_of_actions, exclusive_campaign_ids, prices, places):
    """The evaluation of actions that are stored in the order of `places`, and its event."""
    actions: dict[int, list] = {}
    for place in places:
        stored_effect, name, priority, campaign_id, is_rule_true = settings_of_actions[place]
        rule = "true" if is_rule_true else "order.total < 0.0"
        stored_action = action(
            place, stored_effect, priority=priority, stacking_group_key=name, rule=rule, campaign_id=campaign_id
        )
        actions.setdefault(campaign_id, []).append(stored_action)
    campaigns = [
        campaign(
            *campaign_actions,
            campaign_id=number,
            exclusive=number in exclusive_campaign_ids,
            groups=GROUPS,
            accounts=[POINTS_ACCOUNT],
        )
        for number, campaign_actions in actions.items()
    ]
    event = order(shirt=prices[0], mug=prices[1], cup=prices[2])
    return Bench(*campaigns, accounts=[POINTS_ACCOUNT]).run(event), event


@given(
    st.lists(SETTINGS, min_size=ACTIONS, max_size=ACTIONS),
    st.sampled_from([set(), {2}, {2, 4}]),
    st.tuples(*[st.decimals(0, 99, places=2)] * 3),
    st.permutations(range(ACTIONS)),
)
@settings(max_examples=settings.default.max_examples // 2)
def test_the_order_in_which_actions_are_stored_does_not_matter(
    settings_of_actions, exclusive_campaign_ids, prices, places
):
    evaluation, event = evaluate_in_order(settings_of_actions, exclusive_campaign_ids, prices, range(ACTIONS))
    evaluation_in_other_order, _ = evaluate_in_order(settings_of_actions, exclusive_campaign_ids, prices, places)
    assert evaluation.effects == evaluation_in_other_order.effects
    discount_sum = sum(outcome.discount.amount for outcome in evaluation.effects if outcome.discount is not None)
    assert discount_sum == evaluation.discount_total
    assert discount_sum == event.basket.total - event.basket.remaining_total
    for outcome in evaluation.effects:
        if outcome.discount is not None and any(prices):
            assert sum(share.amount for share in outcome.discount.allocation) == outcome.discount.amount


def test_a_discount_that_a_money_limit_cuts_competes_with_its_cut_amount():
    """50 % of both items are 20.00, of which the limit allows 4.00."""

    def order_in_euros():
        return replace(order(shirt=30, mug=10), currency="EUR")

    limit = {"scope": "campaign", "type": "money", "period": "total", "limit": 4}
    limited_campaign = campaign(
        in_group(1, percent(50, per="item")),
        groups=[group()],
        limit_rules=(limit,),
        allow_partial_application_on_limit=True,
        currency="EUR",
    )
    other_campaign = campaign(in_group(2, cash(5)), in_group(3, cash(3)), groups=[group()], campaign_id=2)
    assert discounts(run(order_in_euros(), limited_campaign, other_campaign)) == [(2, 5)]
    evaluation = run(order_in_euros(), limited_campaign)
    assert discounts(evaluation) == [(1, 4)]
    assert evaluation.effects[0].discount.allocation == ((0, 3), (1, 1))
    assert (evaluation.effects[0].status, dict(evaluation.effects[0].params)["value"]) == ("partial", 4)
