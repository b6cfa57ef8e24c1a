"""Discounts on a basket: what each takes off, how it is spread over the items, and what remains."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.campaigns.discounts import AMOUNT, PERCENTAGE, Basket, DiscountTerms
from tests.builders.campaigns import Bench, action, campaign, effect, facts, mint, statuses

TOTALS = st.decimals(0, 18446744073709, places=4)
PRICES = st.decimals(0, 1000, places=2)
DISCOUNTS = st.tuples(st.sampled_from([PERCENTAGE, AMOUNT]), st.decimals(-200, 10**15, places=6))


def basket(total, *items, currency=None):
    """A basket with items of these totals; None is an unknown total."""
    lines = [{"total": None if item is None else Decimal(item)} for item in items]
    return Basket(7, Decimal(total), currency, lines)


def terms(kind, value, **more):
    """The terms of a discount of an AMOUNT or a PERCENTAGE."""
    return DiscountTerms(kind, Decimal(value), **more)


def take_discount(purchase, kind, value, **more):
    """Take a discount off a purchase, and return it."""
    discount = purchase.discount(terms(kind, value, **more))
    purchase.take(discount)
    return discount


def shares(discount):
    """(index, share of the discount) of each item."""
    return [(index, str(amount)) for index, amount in discount.allocation]


@given(TOTALS, st.lists(DISCOUNTS, max_size=6))
def test_discounts_take_off_their_value_and_never_more_than_the_total(total, discounts):
    purchase, remaining_total = basket(total), total
    for kind, value in discounts:
        full_amount = remaining_total * value / 100 if kind == PERCENTAGE else value
        discount = take_discount(purchase, kind, value)
        assert 0 <= discount.amount <= remaining_total
        # The difference is due to rounding to cents.
        exact_amount = min(max(full_amount, Decimal(0)), remaining_total)
        assert abs(discount.amount - exact_amount) <= Decimal("0.005")
        remaining_total -= discount.amount
        assert purchase.remaining_total == remaining_total


@given(st.lists(PRICES, min_size=1, max_size=8), PRICES, st.lists(DISCOUNTS, max_size=5))
def test_allocations_add_up_exactly_and_leave_no_item_below_zero(prices, total, discounts):
    purchase, rest_of_items = basket(total, *prices), list(prices)
    for kind, value in discounts:
        discount = take_discount(purchase, kind, value)
        if any(prices):
            assert sum(share.amount for share in discount.allocation) == discount.amount
        for index, amount in discount.allocation:
            rest_of_items[index] -= amount
            assert amount >= 0
    assert min(rest_of_items) >= 0
    assert purchase.remaining_total >= 0


@given(st.lists(st.decimals("0.01", 1000, places=2), min_size=1, max_size=8), st.decimals(0, 100, places=3))
def test_each_share_is_within_one_cent_of_its_exact_part(prices, percent):
    total = sum(prices)
    discount = basket(total, *prices).discount(terms(PERCENTAGE, percent))
    for index, amount in discount.allocation:
        assert abs(amount - discount.amount * prices[index] / total) < Decimal("0.01")
    by_price = sorted(discount.allocation, key=lambda share: prices[share.item_index])
    for share_of_cheaper_item, share_of_next_item in pairwise(by_price):
        assert share_of_cheaper_item.amount <= share_of_next_item.amount + Decimal("0.01")


@pytest.mark.parametrize(
    ("total", "kind", "value", "amount"),
    [
        pytest.param("10", PERCENTAGE, "12.345", "1.23", id="1.2345"),
        pytest.param("10", PERCENTAGE, "12.35", "1.24", id="1.235"),
        pytest.param("10.000", PERCENTAGE, "12.345", "1.23", id="1.2345 of a total with zeros at the end"),
        pytest.param("10.125", PERCENTAGE, "50", "5.063", id="5.0625 of a total with three digits"),
        pytest.param("0.001", PERCENTAGE, "100", "0.001", id="a whole total with three digits"),
        pytest.param("10", AMOUNT, "3.005", "3.01", id="3.005"),
        pytest.param("10", AMOUNT, "11", "10", id="more than the total"),
        pytest.param("10", AMOUNT, "-1", "0", id="less than 0"),
    ],
)
def test_a_discount_is_rounded_half_away_from_zero(total, kind, value, amount):
    assert basket(total).discount(terms(kind, Decimal(value))).amount == Decimal(amount)


def test_an_amount_of_equal_items_is_split_by_largest_remainder():
    """The cent that remains goes to the first item."""
    assert shares(basket(30, 10, 10, 10).discount(terms(AMOUNT, 10))) == [
        (0, "3.34"),
        (1, "3.33"),
        (2, "3.33"),
    ]
    assert shares(basket(150, 20, 30, 100).discount(terms(AMOUNT, 15))) == [
        (0, "2.00"),
        (1, "3.00"),
        (2, "10.00"),
    ]


def test_an_item_with_the_total_0_gets_no_share():
    assert shares(basket(10, 0, 10, 0).discount(terms(PERCENTAGE, 15))) == [
        (0, "0.00"),
        (1, "1.50"),
        (2, "0.00"),
    ]


@pytest.mark.parametrize("items", [(), (5, None), (0, 0)])
def test_without_the_totals_of_the_items_there_is_no_allocation(items):
    discount = basket(10, *items).discount(terms(PERCENTAGE, Decimal(50)))
    assert (discount.amount, discount.allocation) == (5, ())


def test_a_discount_takes_no_more_than_the_items_have():
    discount = basket(10, 4, 3).discount(terms(AMOUNT, Decimal(9)))
    assert (discount.requested, discount.amount, shares(discount)) == (9, 7, [(0, "4.00"), (1, "3.00")])


def test_later_discounts_apply_to_the_total_that_earlier_discounts_left():
    """100 less 20 % less 10 are 70, and 100 less 10 less 20 % are 72."""
    percentage_first, amount_first = basket(100), basket(100)
    take_discount(percentage_first, PERCENTAGE, 20)
    take_discount(percentage_first, AMOUNT, 10)
    take_discount(amount_first, AMOUNT, 10)
    take_discount(amount_first, PERCENTAGE, 20)
    assert percentage_first.remaining_total == 70
    assert amount_first.remaining_total == 72


def half_off_the_first():
    """A basket of items of 30 and 10, of which a discount has left 15 and 10."""
    purchase = basket(40, 30, 10)
    take_discount(purchase, PERCENTAGE, 50, items=[0])
    return purchase


@pytest.mark.parametrize(
    ("offer", "item_amounts"),
    # Of the items of 30 and 10, a discount has left 15 and 10.
    [
        # A percentage of one item, or of each item: of its reduced total, or of its initial one.
        (terms(PERCENTAGE, 20, items=[0]), ["3.00"]),
        (terms(PERCENTAGE, 20, items=[0], base="initial"), ["6.00"]),
        (terms(PERCENTAGE, 20, per="item"), ["3.00", "2.00"]),
        (terms(PERCENTAGE, 20, per="item", base="initial"), ["6.00", "2.00"]),
        # An amount, which is spread by the reduced totals, or by the initial ones.
        (terms(AMOUNT, 8), ["4.80", "3.20"]),
        (terms(AMOUNT, 8, base="initial"), ["6.00", "2.00"]),
        # 5.00 for each item, but at most 4.00 in sum: each item gets 2.00.
        (terms(AMOUNT, 5, per="item", max_amount=Decimal(4)), ["2.00", "2.00"]),
        (terms(AMOUNT, 5, per="item", max_amount=Decimal(4), base="initial"), ["2.00", "2.00"]),
    ],
)
def test_a_discount_applies_to_the_reduced_or_to_the_initial_totals(offer, item_amounts):
    assert [amount for _, amount in shares(half_off_the_first().discount(offer))] == item_amounts


def totals_of(remainder):
    """The total of a remainder, and the totals of its items."""
    return remainder["total"], [item["total"] for item in remainder["items"]]


def test_the_remainder_has_the_total_of_each_item_less_its_discounts():
    # The total of 40 less 15.
    assert totals_of(half_off_the_first().remainder()) == (25, [15, 10])
    basket_with_unknown_price = basket(40, 30, None)
    take_discount(basket_with_unknown_price, PERCENTAGE, 50)
    assert totals_of(basket_with_unknown_price.remainder()) == (20, [30, None])


def test_a_discount_that_is_given_back_restores_the_totals():
    purchase = basket(40, 30, 10)
    remainder = purchase.remainder()
    discount = take_discount(purchase, AMOUNT, 8)
    # The remainder changes with its basket: the items share the discount as 6 and 2.
    assert totals_of(remainder) == (40 - 8, [30 - 6, 10 - 2])
    purchase.give_back(discount)
    assert totals_of(remainder) == (40, [30, 10])
    assert purchase.remaining_total == 40


@pytest.mark.parametrize(
    ("currency", "total", "percent", "amount"),
    [
        ("JPY", "1055", 10, "106"),
        ("KWD", "1.005", 10, "0.101"),
        ("EUR", "10.05", 10, "1.01"),
        (None, "10.05", 10, "1.01"),
    ],
)
def test_a_discount_has_the_digits_of_the_currency(currency, total, percent, amount):
    assert str(basket(total, currency=currency).discount(terms(PERCENTAGE, Decimal(percent))).amount) == amount


def discount_effect(kind, value):
    """An effect that discounts an AMOUNT or a PERCENTAGE."""
    return effect("discount", type=kind, value=value)


def test_a_cut_discount_is_partial_and_one_of_0_is_skipped():
    bench = Bench(
        campaign(
            action(1, discount_effect(AMOUNT, 8)),
            action(2, discount_effect(AMOUNT, 5)),
            action(3, discount_effect(AMOUNT, 1)),
        )
    )
    evaluation = bench.run(facts(total="10", basket=basket("10")))
    # Of the total of 10.00, the first discount leaves 2.00, and the second one nothing.
    assert statuses(evaluation) == [(1, "executed"), (2, "partial"), (3, "skipped")]
    assert [str(outcome.discount.amount) for outcome in evaluation.effects] == ["8.00", "2.00", "0.00"]
    assert [outcome.error and outcome.error["type"] for outcome in evaluation.effects] == [
        None,
        "/problems/discount-exceeds-total",
        "/problems/discount-exceeds-total",
    ]
    assert evaluation.discount_total == 10


@pytest.mark.parametrize(
    ("total", "kind", "value", "problem"),
    [
        ("0", PERCENTAGE, 10, "discount-exceeds-total"),
        ("0", AMOUNT, 5, "discount-exceeds-total"),
        ("10", AMOUNT, Decimal("0.004"), "zero-amount"),
        ("0.01", PERCENTAGE, 10, "zero-amount"),
        ("10", PERCENTAGE, -5, "zero-amount"),
    ],
)
def test_a_discount_of_0_is_skipped_and_neither_counts_nor_excludes(total, kind, value, problem):
    limit_of_one = {"scope": "campaign", "type": "transactions", "period": "total", "limit": 1}
    exclusive_campaign = campaign(action(1, discount_effect(kind, value)), exclusive=True, limit_rules=(limit_of_one,))
    bench = Bench(exclusive_campaign, campaign(action(2, mint(1)), campaign_id=2))
    evaluation = bench.run(facts(total, basket=basket(total)))
    assert statuses(evaluation) == [(1, "skipped"), (2, "executed")]
    assert evaluation.effects[0].error["type"] == f"/problems/{problem}"
    assert evaluation.effects[0].discount.amount == 0
    assert evaluation.counts == []


def test_a_discount_of_fully_discounted_items_is_skipped():
    """The first action takes the shirt of 30 off; a mug of 10 is left, which the fourth one takes off."""
    shirt = ("=", "item.total > 20.0")
    actions = [
        action(1, effect("discount", type=PERCENTAGE, value=100, itemFilter=shirt)),
        action(2, effect("discount", type=PERCENTAGE, value=50, itemFilter=shirt)),
        action(3, effect("discount", type=PERCENTAGE, value=50, itemFilter=("=", "item.total > 50.0"))),
        action(4, discount_effect(PERCENTAGE, 100)),
        action(5, discount_effect(PERCENTAGE, 10)),
    ]
    evaluation = Bench(campaign(*actions)).run(facts("40", basket=basket("40", "30", "10")))
    assert [(outcome.status, outcome.error and outcome.error["type"]) for outcome in evaluation.effects] == [
        ("executed", None),
        ("skipped", "/problems/discount-exceeds-total"),
        ("skipped", "/problems/zero-amount"),
        ("executed", None),
        ("skipped", "/problems/discount-exceeds-total"),
    ]
    assert evaluation.effects[2].error["detail"] == "No item of the order is discounted."


def test_a_discount_of_the_whole_order_that_rounds_to_0_is_skipped_since_it_is_zero():
    [outcome] = (
        Bench(campaign(action(1, discount_effect(PERCENTAGE, 10))))
        .run(facts("0.01", basket=basket("0.01", "0.01")))
        .effects
    )
    assert (outcome.status, outcome.error["detail"]) == ("skipped", "The discount is zero.")


def test_without_a_purchase_an_amount_that_rounds_to_0_is_skipped():
    [outcome] = Bench(campaign(action(1, discount_effect(AMOUNT, Decimal("0.004"))))).run(facts()).effects
    assert (outcome.status, outcome.error["type"], outcome.discount) == ("skipped", "/problems/zero-amount", None)


def test_a_discount_that_a_budget_cuts_is_spread_by_the_totals_of_the_items():
    """20 % of 101.67 are 20.33, of which the budget has 6.87.

    A cut of the rounded shares of the whole discount would give 0.61 and 1.69 to the second and the last item.
    """
    purchase = basket("101.67", "27.88", "9.10", "39.76", "24.93")
    cut_discount = purchase.cut(purchase.discount(terms(PERCENTAGE, 20)), Decimal("6.87"))
    assert shares(cut_discount) == [(0, "1.88"), (1, "0.62"), (2, "2.69"), (3, "1.68")]
    assert (str(cut_discount.requested), str(cut_discount.amount)) == ("20.33", "6.87")


def test_without_a_purchase_the_amount_of_a_discount_is_unknown():
    [outcome] = Bench(campaign(action(1, discount_effect(AMOUNT, 8)))).run(facts()).effects
    assert (outcome.status, outcome.discount, outcome.worth) == ("executed", None, None)
