"""Discounts on one purchase: the amount of each, how it is spread over the items, and what it leaves.

A discount is computed here and given by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from domain.currencies import digits_of
from domain.problems import Conflict

AMOUNT, PERCENTAGE = "amount", "percentage"

_ZERO = Decimal(0)
# Wider than any number of a request or an expression: only the result is rounded.
_WIDE = Context(prec=1000)


class DiscountExceedsTotal(Conflict):
    """Earlier discounts have left less of the order or its items than the discount would take."""

    slug = "discount-exceeds-total"
    title = "The discount exceeds what is left of the order"


class ItemDiscount(NamedTuple):
    """The part of a discount that is taken off one item, by its index in the order."""

    item_index: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Discount:
    """A computed discount: the `requested` amount, and the `amount` that the order and its items have left for it.

    `allocation` has every item that it applies to, and adds up to the amount. It is empty if there are no items, or one
    of them has no total.
    """

    requested: Decimal
    amount: Decimal
    allocation: tuple[ItemDiscount, ...] = ()

    @property
    def refusal(self) -> DiscountExceedsTotal | None:
        """The reason why it was cut; None if it was not."""
        if self.amount == self.requested:
            return None
        return DiscountExceedsTotal(f"The discount of {self.requested} was cut to {self.amount}.")


class Basket:
    """The total of a member's order or payment and those of its items, less the discounts taken so far.

    Amounts are rounded half away from zero to the digits of the `currency`, or to those of the total if these are more.
    """

    def __init__(
        self,
        member_id: int,
        total: Decimal,
        currency: str | None = None,
        items: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.member_id = member_id
        self.total = total
        self.left = total
        totals = [item["total"] for item in items]
        # An item without a total could hold any part of a discount.
        self._totals: list[Decimal] = [] if None in totals else totals
        self._left = list(self._totals)
        self._unit = Decimal(1).scaleb(-max(digits_of(currency), _fraction_digits(total)))

    def discount(self, kind: str, value: Decimal) -> Discount:
        """The discount of an amount, or of a percentage of what earlier discounts have left; `take` takes it off."""
        requested = self._rounded(value if kind == AMOUNT else _percent(self.left, value))
        if not any(self._totals):
            return Discount(requested, min(requested, self.left))
        amount = min(requested, self.left, sum(self._left, _ZERO))
        shares = _allocate(amount, self._left, self._left, self._unit)
        return Discount(requested, amount, tuple(map(ItemDiscount, range(len(shares)), shares)))

    def take(self, discount: Discount) -> None:
        """Take a discount off the total and the items."""
        self.left -= discount.amount
        for index, amount in discount.allocation:
            self._left[index] -= amount

    def _rounded(self, amount: Decimal) -> Decimal:
        return max(_ZERO, amount).quantize(self._unit, ROUND_HALF_UP, _WIDE)


def _percent(whole: Decimal, value: Decimal) -> Decimal:
    return _WIDE.divide(_WIDE.multiply(whole, value), Decimal(100))


def _fraction_digits(*amounts: Decimal) -> int:
    exponents = [amount.normalize(_WIDE).as_tuple().exponent for amount in amounts]
    return max([0, *(-exponent for exponent in exponents if isinstance(exponent, int))])


def _allocate(amount: Decimal, weights: Sequence[Decimal], most: Sequence[Decimal], unit: Decimal) -> list[Decimal]:
    """Split an amount by weight, each share at most `most` of its place; the shares add up exactly.

    Shares are rounded by largest remainder to `unit`, or to the digits of the amounts if these are finer; of equal
    remainders the first is rounded up. `most` must hold the amount.
    """
    digits = _fraction_digits(unit, amount, *most)
    missing = int(amount.scaleb(digits, _WIDE))
    limits = [int(limit.scaleb(digits, _WIDE)) for limit in most]
    shares, open_places = [0] * len(most), [place for place, limit in enumerate(limits) if limit]
    while missing:
        whole = sum((Fraction(weights[place]) for place in open_places), Fraction(0))
        exact = {place: missing * Fraction(weights[place]) / whole for place in open_places}
        full = [place for place in open_places if exact[place] >= limits[place]]
        if not full:
            _round_shares(shares, exact, missing)
            break
        for place in full:
            shares[place] = limits[place]
            missing -= limits[place]
        open_places = [place for place in open_places if place not in full]
    return [Decimal(share).scaleb(-digits, _WIDE) for share in shares]


def _round_shares(shares: list[int], exact: Mapping[int, Fraction], whole: int) -> None:
    """Set the shares to the exact ones, rounded so that they add up to the whole."""
    for place, share in exact.items():
        shares[place] = int(share)
    by_remainder = sorted(exact, key=lambda place: int(exact[place]) - exact[place])
    for place in by_remainder[: whole - sum(shares[place] for place in exact)]:
        shares[place] += 1
