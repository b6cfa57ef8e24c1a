"""Discounts on one purchase: their amounts, how they are spread over the items, and what remains of the totals.

They are only computed here; the client that sends the purchase gives them to the customer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from itertools import compress
from typing import Any, NamedTuple

from domain.currencies import EXACT, allocate, finest_digits
from domain.problems import Conflict

# The kinds of discounts, what a percentage is of, and whether a discount is given once or for each item.
AMOUNT, PERCENTAGE = "amount", "percentage"
REDUCED, INITIAL = "reduced", "initial"
PER_ORDER, PER_ITEM = "order", "item"

_ZERO = Decimal(0)


class DiscountExceedsTotal(Conflict, title="The discount exceeds what is left of the order"):
    """Earlier discounts have left less of the order or its items than the discount would take."""


@dataclass(frozen=True, slots=True)
class DiscountTerms:
    """The terms of a discount: an amount, or a percentage of what earlier discounts left or of the initial total.

    It applies to the items with these indexes, or to the whole order if `items` is None, and is given once or for each
    item. It is at most `max_amount`.
    """

    kind: str
    value: Decimal
    base: str = REDUCED
    per: str = PER_ORDER
    items: Collection[int] | None = None
    max_amount: Decimal | None = None

    @property
    def is_of_items(self) -> bool:
        """True if it is computed on items instead of the whole order."""
        return self.items is not None or self.per == PER_ITEM


class ItemDiscount(NamedTuple):
    """The part of a discount that is taken off one item, by its index in the order."""

    item_index: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Discount:
    """A computed discount: the `requested` amount, and the `amount` that what remains of the purchase allows.

    `allocation` spreads the amount over the items that the discount applies to, in proportion to their `weights`. It is
    empty if there are no items, or if the whole order is discounted and one of its items has no total. If nothing is
    left of the order, or of the items that the discount applies to, `nothing_left` is true.
    """

    requested: Decimal
    amount: Decimal
    allocation: tuple[ItemDiscount, ...] = ()
    weights: tuple[Decimal, ...] = ()
    nothing_left: bool = False

    @property
    def refusal(self) -> DiscountExceedsTotal | None:
        """The reason why the discount was cut, or takes nothing off since nothing is left; None if there is none."""
        if self.nothing_left and not self.requested:
            return DiscountExceedsTotal("Nothing is left to discount.")
        if self.amount == self.requested:
            return None
        return DiscountExceedsTotal(f"The discount of {self.requested} was cut to {self.amount}.")

    def cut(self, amount: Decimal) -> Discount:
        """The discount cut to at most `amount`, without an allocation."""
        return Discount(self.requested, min(self.amount, amount))


class DiscountShare(NamedTuple):
    """The part of a computed discount that is taken off the items with these indexes."""

    discount: Discount
    items: Collection[int]


class Basket:
    """The totals of a member's order or payment and of its items, less the discounts taken so far.

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
        self.remaining_total = total
        self.items = items
        self._totals: list[Decimal] = [item["total"] or _ZERO for item in items]
        self._remaining_totals = list(self._totals)
        # Any part of a discount on the whole order could be due to an item without a total.
        self._is_itemized = any(self._totals) and all(item["total"] is not None for item in items)
        self._unit = Decimal(1).scaleb(-finest_digits(currency, total))
        # The value of `remainder`, computed at its first call.
        self._remainder: dict[str, Any] | None = None

    def discount(self, terms: DiscountTerms) -> Discount:
        """Compute the discount by these terms on what the basket has left now, without taking it off."""
        base_totals = self._totals if terms.base == INITIAL else self._remaining_totals
        indexes = [index for index in range(len(self.items)) if terms.items is None or index in terms.items]
        limits = [self._remaining_totals[index] for index in indexes]
        # Items without a total, or free from the start, leave nothing either, but no discount has used them up.
        are_items_used_up = any(self._totals[index] for index in indexes) and not any(limits)
        nothing_left = not self.remaining_total or (terms.is_of_items and are_items_used_up)
        if terms.per == PER_ITEM:
            # An item without a total, or free from the start, is not discounted.
            amounts = [
                self._requested_amount(terms, base_totals[index]) if self._totals[index] else _ZERO for index in indexes
            ]
            requested = sum(amounts, _ZERO)
            # The share of each item is its own amount, cut to what the item has left.
            limits = [min(amount, limit) for amount, limit in zip(amounts, limits, strict=True)]
            weights = limits
        else:
            weights = [base_totals[index] for index in indexes]
            base_total = self.total if terms.base == INITIAL else self.remaining_total
            requested = self._requested_amount(terms, base_total if terms.items is None else sum(weights, _ZERO))
        if terms.max_amount is not None:
            requested = min(requested, terms.max_amount.quantize(self._unit, ROUND_FLOOR, EXACT))
        if not (terms.is_of_items or self._is_itemized):
            return Discount(requested, min(requested, self.remaining_total), nothing_left=nothing_left)
        amount = min(requested, self.remaining_total, sum(limits, _ZERO))
        shares = allocate(amount, weights, limits, self._unit)
        return Discount(
            requested=requested,
            amount=amount,
            allocation=tuple(map(ItemDiscount, indexes, shares)),
            weights=tuple(weights),
            nothing_left=nothing_left,
        )

    def part(self, discount: Discount, items: Collection[int]) -> Discount:
        """The part of a discount that is taken off some of its items only.

        These items must have the same totals as when the discount was computed; the whole order may have less left.
        """
        is_kept = [share.item_index in items for share in discount.allocation]
        shares = tuple(compress(discount.allocation, is_kept))
        weights = tuple(compress(discount.weights, is_kept))
        amount = sum((share.amount for share in shares), _ZERO)
        return self.cut(
            Discount(requested=amount, amount=amount, allocation=shares, weights=weights), self.remaining_total
        )

    def cut(self, discount: Discount, amount: Decimal) -> Discount:
        """The discount cut to an amount, which is spread over the same items again.

        These items must have the same totals as when the discount was computed.
        """
        if amount >= discount.amount:
            return discount
        indexes = [share.item_index for share in discount.allocation]
        limits = [self._remaining_totals[index] for index in indexes]
        shares = allocate(amount, discount.weights, limits, self._unit) if indexes else []
        return replace(discount, amount=amount, allocation=tuple(map(ItemDiscount, indexes, shares)))

    def take(self, discount: Discount) -> None:
        """Take a discount off the total and the items."""
        self._update(self.remaining_total - discount.amount, discount.allocation)

    def give_back(self, discount: Discount) -> None:
        """Undo `take` for this discount."""
        returned_parts = [ItemDiscount(index, -amount) for index, amount in discount.allocation]
        self._update(self.remaining_total + discount.amount, returned_parts)

    def _update(self, remaining_total: Decimal, parts: Collection[ItemDiscount]) -> None:
        """Set the remaining total, and take `parts` off the items; update the variable `orderAfter`."""
        self.remaining_total = remaining_total
        for index, amount in parts:
            self._remaining_totals[index] -= amount
        if self._remainder is not None:
            self._remainder["total"] = remaining_total
            for index, _ in parts:
                self._remainder["items"][index]["total"] = self._remaining_totals[index]

    def remainder(self) -> Mapping[str, Any]:
        """The variable `orderAfter`: what the discounts taken so far leave; later discounts change it in place."""
        if self._remainder is None:
            items = [
                {**item, "total": None if item["total"] is None else remaining}
                for item, remaining in zip(self.items, self._remaining_totals, strict=True)
            ]
            self._remainder = {"total": self.remaining_total, "items": items}
        return self._remainder

    def _requested_amount(self, terms: DiscountTerms, base_total: Decimal) -> Decimal:
        """The rounded amount that the terms set for an item or an order; a percentage is of its `base_total`."""
        amount = terms.value
        if terms.kind == PERCENTAGE:
            amount = EXACT.divide(EXACT.multiply(base_total, terms.value), Decimal(100))
        return max(_ZERO, amount).quantize(self._unit, ROUND_HALF_UP, EXACT)
