"""Tenders: how an order is paid, in money and in points, and how much of each tender a return of items refunds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from domain.currencies import allocate, digits_of, round_money
from domain.orders import POINTS, UNDONE, Order
from domain.points_payments import PointsAndValue, refunded_part
from domain.problems import FieldFault, InvalidRequest
from domain.redemptions import PointRate, floor_to

_POINTER = "/payload/order/payments"
_ZERO = Decimal(0)

Payment = Mapping[str, Any]
"""A tender of an order as the payload has it: `tender`, `amount`, and for points the `pointsPaymentKey`."""


@dataclass(frozen=True, slots=True)
class TenderRefund:
    """The part of a tender that a return refunds; `points` is None for money."""

    tender: str
    amount: Decimal
    points: Decimal | None = None


class PaidPoints(NamedTuple):
    """A captured payment with points: the rate of its points, the value that was refunded, and what is left."""

    rate: PointRate
    refunded: Decimal
    rest: PointsAndValue


def checked_payments(payments: Sequence[Payment], order_total: Decimal) -> tuple[Payment, ...]:
    """The payments of an order, with their keys in lower case.

    Raises InvalidRequest unless they add up to the total of the order, and exactly the tenders of points have keys,
    no key twice.
    """
    faults = []
    keys: set[str] = set()
    for index, payment in enumerate(payments):
        key = payment.get("pointsPaymentKey")
        key_pointer = f"{_POINTER}/{index}/pointsPaymentKey"
        if (payment["tender"] == POINTS) != (key is not None):
            detail = (
                f"The tender {POINTS} needs the key of the payment"
                if key is None
                else f"pointsPaymentKey is sent for the tender {payment['tender']}; only the tender {POINTS} has one"
            )
            faults.append(FieldFault(detail, pointer=key_pointer))
        elif key is not None and key.lower() in keys:
            faults.append(FieldFault(f"The payment {key} is used twice", pointer=key_pointer))
        keys.add((key or "").lower())
    sum_of_payments = sum((Decimal(payment["amount"]) for payment in payments), _ZERO)
    if sum_of_payments != order_total:
        faults.append(
            FieldFault(f"The payments add up to {sum_of_payments}, the total is {order_total}", pointer=_POINTER)
        )
    if faults:
        raise InvalidRequest(faults)
    return tuple(map(_with_lower_key, payments))


def _with_lower_key(payment: Payment) -> Payment:
    """The payment with the key of its payment with points, if it names one, in lower case."""
    key = payment.get("pointsPaymentKey")
    return payment if key is None else {**payment, "pointsPaymentKey": key.lower()}


def refuse_other_payments(order: Order, payments: Sequence[Payment]) -> None:
    """Raise InvalidRequest for payments of a later event that differ from the payments of the order."""
    if [*map(_as_sent, payments)] != [*map(_as_sent, order.payments or ())]:
        detail = (
            "payments differ from the payments that the order already has: "
            "leave them out, or send the same ones in the same sequence"
        )
        raise InvalidRequest([FieldFault(detail, pointer=_POINTER)])


def _as_sent(payment: Payment) -> Payment:
    """A stored payment in the form in which clients send it."""
    return {name: value for name, value in payment.items() if value is not None and name != "refundedAmount"}


def refuse_greater(payment: Payment, value: Decimal) -> None:
    """Raise InvalidRequest for a tender that is greater than the value of its payment with points."""
    if Decimal(payment["amount"]) > value:
        key = payment["pointsPaymentKey"]
        detail = f"The points payment {key} is worth {value}; its amount in the order is {payment['amount']}"
        raise InvalidRequest([FieldFault(detail, pointer=_POINTER)])


def refunds_of(order: Order, paid_points: Mapping[str, PaidPoints]) -> list[TenderRefund]:
    """The refund of each tender of an order that already includes the returned items.

    All returns together refund the returned share of each payment with points, rounded down. The rest is refunded in
    money, allocated by largest remainder. An undone order is refunded entirely. `paid_points` are the captured payments
    with points, by key.
    """
    payments, is_undone = order.payments or (), order.status in UNDONE
    digits = digits_of(order.currency)
    points_payments = [payment for payment in payments if payment["tender"] == POINTS]
    money_payments = [payment for payment in payments if payment["tender"] != POINTS]
    # The amount of each payment with points that all returns together must have refunded, by its key.
    if is_undone:
        targets = {payment["pointsPaymentKey"]: Decimal(payment["amount"]) for payment in points_payments}
    else:
        targets = {payment["pointsPaymentKey"]: _refund_target(order, payment, digits) for payment in points_payments}
    limits = [Decimal(payment["amount"]) - refunded_amount(payment) for payment in money_payments]
    money_due = sum(limits, _ZERO)
    if not is_undone:
        money_target = round_money(order.returned_total, order.currency) - sum(targets.values(), _ZERO)
        money_due = min(money_due, max(_ZERO, money_target - sum(map(refunded_amount, money_payments), _ZERO)))
    weights = [Decimal(payment["amount"]) for payment in money_payments]
    amounts = iter(allocate(money_due, weights, limits, Decimal(1).scaleb(-digits)))
    refunds = []
    for payment in payments:
        if payment["tender"] != POINTS:
            refunds.append(TenderRefund(payment["tender"], next(amounts)))
            continue
        key = payment["pointsPaymentKey"]
        points, value = _points_due(targets[key], paid_points.get(key), is_undone=is_undone)
        refunds.append(TenderRefund(POINTS, value, points))
    return refunds


def _refund_target(order: Order, payment: Payment, digits: int) -> Decimal:
    """The amount of a payment with points that all returns together must have refunded, rounded down."""
    # Nothing was paid for a free order, so a return of it refunds nothing.
    returned_share = Fraction(order.returned_total) / Fraction(order.total) if order.total else Fraction(0)
    return floor_to(Fraction(Decimal(payment["amount"])) * returned_share, digits)


def _points_due(target: Decimal, payment: PaidPoints | None, *, is_undone: bool) -> PointsAndValue:
    """The refund of a payment with points after which all returns together have refunded the amount `target`.

    It is the whole rest if the order `is_undone`, and nothing if the payment was not captured.
    """
    if payment is None:
        return PointsAndValue(_ZERO, _ZERO)
    if is_undone:
        return payment.rest
    due_value = max(_ZERO, target - payment.refunded)
    return refunded_part(payment.rate, payment.rest, points=None, value=min(payment.rest.value, due_value))


def refunded_amount(payment: Payment) -> Decimal:
    """The amount of a tender that returns have refunded so far."""
    return Decimal(payment.get("refundedAmount") or 0)


def with_refunds(order: Order, refunds: Sequence[TenderRefund]) -> tuple[Payment, ...]:
    """The payments of an order after these refunds."""
    return tuple(
        {**payment, "refundedAmount": refunded_amount(payment) + refund.amount}
        for payment, refund in zip(order.payments or (), refunds, strict=True)
    )
