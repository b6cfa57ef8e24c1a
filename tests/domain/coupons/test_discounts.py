"""The discount that a coupon book gives on an order."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.coupons.discounts import discount_of
from tests.builders.coupon_values import coupon_book


def decimal(text):
    return None if text is None else Decimal(text)


@pytest.mark.parametrize(
    ("kind", "amount", "total", "maximum", "discount"),
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
def test_a_discount_follows_the_settings_of_its_book(kind, amount, total, maximum, discount):
    book = coupon_book(discount_type=kind, discount_amount=decimal(amount), max_discount_per_use=decimal(maximum))
    assert discount_of(book, decimal(total), currency=None) == decimal(discount)


@pytest.mark.parametrize(
    ("currency", "total", "discount"),
    [
        # 12.5 % of 1005 are 125.625.
        ("JPY", "1005", "126"),
        # 12.5 % of 1 are 0.125.
        ("USD", "1", "0.13"),
        ("KWD", "1", "0.125"),
        # A total of four digits has a discount of four digits.
        ("USD", "1.0008", "0.1251"),
    ],
)
def test_a_discount_has_the_digits_of_the_currency_or_of_the_total(currency, total, discount):
    book = coupon_book(discount_type="percentage", discount_amount=Decimal("12.5"))
    assert str(discount_of(book, Decimal(total), currency).normalize()) == discount


def test_a_maximum_is_rounded_down_so_that_no_discount_exceeds_it():
    book = coupon_book(discount_type="amount", discount_amount=Decimal(5), max_discount_per_use=Decimal("2.5"))
    # Yen have no fractions.
    assert discount_of(book, Decimal(100), "JPY") == 2


@pytest.mark.parametrize(
    ("remaining_value", "total", "maximum", "discount"),
    [
        (None, "100", None, "50"),
        (None, None, None, "50"),
        ("30", "100", None, "30"),
        ("30", "20", None, "20"),
        ("30", "100", "12", "12"),
    ],
)
def test_a_value_coupon_gives_its_remaining_value(remaining_value, total, maximum, discount):
    """The face value is 50; an unknown remaining value (None) is the face value."""
    settings = {"face_value": Decimal(50), "max_discount_per_use": decimal(maximum)}
    book = coupon_book(is_value_coupon=True, **settings)
    assert discount_of(book, decimal(total), None, decimal(remaining_value)) == decimal(discount)
    # Books without value coupons, or without a face value, give the discount of the book.
    book_without_value_coupons = coupon_book(discount_type="amount", discount_amount=Decimal(5), **settings)
    assert discount_of(book_without_value_coupons, decimal(total), None, decimal(remaining_value)) == 5
    book_without_face_value = coupon_book(is_value_coupon=True, discount_type="amount", discount_amount=Decimal(5))
    assert discount_of(book_without_face_value, Decimal(100), None) == 5
