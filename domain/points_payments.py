"""Payments with points: parts of orders that members pay with points, which a hold reserves until they are captured.

The status of a payment depends on the ledger transaction that holds its points; the payment adds their value in money.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from domain.content.values import number_text
from domain.currencies import EXACT, digits_of, finest_digits, fraction_digits
from domain.fields import Internal, Key, Personal
from domain.ledger.records import PENDING, REVERTED, SETTLED, HoldState
from domain.problems import Conflict, FieldFault, InvalidRequest
from domain.redemptions import PointRate, RedemptionPolicy, floor_to

# The statuses of payments with points.
HELD, CAPTURED, RELEASED, REFUNDED = "held", "captured", "released", "refunded"
DEFAULT_VALIDITY, MAX_VALIDITY = "PT1H", "P7D"


class PointsAndValue(NamedTuple):
    """Points, and their value in money."""

    points: Decimal
    value: Decimal


@dataclass(frozen=True, slots=True)
class PointsPayment:
    """A member's payment in the state of its creation; later changes of the rate of points do not affect it."""

    organization_id: int
    points_payment_id: int
    points_payment_key: Key
    member_id: int
    ledger_account_id: int
    ledger_transaction_id: int
    points: Decimal
    value: Decimal
    currency: str
    points_per_unit: Internal[Decimal]
    multiple_of: Internal[Decimal]
    held_until: datetime
    order_external_id: Personal[str | None]
    created_at: datetime
    updated_at: datetime

    def rate(self, decimals: int) -> PointRate:
        """The rate of the payment's points; `decimals` are the fraction digits of their account."""
        return PointRate(
            points_per_unit=self.points_per_unit,
            currency=self.currency,
            multiple_of=self.multiple_of,
            decimals=decimals,
        )


@dataclass(frozen=True, slots=True)
class PointsPaymentView(PointsPayment):
    """A payment with its status and refunds; after the capture, `points` and `value` are the captured ones."""

    status: str
    ledger_account_key: Key
    refunded_points: Decimal
    refunded_value: Decimal

    @property
    def rest(self) -> PointsAndValue:
        """The points and the value that were not refunded yet."""
        return PointsAndValue(self.points - self.refunded_points, EXACT.subtract(self.value, self.refunded_value))


def status_of(held_until: datetime, hold: HoldState, now: datetime) -> str:
    """The status of a payment; a hold that has ended by time is RELEASED even before its release is posted."""
    if hold.status == PENDING:
        return HELD if now < held_until else RELEASED
    if hold.status == REVERTED:
        return REFUNDED if hold.is_captured else RELEASED
    assert hold.status == SETTLED, hold.status
    return CAPTURED


def view_of(payment: PointsPayment, account_key: str, hold: HoldState, now: datetime) -> PointsPaymentView:
    """The view of a payment by the state of its hold."""
    status = status_of(payment.held_until, hold, now)
    fields = {name: getattr(payment, name) for name in payment.__slots__}
    if status in (CAPTURED, REFUNDED):
        fields |= {"points": hold.amount, "value": hold.fiat_value or Decimal(0)}
    return PointsPaymentView(
        **fields,
        status=status,
        ledger_account_key=account_key,
        refunded_points=hold.returned,
        refunded_value=hold.fiat_returned,
    )


def new_payment(
    policy: RedemptionPolicy, order_total: Decimal, points: Decimal | None, value: Decimal | None
) -> PointsAndValue:
    """The points and the value of a payment; the request gives only one of them, the other one is None.

    Raises InvalidRequest unless exactly one is named, PointsNotMultiple, PaymentBelowMinimum or PaymentExceedsShare.
    """
    refuse_empty_payment(points, value)
    if points is None:
        assert value is not None
        refuse_too_many_digits(value, policy.currency, order_total)
        payment = PointsAndValue(policy.points_for(value), value)
    else:
        payment = PointsAndValue(points, policy.value_of(points))
    if Fraction(payment.points) % Fraction(policy.multiple_of):
        raise PointsNotMultiple(f"{payment.points} points are not a multiple of {policy.multiple_of}.")
    if not policy.is_enough(payment.points):
        raise PaymentBelowMinimum(
            f"{payment.points} points are worth {payment.value}; a payment is at least {policy.min_points} points."
        )
    if Fraction(payment.value) > Fraction(order_total) * Fraction(policy.max_share):
        maximum = policy.max_value(order_total)
        raise PaymentExceedsShare(
            f"{payment.points} points are worth {payment.value}; points may pay {maximum} of the order."
        )
    return payment


