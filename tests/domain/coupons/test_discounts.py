"""The discount that a coupon book gives on an order."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.coupons.discounts import discount_of
from tests.builders.coupon_values import coupon_book


def decimal(text):
    return None if text is None else Decimal(text)


@pytest.mark.parametrize(
    ("kind", "amount", "total", "most", "discount"),
    [
        ("amount", "5", "37.6", None, "5"),
        ("amount", "5", "3.2", None, "3.2"),
        ("amount", "5", None, None, "5"),
        ("amount", "5", "37.6", "4", "4"),
        ("percentage", "10", "37.6", None, "3.76"),
        ("percentage", "12.5", "0.2", None, "0.03"),
        ("percentage", "20", "37.6", "5", "5"),
        ("percentage", "200", "10", None, "10"),
        ("percentage", "10", None, None, None),
        ("points", "10", "37.6", None, None),
        (None, "10", "37.6", None, None),
        ("amount", None, "37.6", None, None),
    ],
)
def test_a_discount_follows_the_settings_of_its_book(kind, amount, total, most, discount):
    book = coupon_book(discount_type=kind, discount_amount=decimal(amount), max_discount_per_use=decimal(most))
    assert discount_of(book, decimal(total)) == decimal(discount)


@pytest.mark.parametrize(
    ("remaining", "total", "most", "discount"),
    [
        (None, "100", None, "50"),
        (None, None, None, "50"),
        ("30", "100", None, "30"),
        ("30", "20", None, "20"),
        ("30", "100", "12", "12"),
    ],
)
def test_a_value_coupon_gives_what_remains_of_its_value(remaining, total, most, discount):
    settings = {"face_value": Decimal(50), "max_discount_per_use": decimal(most)}
    book = coupon_book(is_value_coupon=True, **settings)
    assert discount_of(book, decimal(total), decimal(remaining)) == decimal(discount)
    # Other books give their discount.
    other = coupon_book(discount_type="amount", discount_amount=Decimal(5), **settings)
    assert discount_of(other, decimal(total), decimal(remaining)) == 5
    without = coupon_book(is_value_coupon=True, discount_type="amount", discount_amount=Decimal(5))
    assert discount_of(without, Decimal(100)) == 5
