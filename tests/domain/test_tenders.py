"""The refunds of each tender when an order is returned."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from domain.orders import CONFIRMED, PARTIALLY_RETURNED, RETURNED, Order
from domain.points_payments import PointsAndValue
from domain.problems import InvalidRequest
from domain.redemptions import PointRate
from domain.tenders import (
    PaidPoints,
    checked_payments,
    refunds_of,
    refuse_greater,
    refuse_other_payments,
    with_refunds,
)

KEY = "7e6d5c4b-3a2f-4e1d-8c9b-0a1f2e3d4c5b"


def order(total, *tenders, currency="EUR"):
    """A confirmed order, paid by tenders of a name and an amount."""
    payments = tuple(
        {
            "tender": name,
            "amount": Decimal(amount),
            **({"pointsPaymentKey": f"{KEY}{place}"} if name == "points" else {}),
        }
        for place, (name, amount) in enumerate(tenders)
    )
    values = dict.fromkeys(field.name for field in fields(Order))
    values |= {"total": Decimal(total), "returned_total": Decimal(0), "status": CONFIRMED, "currency": currency}
    return Order(**values | {"payments": payments})


class Till:
    """Returns parts of an order; `per_unit` points, by default 100, pay one unit of money."""

    def __init__(self, paid_order, per_unit=100, decimals=0):
        self.order = paid_order
        self.points = {}
        for payment in paid_order.payments:
            if payment["tender"] == "points":
                rate = PointRate(
                    points_per_unit=Decimal(per_unit),
                    currency=paid_order.currency,
                    multiple_of=Decimal(1),
                    decimals=decimals,
                )
                amount = payment["amount"]
                paid_points = PointsAndValue(rate.points_for(amount), amount)
                self.points[payment["pointsPaymentKey"]] = PaidPoints(rate, Decimal(0), paid_points)

    def give_back(self, amount):
        """Return as much of the order's total; the refunds as (tender, amount, points)."""
        returned_total = self.order.returned_total + Decimal(amount)
        status = RETURNED if returned_total == self.order.total else PARTIALLY_RETURNED
        returned_order = replace(self.order, returned_total=returned_total, status=status)
        refunds = refunds_of(returned_order, self.points)
        self.order = replace(returned_order, payments=with_refunds(returned_order, refunds))
        for payment, refund in zip(self.order.payments, refunds, strict=True):
            if refund.points is not None:
                paid_points = self.points[payment["pointsPaymentKey"]]
                rest = PointsAndValue(paid_points.rest.points - refund.points, paid_points.rest.value - refund.amount)
                self.points[payment["pointsPaymentKey"]] = PaidPoints(
                    paid_points.rate, paid_points.refunded + refund.amount, rest
                )
        return [(refund.tender, refund.amount, refund.points) for refund in refunds]


def refunded_points_and_money(refunds):
    """The points, their value and the money of each return of an order that was paid with points and money."""
    return [(points, value, money) for (_, value, points), (_, money, _) in refunds]


@pytest.mark.parametrize(
    ("parts", "expected_refunds"),
    [
        pytest.param([25, 25], [(1250, "12.50", "12.50"), (1250, "12.50", "12.50")], id="halves"),
        pytest.param([20, 30], [(1000, "10.00", "10.00"), (1500, "15.00", "15.00")], id="20.00 first"),
    ],
)
def test_a_return_refunds_each_tender_in_proportion(parts, expected_refunds):
    till = Till(order(50, ("points", 25), ("card", 25)))
    refunds = refunded_points_and_money([till.give_back(part) for part in parts])
    assert refunds == [(points, Decimal(value), Decimal(money)) for points, value, money in expected_refunds]


def test_the_refunds_of_three_thirds_of_an_order_add_up_to_its_payments():
    # 1000 points pay 10.00.
    till = Till(order("33.33", ("points", "10.00"), ("card", "23.33")), per_unit=100)
    refunds = refunded_points_and_money([till.give_back("11.11") for _ in range(3)])
    assert [points for points, _, _ in refunds] == [333, 333, 334]
    assert [money for _, _, money in refunds] == [Decimal("7.78"), Decimal("7.78"), Decimal("7.77")]
    assert sum(value for _, value, _ in refunds) == 10


