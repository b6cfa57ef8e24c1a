"""Re-evaluation of granted actions on the rest of an order after a return.

The extent of an effect is the part of it that the return reverses.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.campaigns.discounts import Basket
from domain.campaigns.point_effects import transaction_number
from domain.campaigns.reevaluation import Reevaluation, reevaluate
from domain.expressions import Deadline
from domain.reversals import WHOLE, Extent
from tests.builders.campaigns import MEMBER_ID, Bench, account, action, campaign, effect, facts, group, mint

NOTHING, HALF, ALL = (Extent(Fraction(part, 2)) for part in range(3))

POINTS_ACCOUNT = account(fiat_per_point=Decimal("0.03"))
FOREVER = Deadline(60, lambda: 0.0)


def lines(prices):
    """Items with these prices."""
    return [{"productCode": f"p-{place}", "total": Decimal(price), "quantity": 1} for place, price in enumerate(prices)]


def order(*prices):
    """An order of items with these prices."""
    total, items = Decimal(sum(prices)), lines(prices)
    event = facts(total, basket=Basket(MEMBER_ID, total, None, items))
    event.context["order"]["items"] = items
    event.context["balances"] = {"account-1": Decimal(0)}
    event.context["balancesAfter"] = dict(event.context["balances"])
    return event


def grant_actions(event, *campaigns):
    """The actions that are recorded for a re-evaluation of the event, and its effects."""
    evaluation = Bench(*campaigns, accounts=[POINTS_ACCOUNT]).run(event)
    return evaluation.granted_actions, evaluation.effects


def reevaluate_after_return(actions, prices):
    """The re-evaluation of the remaining prices of the items, None for a returned one."""
    places = [place for place, price in enumerate(prices) if price is not None]
    return reevaluate_rest(actions, order(*[price for price in prices if price is not None]), places)


def reevaluate_rest(actions, rest, item_positions):
    """The re-evaluation of the rest of an order, whose items had these positions in the original order."""
    return reevaluate(actions, rest, item_positions, functions={}, deadline=FOREVER)


def reevaluated_campaign(*actions, **more):
    """A campaign that is re-evaluated after a return."""
    return campaign(*actions, on_return="reevaluate", accounts=[POINTS_ACCOUNT], **more)


def discount(value, kind="percentage", **params):
    """A discount of a percentage, or of an amount."""
    return effect("discount", type=kind, value=value, **params)


def test_actions_of_campaigns_that_are_not_reevaluated_are_not_recorded():
    actions, _ = grant_actions(order(120), campaign(action(1, mint(5))))
    assert actions == []


def test_no_action_of_an_event_without_an_order_is_recorded():
    event = facts(Decimal(120))
    event.context["order"] = None
    actions, _ = grant_actions(event, reevaluated_campaign(action(1, mint(5))))
    assert actions == []


# The points are by the number of the transaction that minted them.
@pytest.mark.parametrize(("remaining_price", "extent"), [(100, NOTHING), (99, ALL)])
def test_a_rule_is_evaluated_on_the_rest_of_the_order(remaining_price, extent):
    actions, _ = grant_actions(order(120), reevaluated_campaign(action(1, mint(500), rule="order.total >= 100.0")))
    assert reevaluate_after_return(actions, [remaining_price]).points == {1: extent}


def test_effects_that_gave_nothing_are_not_recorded():
    mint_of_nothing = mint(("=", "order.total - 120.0"))
    campaign_of_two_mints = reevaluated_campaign(action(1, mint_of_nothing, mint(7), rule="true"))
    [granted_action], _ = grant_actions(order(120), campaign_of_two_mints)
    [grant] = granted_action.grants
    # Places begin at 0.
    assert (grant.place, grant.amount, grant.transaction_number) == (1, 7, 1)


@pytest.mark.parametrize(
    ("rule", "amount"),
    [("order.items[1].total > 0.0", 5), ("true", ("=", "order.items[1].total"))],
)
def test_an_action_whose_rule_or_amount_fails_has_no_extent(rule, amount):
    actions, _ = grant_actions(order(80, 40), reevaluated_campaign(action(1, mint(amount), rule=rule)))
    assert reevaluate_after_return(actions, [80, None]).points == {}


def test_an_error_in_one_action_does_not_prevent_the_evaluation_of_others():
    broken_action = action(1, mint(5), rule="order.items[1].total > 0.0")
    actions, _ = grant_actions(
        order(80, 40), reevaluated_campaign(broken_action, action(2, mint(7), rule="order.total >= 100.0", priority=2))
    )
    assert reevaluate_after_return(actions, [80, None]).points == {2: ALL}


@pytest.mark.parametrize(("remaining_price", "extent"), [(100, NOTHING), (101, NOTHING), (99, ALL)])
def test_the_minimum_spend_is_compared_with_the_rest_of_the_order(remaining_price, extent):
    actions, _ = grant_actions(order(120), reevaluated_campaign(action(1, mint(500)), min_spend_value=Decimal(100)))
    assert reevaluate_after_return(actions, [remaining_price]).points == {1: extent}
    order_without_spend = replace(order(remaining_price), spend=None)
    assert reevaluate_rest(actions, order_without_spend, [0]).points == {1: ALL}


def test_the_rest_of_an_order_never_grants_more_than_the_order_did():
    # The order grants 80 points, and its rest of 60 would grant 140.
    actions, _ = grant_actions(order(120), reevaluated_campaign(action(1, mint(("=", "200.0 - order.total")))))
    assert reevaluate_after_return(actions, [60]).points == {1: NOTHING}


def test_qualifying_points_are_evaluated_on_their_own():
    """A mint of 100 has one qualifying point for each euro: half of these are reversed with half of the order."""
    qualifying_action = action(1, mint(100, qualifyingAmount=("=", "order.total")), rule="order.total >= 50.0")
    actions, _ = grant_actions(order(60, 60), reevaluated_campaign(qualifying_action))
    points, qualifying_points = reevaluate_after_return(actions, [60, None]).extents_of(1, default=WHOLE)
    assert (points, qualifying_points) == (NOTHING, HALF)
    assert reevaluate_after_return(actions, [None, None]).extents_of(1, default=WHOLE) == (ALL, ALL)


def test_only_qualifying_points_are_reversed_of_a_mint_with_the_amount_0():
    actions, _ = grant_actions(
        order(60, 60), reevaluated_campaign(action(1, mint(0, qualifyingAmount=("=", "order.total"))))
    )
    points, qualifying_points = reevaluate_after_return(actions, [60, None]).extents_of(1, default=WHOLE)
    assert (points, qualifying_points) == (NOTHING, HALF)


def test_a_return_of_half_the_order_reverses_half_of_the_points_and_of_the_qualifying_points():
    # Without a qualifying amount, all points qualify.
    actions, _ = grant_actions(order(60, 60), reevaluated_campaign(action(1, mint(("=", "order.total")))))
    points, qualifying_points = reevaluate_after_return(actions, [60, None]).extents_of(1, default=WHOLE)
    assert (points, qualifying_points) == (HALF, HALF)


def test_transactions_that_no_grant_covers_have_the_extent_of_the_order():
    reevaluation = Reevaluation(points={1: NOTHING}, qualifying={1: HALF})
    assert reevaluation.extents_of(1, default=WHOLE) == (NOTHING, HALF)
    assert reevaluation.extents_of(2, default=WHOLE) == (WHOLE, WHOLE)
    assert reevaluation.extents_of(None, default=WHOLE) == (WHOLE, WHOLE)


def test_a_discount_of_an_unknown_amount_is_not_recorded():
    [granted_action], _ = grant_actions(
        replace(order(120), basket=None), reevaluated_campaign(action(1, discount(20), mint(7)))
    )
    assert [grant.place for grant in granted_action.grants] == [1]


def test_the_winner_of_an_item_is_evaluated_on_the_items_that_it_won():
    groups = [group("best", scope="item")]
    percentage_campaign = reevaluated_campaign(action(1, discount(20), stacking_group_key="group"), groups=groups)
    amount_campaign = reevaluated_campaign(
        action(1, discount(5, "amount", per="item"), stacking_group_key="group"), groups=groups, campaign_id=2
    )
    # 20 % of the first item are 6.00 and win; 20 % of the second one are 2.00 and lose against 5.00.
    actions, effects = grant_actions(order(30, 10), percentage_campaign, amount_campaign)
    assert [outcome.discount.amount for outcome in effects] == [6, 5]
    items_of_grants = [[grant.items for grant in granted_action.grants] for granted_action in actions]
    assert items_of_grants == [[(0,)], [(1,)]]
    # The first item returns, and the second one costs 8.00: it still gets 5.00 off, and the 20 % apply to no item.
    rest = order(8)
    reevaluate_rest(actions, rest, [1])
    assert rest.basket.remaining_total == 8 - 5


def test_discounts_are_reevaluated_on_the_total_that_earlier_discounts_leave():
    actions, _ = grant_actions(
        order(100), reevaluated_campaign(action(1, discount(20)), action(2, discount(10, "amount"), priority=2))
    )
    rest = order(50)
    reevaluation = reevaluate_rest(actions, rest, [0])
    # 50 less 20 %, and then less 10.
    assert rest.basket.remaining_total == 50 - 10 - 10
    assert reevaluation.points == {}


def test_a_reevaluated_discount_never_takes_more_than_it_took_before():
    actions, _ = grant_actions(
        order(100), reevaluated_campaign(action(1, discount(("=", "order.total < 100.0 ? 50.0 : 10.0"))))
    )
    rest = order(90)
    reevaluate_rest(actions, rest, [0])
    # The discount was 10 % of 100. Half of the rest of 90 would be more.
    assert rest.basket.remaining_total == 90 - 10


@pytest.mark.parametrize(
    ("key", "number"),
    [("event:3", 3), ("event:12", 12), ("event:mission-1", None), ("other:3", 3), ("event", None), ("3", None)],
)
def test_a_transaction_has_its_number_in_its_key(key, number):
    assert transaction_number(key) == number


prices = st.lists(st.integers(1, 90), min_size=1, max_size=5)


@given(prices, st.data(), st.integers(1, 60), st.integers(1, 20))
def test_points_by_steps_of_spend_after_a_return_equal_those_of_the_rest(bought_prices, data, step, points):
    """A model in whole numbers: the points of the rest."""
    rule = action(1, mint(("=", f"floor(order.total / {step}.0) * {points}.0")))
    actions, _ = grant_actions(order(*bought_prices), reevaluated_campaign(rule))
    remaining_prices = [data.draw(st.sampled_from([price, None])) for price in bought_prices]
    remaining_total = sum(price or 0 for price in remaining_prices)
    minted_amount = sum(bought_prices) // step * points
    if not minted_amount:
        assert actions == []
        return
    extent = reevaluate_after_return(actions, remaining_prices).points[1]
    reversed_amount = extent.of_points(Decimal(minted_amount), decimals=0)
    assert minted_amount - reversed_amount == remaining_total // step * points


@given(prices, st.data(), st.integers(1, 100))
def test_a_full_return_reverses_all_points(bought_prices, data, amount):
    actions, _ = grant_actions(
        order(*bought_prices), reevaluated_campaign(action(1, mint(amount), rule="order.total > 0.0"))
    )
    assert reevaluate_after_return(actions, [None] * len(bought_prices)).points == {1: ALL}
    unreturned_place = data.draw(st.integers(0, len(bought_prices) - 1))
    remaining_prices = [price if place == unreturned_place else None for place, price in enumerate(bought_prices)]
    assert reevaluate_after_return(actions, remaining_prices).points == {1: NOTHING}


def test_counts_of_limits_are_reversed_to_the_extent_of_their_effects():
    rules = [{"scope": "campaign", "type": "points", "period": "total", "limit": 1000}]
    limited_campaign = reevaluated_campaign(
        action(1, mint(100), rule="order.total >= 100.0"),
        action(2, mint(30), rule="order.total >= 50.0"),
        limit_rules=rules,
    )
    actions, _ = grant_actions(order(120), limited_campaign)
    reevaluation = reevaluate_after_return(actions, [60])
    assert list(reevaluation.counts.values()) == [ALL, NOTHING]


def test_each_event_numbers_its_counts_from_0():
    """The first event counts 100 points, the second none of its first action and 30 of the next."""
    rules = [{"scope": "campaign", "type": "points", "period": "total", "limit": 1000}]
    actions = (action(1, mint(100), rule="order.total >= 100.0"), action(2, mint(30)))
    bench = Bench(reevaluated_campaign(*actions, limit_rules=rules), accounts=[POINTS_ACCOUNT])
    bench.run(order(120))
    [granted_action] = bench.run(order(60)).granted_actions
    assert [(grant.from_count, grant.to_count) for grant in granted_action.grants] == [(0, 1)]


def test_actions_are_reevaluated_with_the_balances_of_their_first_evaluation():
    action_with_rule = action(2, mint(7), rule="balancesAfter['account-1'] == 5.0", priority=2)
    actions, _ = grant_actions(order(120), reevaluated_campaign(action(1, mint(5)), action_with_rule))
    assert [dict(granted_action.balances_after)["account-1"] for granted_action in actions] == [0, 5]
    assert reevaluate_after_return(actions, [60]).points == {1: NOTHING, 2: NOTHING}
    changed_actions = [replace(granted_action, balances_after={"account-1": Decimal(9)}) for granted_action in actions]
    assert reevaluate_after_return(changed_actions, [60]).points == {1: NOTHING, 2: ALL}
