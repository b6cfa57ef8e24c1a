"""The amount that an order's total lacks for a rule whose only false part compares it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.campaigns.thresholds import TotalThreshold, only_false_threshold, thresholds_of
from domain.campaigns.variables import ENVIRONMENT
from domain.expressions import explain, parse

AT_LEAST_50, MORE_THAN_50 = TotalThreshold(Decimal(50)), TotalThreshold(Decimal(50), is_strict=True)


def threshold_of_only_false_part(rule, total=40):
    """The threshold that the only false part of a rule compares the order's total with, or None."""
    node = parse(rule)
    trace = explain(
        node, ENVIRONMENT, {"order": {"total": Decimal(total), "subTotal": Decimal(1), "channel": None, "items": []}}
    )
    return only_false_threshold(node, trace, "order")


@pytest.mark.parametrize(
    # The total is 40, and the channel is null.
    ("rule", "threshold"),
    [
        ("order.total >= 50", AT_LEAST_50),
        ("order.total > 50.0", MORE_THAN_50),
        ("50 <= order.total", AT_LEAST_50),
        ("50 < order.total", MORE_THAN_50),
        ("order.total >= 50 && order.channel == null", AT_LEAST_50),
        ("(order.total > 30) && (order.total >= 50)", AT_LEAST_50),
        ("true && order.total >= 50", AT_LEAST_50),
        ("order.total <= 30", None),
        ("order.total == 50", None),
        ("order.subTotal >= 50", None),
        ("order.total >= 50 && order.channel == 'app'", None),
        ("order.total >= 50 && order.total >= 60", None),
        ("order.total >= 50 || order.channel == 'app'", None),
        ("!(order.total < 50)", None),
        ("order.total >= 50 && order.items[0].quantity > 1.0", None),
        ("order.total >= 40", None),
    ],
)
def test_only_a_comparison_of_the_total_with_a_literal_counts(rule, threshold):
    assert threshold_of_only_false_part(rule) == threshold


def test_all_thresholds_of_a_rule_are_found_and_those_of_other_variables_are_not():
    node = parse("order.total >= 50 && order.total > 60 && payment.total >= 70 && order.total < 80")
    assert thresholds_of(node, "order") == [AT_LEAST_50, TotalThreshold(Decimal(60), is_strict=True)]
    assert thresholds_of(node, "payment") == [TotalThreshold(Decimal(70))]
    assert thresholds_of(None, "order") == []


@pytest.mark.parametrize(
    ("threshold", "total", "shortfall"),
    [
        pytest.param(AT_LEAST_50, "37.6", "12.40", id="whole hundredths"),
        pytest.param(AT_LEAST_50, "49.99", "0.01", id="one hundredth"),
        pytest.param(AT_LEAST_50, "49.995", "0.01", id="0.005 rounded up"),
        pytest.param(MORE_THAN_50, "37.6", "12.41", id="one hundredth more than 12.40"),
        pytest.param(MORE_THAN_50, "50", "0.01", id="one hundredth more than nothing"),
        pytest.param(TotalThreshold(Decimal("50.005")), "37.6", "12.41", id="12.405 rounded up"),
        pytest.param(TotalThreshold(Decimal("50.005"), is_strict=True), "37.6", "12.41", id="more than 12.405"),
    ],
)
def test_the_missing_amount_is_in_hundredths(threshold, total, shortfall):
    assert threshold.shortfall(Decimal(total)) == Decimal(shortfall)


@given(
    st.decimals(0, 10**9, places=3),
    st.decimals(0, 10**9, places=3),
    st.booleans(),
)
def test_the_missing_amount_suffices_and_a_hundredth_less_does_not(minimum, total, is_strict):
    def reaches(amount):
        return amount > minimum if is_strict else amount >= minimum

    if not reaches(total):
        shortfall = TotalThreshold(minimum, is_strict).shortfall(total)
        assert reaches(total + shortfall)
        assert not reaches(total + shortfall - Decimal("0.01"))
