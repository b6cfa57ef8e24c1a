"""The digits of currencies, and amounts rounded to them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.currencies import digits_of, round_money


@pytest.mark.parametrize(
    ("currency", "digits"),
    [("EUR", 2), ("JPY", 0), ("KWD", 3), ("IQD", 3), ("CLF", 4), ("XXX", 2), ("ZZZ", 2), (None, 2)],
)
def test_a_currency_has_the_digits_of_the_standard_or_two(currency, digits):
    assert digits_of(currency) == digits


@pytest.mark.parametrize(
    ("amount", "currency", "rounded_amount"),
    [
        ("105.5", "JPY", "106"),
        ("105.49", "JPY", "105"),
        ("0.1005", "KWD", "0.101"),
        ("0.125", "EUR", "0.13"),
        ("0.135", "EUR", "0.14"),
        ("-0.125", "EUR", "-0.13"),
        ("1", "EUR", "1.00"),
        ("18446744073709.005", None, "18446744073709.01"),
        ("1E+300", "EUR", "1E+300"),
    ],
)
def test_a_half_is_rounded_away_from_zero(amount, currency, rounded_amount):
    assert round_money(Decimal(amount), currency) == Decimal(rounded_amount)
