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
def test_the_discount_of_a_book(kind, amount, total, most, discount):
    book = coupon_book(discount_type=kind, discount_amount=decimal(amount), max_discount_per_use=decimal(most))
    assert discount_of(book, decimal(total)) == decimal(discount)