def refunded_amounts(till, amount):
    """Return as much of the order's total; the refunded amount of each tender."""
    return [amount_of_tender for _, amount_of_tender, _ in till.give_back(amount)]


def test_a_refund_of_several_tenders_is_split_by_largest_remainder():
    till = Till(order(100, ("card", 50), ("cash", 30), ("voucher", 20)))
    assert refunded_amounts(till, "10.01") == [Decimal("5.01"), Decimal("3.00"), Decimal("2.00")]
    assert refunded_amounts(till, "89.99") == [Decimal("44.99"), Decimal("27.00"), Decimal("18.00")]


def test_a_refund_of_a_whole_amount_is_split_to_the_cent():
    till = Till(order(150, ("card", 50), ("cash", 50), ("voucher", 50)))
    assert refunded_amounts(till, 1) == [Decimal("0.34"), Decimal("0.33"), Decimal("0.33")]


def test_every_tender_is_listed_even_if_nothing_of_it_is_refunded():
    till = Till(order(10, ("points", "0.50"), ("card", "9.50")))
    assert till.give_back("0.10") == [("points", 0, 0), ("card", Decimal("0.10"), None)]


def test_points_refunded_by_request_are_not_refunded_again():
    till = Till(order(20, ("points", 10), ("card", 10)), per_unit=100)
    [key] = till.points
    rate = till.points[key].rate
    # 400 of the 1,000 points, worth 4, were refunded by request: of the 5 of each half, 1 remains for the first half.
    till.points[key] = PaidPoints(rate, refunded=Decimal(4), rest=PointsAndValue(Decimal(600), Decimal(6)))
    assert till.give_back(10) == [("points", 1, 100), ("card", 5, None)]
    assert till.give_back(10) == [("points", 5, 500), ("card", 5, None)]


def test_points_that_were_not_captured_are_not_refunded():
    till = Till(order(20, ("points", 10), ("card", 10)))
    till.points.clear()
    returned_order = replace(till.order, returned_total=Decimal(10), status=PARTIALLY_RETURNED)
    refund_of_points, refund_of_card = refunds_of(returned_order, {})
    assert (refund_of_points.tender, refund_of_points.amount, refund_of_points.points) == ("points", 0, 0)
    assert (refund_of_card.tender, refund_of_card.amount, refund_of_card.points) == ("card", 5, None)


def test_a_partial_return_of_a_free_order_refunds_nothing():
    till = Till(order(0, ("points", 0), ("card", 0)))
    returned_order = replace(till.order, status=PARTIALLY_RETURNED)
    refunds = [(refund.tender, refund.amount, refund.points) for refund in refunds_of(returned_order, till.points)]
    assert refunds == [("points", 0, 0), ("card", 0, None)]


def test_yen_are_refunded_without_fractions():
    till = Till(order(1000, ("points", 500), ("card", 500), currency="JPY"), per_unit=1)
    # Half of 333 is 166.5: the value of the points is rounded down.
    assert till.give_back(333) == [("points", 166, 166), ("card", 167, None)]


amounts = st.decimals("0.01", "500", places=2)


@given(
    points=st.lists(amounts, min_size=0, max_size=2),
    money=st.lists(amounts, min_size=0, max_size=3),
    weights=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    per_unit=st.sampled_from(["0.3", "1", "3", "100", "142.857"]),
    decimals=st.integers(0, 2),
    currency=st.sampled_from(["EUR", "JPY", "KWD", None]),
)
def test_the_refunds_of_any_split_of_returns_add_up_to_the_payment(
    points, money, weights, per_unit, decimals, currency
):
    tenders = [*(("points", amount) for amount in points), *((f"m{i}", amount) for i, amount in enumerate(money))]
    total = sum((amount for _, amount in tenders), Decimal(0))
    assume(total)
    till = Till(order(total, *tenders, currency=currency), Decimal(per_unit), decimals)
    paid_points = [
        till.points[payment["pointsPaymentKey"]].rest.points for payment in till.order.payments[: len(points)]
    ]
    refunded_amount_of_tender = [Decimal(0)] * len(tenders)
    refunded_points_of_tender = [Decimal(0)] * len(tenders)
    remaining_total = total
    # The last return, of weight 0, returns all that remains.
    for weight in [*weights, 0]:
        part = (remaining_total * weight / 100).quantize(Decimal("0.01")) if weight else remaining_total
        remaining_total -= part
        for place, (_, amount, refunded_points) in enumerate(till.give_back(part) if part else []):
            assert amount >= 0
            refunded_amount_of_tender[place] += amount
            refunded_points_of_tender[place] += refunded_points or 0
        for refunded_amount, (_, paid_amount) in zip(refunded_amount_of_tender, tenders, strict=True):
            assert refunded_amount <= paid_amount
    assert refunded_amount_of_tender == [amount for _, amount in tenders]
    assert refunded_points_of_tender[: len(points)] == paid_points


