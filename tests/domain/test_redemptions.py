"""What points are worth as payment: quotes, values, and the points for a value."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.currencies import CurrencyMismatch
from domain.problems import InvalidRequest
from domain.redemptions import (
    RedemptionDisabled,
    RedemptionPolicy,
    complete_redemption,
    quote_of,
    refuse_other_currency,
)
from tests.builders.campaigns import account


def redemption(*, per_unit, currency="EUR", decimals=0, **policy):
    """The policy of an account whose points have `decimals` digits: `per_unit` points are worth a unit of currency."""
    given_policy = {"pointsPerUnit": Decimal(str(per_unit)), "currency": currency, **policy}
    return RedemptionPolicy.of(account(1, decimals=decimals, redemption=complete_redemption(given_policy, decimals)))


@pytest.mark.parametrize(
    ("policy", "balance", "order_total", "max_points", "max_value"),
    [
        pytest.param({"per_unit": 100, "maxShare": Decimal("0.5")}, 2730, 50, 2500, "25.00", id="1: half of the order"),
        pytest.param({"per_unit": 1, "multipleOf": 3}, 10, 50, 9, "9.00", id="2: multiples of 3"),
        pytest.param({"per_unit": 3}, 10, 50, 10, "3.33", id="3: values are rounded down"),
        pytest.param({"per_unit": 100}, 2730, 0, 0, "0", id="nothing of an order for nothing"),
        pytest.param({"per_unit": 100}, 99, 50, 99, "0.99", id="all of a small balance"),
        pytest.param({"per_unit": 100, "minPoints": 100}, 99, 50, 0, "0", id="below the minimum"),
        pytest.param({"per_unit": 100, "minPoints": 99}, 99, 50, 99, "0.99", id="the minimum itself"),
        pytest.param({"per_unit": 1000}, 9, 50, 0, "0", id="points that are worth nothing"),
        pytest.param({"per_unit": 1000}, 90_000, 25, 25_009, "25.00", id="values are rounded down"),
        pytest.param({"per_unit": 3}, 10, "3.33", 10, "3.33", id="exactly the order"),
        pytest.param({"per_unit": 3}, 10, "3.32", 9, "3.00", id="not more than the order"),
        pytest.param({"per_unit": 1, "maxShare": Decimal("0.333")}, 99, 10, 3, "3", id="the share is rounded down"),
        pytest.param({"per_unit": 1, "maxShare": 0}, 99, 10, 0, "0", id="no share"),
        pytest.param({"per_unit": "0.5", "currency": "JPY"}, 700, 1055, 527, "1054", id="yen have no fractions"),
        pytest.param({"per_unit": 3, "currency": "KWD"}, 10, 50, 10, "3.333", id="dinars have three digits"),
        pytest.param({"per_unit": 1, "decimals": 2}, "9.75", 50, 9, "9", id="whole points by default"),
        pytest.param(
            {"per_unit": 1, "decimals": 2, "multipleOf": Decimal("0.01")}, "9.75", 50, "9.75", "9.75", id="fractions"
        ),
        pytest.param(
            {"per_unit": 100, "multipleOf": 10},
            36893488147418,
            18446744073709,
            18446744073700,
            "184467440737",
            id="at most the maximum of a transaction",
        ),
    ],
)
def test_a_quote_has_the_maximum_points_for_an_order(policy, balance, order_total, max_points, max_value):
    quote = quote_of(redemption(**policy), Decimal(order_total), Decimal(balance))
    assert quote.max_points == Decimal(max_points)
    assert quote.max_value == Decimal(max_value)


@pytest.mark.parametrize(
    ("balance", "policy", "reason"),
    [
        (0, {}, "no-points"),
        (1, {"multipleOf": 10}, "below-minimum"),
        (5, {"minPoints": 6}, "below-minimum"),
        (6, {"minPoints": 6}, None),
    ],
)
def test_a_quote_of_0_has_a_reason(balance, policy, reason):
    quote = quote_of(redemption(per_unit=1, **policy), order_total=Decimal(50), balance=Decimal(balance))
    assert quote.reason == reason
    assert (quote.max_points > 0) == (reason is None)


@pytest.mark.parametrize(
    ("policy", "value", "points"),
    [
        ({"per_unit": 100}, "10.00", 1000),
        ({"per_unit": 3}, "3.33", 10),
        # 3 * 3.34 is 10.02.
        ({"per_unit": 3}, "3.34", 11),
        # 3 * 10 is 30, and the next multiple of 7 is 35.
        ({"per_unit": 3, "multipleOf": 7}, "10", 35),
        ({"per_unit": 3, "multipleOf": 7}, "7", 3 * 7),
        # 3 * 3.333 is 9.999.
        ({"per_unit": 3, "decimals": 2, "multipleOf": Decimal("0.01")}, "3.333", "10.00"),
        # 0.1 * 10.01 is 1.001.
        ({"per_unit": "0.1"}, "10.01", 2),
    ],
)
def test_points_for_a_value_are_rounded_up_to_a_multiple_that_can_be_paid(policy, value, points):
    assert redemption(**policy).points_for(Decimal(value)) == Decimal(points)


def test_points_refunded_for_a_value_are_rounded_down():
    assert redemption(per_unit=100).points_worth(Decimal("3.33")) == 100 * Decimal("3.33")
    # 3 * 3.34 is 10.02, and the points are whole. A refund does not have to be a multiple.
    assert redemption(per_unit=3, multipleOf=7).points_worth(Decimal("3.34")) == 10
    points_with_two_digits = redemption(per_unit=3, decimals=2)
    assert points_with_two_digits.points_worth(Decimal("3.334")) == 10
    assert points_with_two_digits.points_worth(Decimal("3.335")) == Decimal("10.00")
    assert points_with_two_digits.points_worth(Decimal("3.337")) == Decimal("10.01")


@given(
    per_unit=st.decimals("0.01", "1000", places=2),
    multiple=st.integers(1, 50),
    share=st.decimals(0, 1, places=3),
    total=st.decimals(0, 1000, places=2),
    balance=st.integers(0, 100_000),
)
def test_the_maximum_is_the_highest_multiple_within_balance_and_share(per_unit, multiple, share, total, balance):
    policy = redemption(per_unit=per_unit, multipleOf=multiple, maxShare=share)
    points = policy.max_points(total, Decimal(balance))
    assert points % multiple == 0
    assert points <= balance
    assert policy.value_of(points) <= total * share
    next_multiple = points + multiple
    if policy.is_enough(next_multiple):
        assert next_multiple > balance or policy.value_of(next_multiple) > total * share


def test_an_account_without_redemption_pays_nothing():
    with pytest.raises(RedemptionDisabled):
        RedemptionPolicy.of(account(redemption=None))


@pytest.mark.parametrize(("order_currency", "is_paid"), [("EUR", True), (None, True), ("USD", False)])
def test_points_pay_orders_in_their_currency(order_currency, is_paid):
    if is_paid:
        refuse_other_currency("EUR", order_currency)
        return
    with pytest.raises(CurrencyMismatch, match=r"The points pay amounts in EUR; the order is in USD\."):
        refuse_other_currency("EUR", order_currency)


def test_a_policy_is_completed_by_defaults():
    policy = {"pointsPerUnit": 100, "currency": "EUR", "maxShare": None}
    assert complete_redemption(policy, decimals=0) == {
        "pointsPerUnit": 100,
        "currency": "EUR",
        "minPoints": 0,
        "multipleOf": 1,
        "maxShare": 1,
    }
    assert complete_redemption(None, decimals=0) is None


@pytest.mark.parametrize(
    ("policy", "pointers"),
    [
        ({"pointsPerUnit": 0}, ["/redemption/pointsPerUnit"]),
        ({"pointsPerUnit": -1}, ["/redemption/pointsPerUnit"]),
        ({"multipleOf": 0}, ["/redemption/multipleOf"]),
        (
            {"multipleOf": Decimal("0.5"), "minPoints": Decimal("1.5")},
            ["/redemption/minPoints", "/redemption/multipleOf"],
        ),
    ],
)
def test_a_policy_that_no_payment_can_satisfy_is_refused(policy, pointers):
    with pytest.raises(InvalidRequest) as refusal:
        complete_redemption({"pointsPerUnit": 100, "currency": "EUR", **policy}, decimals=0)
    assert [fault.pointer for fault in refusal.value.faults] == pointers
