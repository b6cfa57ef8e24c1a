"""Payments with points: their points, their status, and the value of their parts."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.ledger.records import PENDING, REVERTED, SETTLED, HoldState
from domain.points_payments import (
    PaymentBelowMinimum,
    PaymentExceedsShare,
    PaymentNotHeld,
    PointsAndValue,
    PointsNotMultiple,
    PointsPayment,
    RefundExceedsPayment,
    captured_part,
    captured_part_for_value,
    new_payment,
    refunded_part,
    refuse_too_many_digits,
    refuse_unheld,
    view_of,
)
from domain.problems import InvalidRequest
from domain.redemptions import PointRate, RedemptionPolicy

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RATE = PointRate(points_per_unit=Decimal(100), currency="EUR", multiple_of=Decimal(1), decimals=0)


def policy(per_unit=100, multiple=1, minimum=0, share=1):
    """`per_unit` points are worth 1.00 euro; by default 100, and points can pay a whole order."""
    return RedemptionPolicy(
        points_per_unit=Decimal(per_unit),
        currency="EUR",
        multiple_of=Decimal(multiple),
        decimals=0,
        min_points=Decimal(minimum),
        max_share=Decimal(str(share)),
    )


def pay(terms, order_total=50, points=None, value=None):
    """The points and the value of a new payment for an order of 50 euros, by the points or by the value."""
    numbers = (None if number is None else Decimal(str(number)) for number in (points, value))
    return new_payment(terms, Decimal(order_total), *numbers)


def payment(*, points=1000, value=10):
    """A payment held until an hour after NOW."""
    plain = dict.fromkeys(field.name for field in fields(PointsPayment))
    plain |= {"points": Decimal(points), "value": Decimal(str(value)), "currency": "EUR"}
    return PointsPayment(**plain | {"held_until": NOW + timedelta(hours=1)})


def hold(status, *, is_captured=False, amount=1000, fiat=10, returned_points=0, fiat_returned=0):
    """The hold of `amount` points that are worth `fiat` euros."""
    numbers = (Decimal(amount), Decimal(fiat), Decimal(returned_points), Decimal(fiat_returned))
    return HoldState(status, is_captured, NOW, *numbers, None)


def test_points_are_converted_to_a_value_rounded_down_and_a_value_to_points_rounded_up():
    assert pay(policy(per_unit=100), points=2500) == (2500, 25)
    assert pay(policy(per_unit=3), points=10) == (10, Decimal("3.33"))
    assert pay(policy(per_unit=3), value="3.33") == (10, Decimal("3.33"))
    # 99 points are not a multiple of 50.
    assert pay(policy(per_unit=100, multiple=50), value="0.99") == (100, Decimal("0.99"))


@pytest.mark.parametrize(
    ("terms", "amounts", "refusal"),
    [
        # Half of the order of 50 euros is worth 2500 points.
        (policy(share=0.5), {"points": 2501}, PaymentExceedsShare),
        (policy(minimum=100), {"points": 99}, PaymentBelowMinimum),
        # 9 points are worth less than a cent.
        (policy(per_unit=1000), {"points": 9}, PaymentBelowMinimum),
        (policy(multiple=3), {"points": 10}, PointsNotMultiple),
        (policy(), {}, InvalidRequest),
        (policy(), {"points": 1, "value": 1}, InvalidRequest),
        (policy(), {"points": 0}, InvalidRequest),
        (policy(), {"value": 0}, InvalidRequest),
    ],
)
def test_invalid_payments_are_refused(terms, amounts, refusal):
    with pytest.raises(refusal):
        pay(terms, **amounts)


def test_a_payment_may_equal_its_minimum_and_its_maximum_share():
    # 100 points are worth 1.00, so half of an order of 50.00 is worth 2500 points.
    assert pay(policy(per_unit=100, share=0.5), order_total=50, points=2500) == (2500, 25)
    assert pay(policy(minimum=100), points=100).points == 100


@pytest.mark.parametrize(
    ("hold_of_payment", "after", "status"),
    # The payment is held for an hour.
    [
        (hold(PENDING), timedelta(minutes=59), "held"),
        (hold(PENDING), timedelta(hours=1), "released"),
        (hold(PENDING), timedelta(hours=2), "released"),
        (hold(SETTLED, is_captured=True), timedelta(hours=2), "captured"),
        (hold(REVERTED), timedelta(0), "released"),
        (hold(REVERTED, is_captured=True), timedelta(0), "refunded"),
    ],
)
def test_the_status_depends_on_the_hold_and_the_time(hold_of_payment, after, status):
    assert view_of(payment(), "key", hold_of_payment, NOW + after).status == status


def test_a_captured_payment_has_the_captured_amount_and_its_refunds():
    # Of 1000 points worth 10, 600 worth 6 were captured, of which 200 worth 2 were refunded.
    captured_hold = hold(SETTLED, is_captured=True, amount=600, fiat=6, returned_points=200, fiat_returned=2)
    view = view_of(payment(points=1000, value=10), "key", captured_hold, NOW)
    assert (view.points, view.value, view.refunded_points, view.refunded_value) == (600, 6, 200, 2)
    assert view.rest == (600 - 200, 6 - 2)
    # A payment that is not captured has the points of the request.
    assert view_of(payment(points=1000), "key", hold(PENDING, amount=600), NOW).points == 1000


@pytest.mark.parametrize(
    ("value", "currency", "whole_amount", "max_digits"),
    [
        ("0.001", "EUR", "10", 2),
        ("1e-71", "EUR", "10.00", 2),
        ("0.1", "JPY", "10", 0),
        ("0.0001", "BHD", "10", 3),
        ("0.0001", "EUR", "9.999", 3),
    ],
)
def test_a_value_with_more_fraction_digits_than_its_currency_and_the_whole_amount_is_refused(
    value, currency, whole_amount, max_digits
):
    with pytest.raises(InvalidRequest) as refusal:
        refuse_too_many_digits(Decimal(value), currency, Decimal(whole_amount))
    faults = [(fault.detail, fault.pointer) for fault in refusal.value.faults]
    assert faults == [(f"value has more than {max_digits} fraction digits.", "/value")]


@pytest.mark.parametrize(
    ("value", "currency", "whole_amount"),
    [("0.01", "EUR", "10"), ("0.100000", "EUR", "10"), ("0.001", "BHD", "10"), ("0.001", "EUR", "9.999")],
)
def test_a_value_may_have_the_fraction_digits_of_its_currency_and_of_the_whole_amount(value, currency, whole_amount):
    refuse_too_many_digits(Decimal(value), currency, Decimal(whole_amount))


def test_a_payment_by_a_value_has_the_fraction_digits_of_its_order():
    assert pay(policy(), value="3.333", order_total="9.999").value == Decimal("3.333")
    with pytest.raises(InvalidRequest):
        pay(policy(), value="3.333", order_total="9.99")


def test_the_rest_of_a_payment_is_exact():
    exact_value = Decimal("18446744073708.00000000000000000003")
    view = view_of(
        payment(), "key", hold(SETTLED, is_captured=True, amount=600, fiat=exact_value, fiat_returned="0.01"), NOW
    )
    assert view.rest.value == Decimal("18446744073707.99000000000000000003")


def test_only_a_held_payment_is_captured():
    refuse_unheld("held", "key")
    for status in ("captured", "released", "refunded"):
        with pytest.raises(PaymentNotHeld):
            refuse_unheld(status, "key")


def test_a_part_of_the_points_has_its_share_of_the_value():
    ten_points = payment(points=10, value="3.33")
    assert captured_part(ten_points, points=Decimal(10)) == (10, Decimal("3.33"))
    # The half of 3.33 is rounded down.
    assert captured_part(ten_points, points=Decimal(5)) == (5, Decimal("1.66"))


def test_a_part_of_the_value_takes_its_points_by_the_rate_and_at_most_those_of_the_payment():
    """By RATE, 100 points are worth 1.00."""
    thousand_points = payment(points=1000, value=10)
    assert captured_part_for_value(thousand_points, RATE, value=Decimal("2.5")) == (250, Decimal("2.5"))
    # By RATE, 3.33 would be 333 points: the payment has only 10.
    ten_points = payment(points=10, value="3.33")
    assert captured_part_for_value(ten_points, RATE, value=Decimal("3.33")) == (10, Decimal("3.33"))
    assert captured_part_for_value(ten_points, RATE, value=Decimal("3.32")) == (10, Decimal("3.32"))


def test_a_refund_is_by_points_or_by_value_and_the_last_one_returns_the_rest():
    """3 points are worth 1.00."""
    rest = PointsAndValue(Decimal(10), Decimal("3.33"))
    rate = PointRate(points_per_unit=Decimal(3), currency="EUR", multiple_of=Decimal(1), decimals=0)
    assert refunded_part(rate, rest, points=Decimal(5), value=None) == (5, Decimal("1.66"))
    # 3 * 1.66 is 4.98: points are rounded down.
    assert refunded_part(rate, rest, points=None, value=Decimal("1.66")) == (4, Decimal("1.66"))
    assert refunded_part(rate, rest, points=Decimal(10), value=None) == rest
    assert refunded_part(rate, rest, points=None, value=Decimal("3.33")) == rest
    for points, value in ((Decimal(11), None), (None, Decimal("3.34"))):
        with pytest.raises(RefundExceedsPayment) as refusal:
            refunded_part(rate, PointsAndValue(rest.points, Decimal("3.33000000")), points, value)
        assert refusal.value.detail == "10 points, worth 3.33, are left of the payment."


def test_a_payment_whose_last_points_are_refunded_by_their_value_is_refunded_in_full():
    rest = PointsAndValue(Decimal("0.5"), Decimal("0.5"))
    assert refunded_part(RATE, rest, points=Decimal("0.5"), value=None) == rest
    assert refunded_part(RATE, rest, points=None, value=Decimal("0.5")) == rest


def test_a_captured_payment_without_a_value_is_worth_nothing():
    view = view_of(
        payment(),
        "key",
        HoldState(
            status=SETTLED,
            is_captured=True,
            ended_at=NOW,
            amount=Decimal(600),
            fiat_value=None,
            returned=Decimal(0),
            fiat_returned=Decimal(0),
            returned_at=None,
        ),
        NOW,
    )
    assert (view.points, view.value) == (600, 0)


@pytest.mark.parametrize(
    ("amounts", "detail"),
    [
        ({}, "Send either points or value."),
        ({"points": 1, "value": 1}, "points and value exclude each other: send one."),
        ({"points": 0}, "points is not more than 0."),
        ({"value": 0}, "value is not more than 0."),
    ],
)
def test_a_payment_that_does_not_name_either_its_points_or_its_value_is_refused(amounts, detail):
    with pytest.raises(InvalidRequest) as refusal:
        pay(policy(), **amounts)
    assert [fault.detail for fault in refusal.value.faults] == [detail]
