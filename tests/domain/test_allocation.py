"""Allocations of money: by weight, within limits, exactly."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.currencies import allocate, fraction_digits

CENT = Decimal("0.01")
AMOUNTS = st.lists(st.decimals(0, 1000, places=2), min_size=1, max_size=8)


def shares(amount, weights, limits=None):
    """The shares of an amount in cents, each at most its limit; without limits, each at most its weight."""
    decimal_weights = [Decimal(str(weight)) for weight in weights]
    decimal_limits = decimal_weights if limits is None else [Decimal(str(limit)) for limit in limits]
    return [str(share) for share in allocate(Decimal(str(amount)), decimal_weights, decimal_limits, CENT)]


@pytest.mark.parametrize(
    ("amount", "weights", "expected_shares"),
    [
        (10, [10, 10, 10], ["3.34", "3.33", "3.33"]),
        (15, [20, 30, 100], ["2.00", "3.00", "10.00"]),
        ("6.87", ["27.88", "9.10", "39.76", "24.93"], ["1.88", "0.62", "2.69", "1.68"]),
        (5, [10, 0, 10], ["2.50", "0.00", "2.50"]),
        (0, [10, 20], ["0.00", "0.00"]),
        ("0.01", [1, 1], ["0.01", "0.00"]),
    ],
)
def test_shares_are_by_weight_and_the_largest_remainder_is_rounded_up(amount, weights, expected_shares):
    assert shares(amount, weights) == expected_shares


def test_a_share_beyond_its_limit_goes_to_the_others():
    assert shares(10, weights=[50, 25, 25], limits=[2, 10, 10]) == ["2.00", "4.00", "4.00"]
    assert shares(10, weights=[50, 25, 25], limits=[2, 3, 10]) == ["2.00", "3.00", "5.00"]


def test_an_amount_finer_than_a_cent_keeps_its_digits():
    assert shares("1.005", weights=[1, 1]) == ["0.503", "0.502"]


@given(AMOUNTS, st.decimals(0, 1, places=4))
def test_shares_add_up_and_none_is_more_than_its_limit(limits, fraction):
    amount = (sum(limits) * fraction).quantize(CENT)
    parts = allocate(amount, limits, limits, CENT)
    assert sum(parts) == amount
    for part, limit in zip(parts, limits, strict=True):
        assert 0 <= part <= limit
        exact_part = amount * limit / sum(limits) if amount else 0
        assert abs(part - exact_part) <= CENT


def test_digits_are_those_of_the_finest_amount():
    assert fraction_digits() == 0
    assert fraction_digits(Decimal(100), Decimal("1.50"), Decimal("0.125")) == 3
