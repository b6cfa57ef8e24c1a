"""Returns: returned items are checked against what is left of an order (administration "Purchase orders")."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from domain.currencies import floor_money, round_money
from domain.events import PayloadMissing
from domain.orders import PARTIALLY_RETURNED, RETURNED, Order, OrderItem, OrderWithItems, ReturnExceedsOrder

_ZERO = Decimal(0)


def order_after_return(order: Order, items: Sequence[OrderItem], payload: Mapping[str, Any]) -> OrderWithItems:
    """The order after a partial return; its status is RETURNED once nothing is left.

    The payload names the returned items, or else the total of the return. An order without items knows only its total.
    Raises ReturnExceedsOrder, or PayloadMissing for an item whose value is unknown.
    """
    items_left, returned_items = list(items), payload.get("items") or ()
    if returned_items:
        worth = sum((_take(items_left, item, order.currency) for item in returned_items), _ZERO)
    else:
        worth = Decimal(payload.get("total") or 0)
    returned_total = order.returned_total + worth
    if items and returned_items:
        # Each item was checked against its line; their sum may differ from the order's total, as by a discount.
        returned_total = min(order.total, returned_total)
    elif returned_total > order.total:
        remaining_total = order.total - order.returned_total
        raise ReturnExceedsOrder(
            f"The return is worth {worth}; only {remaining_total} of the order {order.external_id} is left."
        )
    has_no_items_left = bool(items_left) and all(item.is_returned for item in items_left)
    is_complete = returned_total >= order.total > 0 or has_no_items_left
    status = RETURNED if is_complete else PARTIALLY_RETURNED
    order_after = replace(order, status=status, returned_total=order.total if is_complete else returned_total)
    return OrderWithItems(order_after, tuple(items_left))


class RemainingOrder(NamedTuple):
    """The rest of an order after returns, with the remaining items and their positions in the original order."""

    order: Order
    items: tuple[OrderItem, ...]
    item_positions: tuple[int, ...]


def rest_of(order: Order, items: Sequence[OrderItem]) -> RemainingOrder:
    """The rest of an order: the totals and quantities that were not returned, and subtotals in proportion."""
    remaining_total = order.total - order.returned_total
    share = Fraction(remaining_total) / Fraction(order.total) if order.total else Fraction(1)
    remaining_order = replace(
        order,
        total=remaining_total,
        discounted_total=_in_proportion(order.discounted_total, share, order.currency),
        sub_total=_in_proportion(order.sub_total, share, order.currency),
    )
    positions = tuple(position for position, item in enumerate(items) if not item.is_returned)
    remaining_items = tuple(_rest_of_item(items[position], order.currency) for position in positions)
    return RemainingOrder(remaining_order, remaining_items, positions)


def _rest_of_item(item: OrderItem, currency: str | None) -> OrderItem:
    """The part of an item that was not returned, with subtotals in proportion."""
    share = Fraction(1)
    if item.total:
        share = Fraction(item.total_left) / Fraction(item.total)
    elif item.quantity:
        share = Fraction(item.quantity_left) / Fraction(item.quantity)
    return replace(
        item,
        total=None if item.total is None else item.total_left,
        quantity=None if item.quantity is None else item.quantity_left,
        discounted_total=_in_proportion(item.discounted_total, share, currency),
        sub_total=_in_proportion(item.sub_total, share, currency),
    )


def _in_proportion(amount: Decimal | None, share: Fraction, currency: str | None) -> Decimal | None:
    """The share of an amount, rounded to the digits of the currency; None if the amount is not known."""
    if amount is None or share == 1:
        return amount
    part = Fraction(amount) * share
    return round_money(Decimal(part.numerator) / part.denominator, currency)


def _take(lines: list[OrderItem], returned_item: Mapping[str, Any], currency: str | None) -> Decimal:
    """Take a returned item from the lines with its product code; return its value."""
    code, total, quantity = returned_item.get("productCode"), returned_item.get("total"), returned_item.get("quantity")
    if total is None and (code is None or not lines):
        raise PayloadMissing("A returned item needs a total, or the productCode of an item of the order.")
    if total is not None and not lines:
        # The order has no lines to check the item against.
        return Decimal(total)
    item_name = "without a productCode" if code is None else f"with the productCode {code}"
    positions = [position for position, line in enumerate(lines) if line.product_code == code]
    if not positions:
        raise ReturnExceedsOrder(f"The order has no item {item_name}.")
    if all(lines[position].is_returned for position in positions):
        raise ReturnExceedsOrder(f"All of the item {item_name} has already been returned.")
    if total is None and any(lines[position].total is None for position in positions):
        raise PayloadMissing(f"The order has no total of the item {item_name}, so its return needs a total.")
    returned_quantity = None if quantity is None else Decimal(quantity)
    if total is None:
        return _take_quantity(lines, positions, returned_quantity, item_name, currency, reduces_totals=True)
    if returned_quantity is not None:
        _take_quantity(lines, positions, returned_quantity, item_name, currency, reduces_totals=False)
    return _take_total(lines, positions, Decimal(total), item_name)


def _take_quantity(
    lines: list[OrderItem],
    positions: Sequence[int],
    quantity: Decimal | None,
    item_name: str,
    currency: str | None,
    *,
    reduces_totals: bool,
) -> Decimal:
    """Take a returned quantity from the lines at these positions, or all that is left if None; return its value.

    Without `reduces_totals`, the totals of the lines do not change, and the value is 0. `item_name` is how refusals
    call the item.
    """
    worth, remaining_quantity = _ZERO, quantity
    for position in positions:
        line = lines[position]
        part = line.quantity_left if remaining_quantity is None else min(remaining_quantity, line.quantity_left)
        if remaining_quantity is not None:
            remaining_quantity -= part
        share = _share(line, part, currency) if reduces_totals else _ZERO
        if share > line.total_left:
            raise ReturnExceedsOrder(
                f"The returned quantity {part} of the item {item_name} is worth {share}; only {line.total_left} of the"
                " item's total is left."
            )
        lines[position] = replace(
            line, returned_quantity=line.returned_quantity + part, returned_total=line.returned_total + share
        )
        worth += share
    if remaining_quantity:
        raise ReturnExceedsOrder(
            f"The returned quantity {quantity} of the item {item_name} is more than the"
            f" {(quantity or _ZERO) - remaining_quantity} that are left."
        )
    return worth


def _share(line: OrderItem, part: Decimal, currency: str | None) -> Decimal:
    """The value of the quantity `part` of a line, rounded down; the last part is worth the total that is left."""
    if part == line.quantity_left:
        return line.total_left
    return floor_money((line.total or _ZERO) * part / (line.quantity or Decimal(1)), currency)


def _take_total(lines: list[OrderItem], positions: Sequence[int], total: Decimal, item_name: str) -> Decimal:
    """Take returned items worth `total` from the lines at these positions; return `total`."""
    remaining_total = total
    for position in positions:
        line = lines[position]
        # A line without a total can be worth all of it.
        part = remaining_total if line.total is None else min(remaining_total, line.total_left)
        remaining_total -= part
        lines[position] = replace(line, returned_total=line.returned_total + part)
    if remaining_total:
        raise ReturnExceedsOrder(
            f"The returned total {total} of the item {item_name} is more than the"
            f" {total - remaining_total} that is left."
        )
    return total