# --- payloads ----------------------------------------------------------------------------------------------------


CARD = {"tender": "card", "amount": 10}
POINTS_TENDER = {"tender": "points", "amount": 5, "pointsPaymentKey": KEY.upper()}


def test_payments_add_up_to_the_order():
    voucher = {"tender": "voucher", "amount": 3}
    assert checked_payments([CARD, POINTS_TENDER, voucher], Decimal(18)) == (
        CARD,
        {**POINTS_TENDER, "pointsPaymentKey": KEY},
        voucher,
    )


@pytest.mark.parametrize(
    ("payments", "total", "faults"),
    [
        ([CARD], 11, [("", "The payments add up to 10, the total is 11.")]),
        ([CARD], 9, [("", "The payments add up to 10, the total is 9.")]),
        (
            [{"tender": "points", "amount": 10}],
            10,
            [("/0/pointsPaymentKey", "The tender points needs the key of the payment.")],
        ),
        (
            [{**CARD, "pointsPaymentKey": KEY}],
            10,
            [("/0/pointsPaymentKey", "pointsPaymentKey is sent for the tender card; only the tender points has one.")],
        ),
        (
            [POINTS_TENDER, {**POINTS_TENDER, "pointsPaymentKey": KEY}],
            10,
            [("/1/pointsPaymentKey", f"The payment {KEY} is used twice.")],
        ),
    ],
)
def test_payments_that_do_not_add_up_or_whose_keys_are_wrong_are_refused(payments, total, faults):
    with pytest.raises(InvalidRequest) as refusal:
        checked_payments(payments, Decimal(total))
    assert [(fault.pointer, fault.detail) for fault in refusal.value.faults] == [
        (f"/payload/order/payments{at}", detail) for at, detail in faults
    ]


def test_a_later_event_may_repeat_the_payments_of_the_order():
    paid_order = replace(order(15), payments=({**CARD, "refundedAmount": 2}, {**POINTS_TENDER, "reference": None}))
    refuse_other_payments(paid_order, (CARD, POINTS_TENDER))
    with pytest.raises(InvalidRequest):
        refuse_other_payments(paid_order, (POINTS_TENDER, CARD))


@pytest.mark.parametrize(
    "other_payment",
    [{**CARD, "tender": "cash"}, {**CARD, "amount": 9}, {**CARD, "reference": "r-1"}, {**CARD, "vat": 1}],
)
def test_a_later_event_does_not_change_how_the_order_was_paid(other_payment):
    with pytest.raises(InvalidRequest, match="payments differ from the payments that the order already has"):
        refuse_other_payments(replace(order(10), payments=(CARD,)), (other_payment,))


def test_a_tender_of_points_is_at_most_the_value_of_its_payment():
    refuse_greater(POINTS_TENDER, Decimal(5))
    refuse_greater(POINTS_TENDER, Decimal(6))
    with pytest.raises(InvalidRequest) as refusal:
        refuse_greater(POINTS_TENDER, Decimal("4.99"))
    assert [(fault.pointer, fault.detail) for fault in refusal.value.faults] == [
        ("/payload/order/payments", f"The points payment {KEY.upper()} is worth 4.99; its amount in the order is 5.")
    ]


def test_the_total_in_money_excludes_points():
    assert order(50, ("points", 20), ("card", 30)).money_total == 30
    assert order(50, ("points", 20), ("voucher", 30)).money_total == 30
    assert replace(order(50), payments=None).money_total == 50