def refuse_empty_payment(points: Decimal | None, value: Decimal | None) -> None:
    """Raise InvalidRequest unless one of points and value is sent, and more than 0."""
    if (points is None) == (value is None):
        detail = "Send either points or value" if points is None else "points and value exclude each other: send one"
        raise InvalidRequest([FieldFault(detail, pointer="/points")])
    name, amount = ("value", value) if points is None else ("points", points)
    if not amount:
        raise InvalidRequest([FieldFault(f"{name} is not more than 0", pointer=f"/{name}")])


def refuse_too_many_digits(value: Decimal, currency: str, whole: Decimal) -> None:
    """Raise InvalidRequest for a value with more fraction digits than both its currency and the whole amount.

    The value is a part of the amount `whole` of an order or a payment.
    """
    digits = finest_digits(currency, whole)
    if fraction_digits(value) > digits:
        raise InvalidRequest([FieldFault(f"value has more than {digits} fraction digits", pointer="/value")])


def refuse_unheld(status: str, key: str) -> None:
    """Raise PaymentNotHeld for a payment that is not held."""
    if status != HELD:
        raise PaymentNotHeld(f"The points payment {key} is {status}, not held.")


def captured_part(payment: PointsPayment, points: Decimal) -> PointsAndValue:
    """The part of a held payment that consists of `points`, with its share of the value, rounded down."""
    if points == payment.points:
        return PointsAndValue(payment.points, payment.value)
    share = Fraction(payment.value) * Fraction(points) / Fraction(payment.points)
    return PointsAndValue(points, floor_to(share, digits_of(payment.currency)))


def captured_part_for_value(payment: PointsPayment, rate: PointRate, value: Decimal) -> PointsAndValue:
    """The part of a held payment that pays `value`, which is at most the value of the payment."""
    if value == payment.value:
        return PointsAndValue(payment.points, payment.value)
    return PointsAndValue(min(payment.points, rate.points_for(value)), value)


def refunded_part(
    rate: PointRate, rest: PointsAndValue, points: Decimal | None, value: Decimal | None
) -> PointsAndValue:
    """A refund of points or of a value; the other one is None. `rest` is the unrefunded part of the payment.

    The refund of the whole rest has its exact points and value. Raises RefundExceedsPayment.
    """
    if (points or 0) > rest.points or (value or 0) > rest.value:
        rest_text = f"{number_text(rest.points)} points, worth {number_text(rest.value)},"
        raise RefundExceedsPayment(f"{rest_text} are left of the payment.")
    if points == rest.points or value == rest.value:
        return rest
    if points is not None:
        return PointsAndValue(points, min(rate.value_of(points), rest.value))
    assert value is not None
    return PointsAndValue(min(rate.points_worth(value), rest.points), value)


class PaymentNotHeld(Conflict, title="The points payment is not held"):
    """The payment was captured or released, or its hold has ended."""


class PaymentExceedsShare(Conflict, title="The points are worth more than they may pay"):
    """The points are worth more than they may pay of the order."""


class PaymentBelowMinimum(Conflict, title="The payment has too few points"):
    """The points are fewer than the minimum of a payment, or worth nothing."""


class PointsNotMultiple(Conflict, title="The points are not a multiple of the account's multipleOf"):
    """The points are not a multiple of the `multiple_of` of the account."""


class RefundExceedsPayment(Conflict, title="The refund is greater than what is left of the payment"):
    """More is to be refunded than was captured and is not refunded yet."""
