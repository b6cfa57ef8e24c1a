"""Redemption of points as money: what the points of an account are worth, and how many pay an amount.

Shares and rates are computed as exact fractions, so that only the named steps round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from domain.currencies import CurrencyMismatch, digits_of
from domain.ledger.records import MAX_AMOUNT, LedgerAccount, fraction_fault
from domain.problems import Conflict, FieldFault, InvalidRequest

# The reasons for a quote of nothing.
BELOW_MINIMUM, NO_POINTS = "below-minimum", "no-points"
_DEFAULTS = {"minPoints": 0, "multipleOf": 1, "maxShare": 1}
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRate:
    """The worth of points: `points_per_unit` points are worth one unit of the currency.

    Amounts of points are paid in multiples of `multiple_of`; `decimals` are the fraction digits of their account.
    """

    points_per_unit: Decimal
    currency: str
    multiple_of: Decimal
    decimals: int

    def value_of(self, points: Decimal) -> Decimal:
        """The value of points, rounded down to the digits of the currency."""
        return floor_to(Fraction(points) / Fraction(self.points_per_unit), digits_of(self.currency))

    def points_for(self, value: Decimal) -> Decimal:
        """The points that pay a value, rounded up to a multiple that can be paid."""
        multiple = Fraction(self.multiple_of)
        return self._points(ceil(Fraction(value) * Fraction(self.points_per_unit) / multiple) * multiple)

    def points_worth(self, value: Decimal) -> Decimal:
        """The points to give back for a value, rounded down to the digits of the account."""
        return floor_to(Fraction(value) * Fraction(self.points_per_unit), self.decimals)

    def _points(self, points: Fraction) -> Decimal:
        """The points as a decimal: a multiple of `multiple_of` has no further digits to round."""
        return floor_to(points, self.decimals)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedemptionPolicy(PointRate):
    """How the points of an account pay: at least `min_points`, and at most `max_share` of an order."""

    min_points: Decimal
    max_share: Decimal

    @classmethod
    def of(cls, account: LedgerAccount) -> RedemptionPolicy:
        """The redemption policy of an account; raises RedemptionDisabled if its points cannot be used to pay."""
        policy = account.redemption
        if policy is None:
            raise RedemptionDisabled(
                f"The ledger account {account.name} has no redemption, so its points cannot pay orders."
            )
        return cls(
            points_per_unit=Decimal(policy["pointsPerUnit"]),
            currency=policy["currency"],
            multiple_of=Decimal(policy["multipleOf"]),
            decimals=account.decimals,
            min_points=Decimal(policy["minPoints"]),
            max_share=Decimal(policy["maxShare"]),
        )

    def max_value(self, order_total: Decimal) -> Decimal:
        """The maximum value of an order that points may pay."""
        return floor_to(Fraction(order_total) * Fraction(self.max_share), digits_of(self.currency))

    def max_points(self, order_total: Decimal, balance: Decimal) -> Decimal:
        """The maximum points of a balance that may pay an order; 0 if they are below the minimum or worth nothing.

        The result is at most the maximum amount of a transaction, which a balance may exceed.
        """
        multiple, payable = Fraction(self.multiple_of), Fraction(min(balance, MAX_AMOUNT))
        # Values are rounded down: points pay at most the maximum while they are worth less than one unit more.
        unit = Decimal(1).scaleb(-digits_of(self.currency))
        excess_points = (self.max_value(order_total) + unit) * self.points_per_unit
        multiples_within_order = ceil(Fraction(excess_points) / multiple) - 1
        points = self._points(min(multiples_within_order, payable // multiple) * multiple)
        return points if self.is_enough(points) else _ZERO

    def is_enough(self, points: Decimal) -> bool:
        """True for points that reach the minimum of a payment and are worth something."""
        return points >= self.min_points and self.value_of(points) > 0


@dataclass(frozen=True, slots=True)
class Quote:
    """The part of an order that a member may pay with points; `reason` is set if that is nothing."""

    max_points: Decimal
    max_value: Decimal
    balance: Decimal
    min_points: Decimal
    multiple_of: Decimal
    reason: str | None


def quote_of(redemption: RedemptionPolicy, order_total: Decimal, balance: Decimal) -> Quote:
    """The quote for an order, given the available balance."""
    points = redemption.max_points(order_total, balance)
    reason = None if points else (BELOW_MINIMUM if balance > 0 else NO_POINTS)
    return Quote(points, redemption.value_of(points), balance, redemption.min_points, redemption.multiple_of, reason)


def refuse_other_currency(points_currency: str, order_currency: str | None) -> None:
    """Raise CurrencyMismatch if the order has another currency than the points; an order without one is allowed."""
    if order_currency not in (None, points_currency):
        raise CurrencyMismatch(f"The points pay amounts in {points_currency}; the order is in {order_currency}.")


def complete_redemption(policy: Mapping[str, Any] | None, decimals: int) -> Mapping[str, Any] | None:
    """The `redemption` of an account with its defaults filled in; raises InvalidRequest."""
    if policy is None:
        return None
    redemption = {**_DEFAULTS, **{name: value for name, value in policy.items() if value is not None}}
    faults = [fraction_fault(name, Decimal(redemption[name]), decimals) for name in ("minPoints", "multipleOf")]
    faults += [
        FieldFault(f"{name} is not more than 0", pointer=f"/{name}")
        for name in ("pointsPerUnit", "multipleOf")
        if redemption[name] <= 0
    ]
    body_faults = [replace(fault, pointer=f"/redemption{fault.pointer}") for fault in faults if fault is not None]
    if body_faults:
        raise InvalidRequest(body_faults)
    return redemption


def floor_to(amount: Fraction, digits: int) -> Decimal:
    """The amount rounded down to `digits` fraction digits."""
    units = amount * 10**digits
    return Decimal(units.numerator // units.denominator).scaleb(-digits)


class RedemptionDisabled(Conflict, title="The ledger account has no redemption"):
    """The points of the account cannot be used to pay."""
