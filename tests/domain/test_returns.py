"""Partial returns: what is left of an order and of its items, and which returns are refused."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import Decimal

import pytest

from domain.events import PayloadMissing
from domain.orders import Order, OrderItem, ReturnExceedsOrder
from domain.returns import rest_of, with_returned


def order(total="30", returned_total="0"):
    values = dict.fromkeys(field.name for field in fields(Order))
    values |= {"external_id": "order-17", "total": Decimal(total), "returned_total": Decimal(returned_total)}
    return Order(**values | {"status": "confirmed"})


def item(code="mug", total="10", quantity=None, returned_total="0", returned_quantity="0"):
    values = dict.fromkeys(field.name for field in fields(OrderItem))
    values |= {"product_code": code, "returned_total": Decimal(returned_total)}
    values |= {"total": total and Decimal(total), "quantity": quantity and Decimal(quantity)}
    return OrderItem(**values | {"returned_quantity": Decimal(returned_quantity)})


def state_after_return(of, lines=(), **payload):
    """The status and the returned total of the order, and the returned quantity and total of each item."""
    returned_order, returned_lines = with_returned(of, lines, payload)
    return (
        returned_order.status,
        returned_order.returned_total,
        [(line.returned_quantity, line.returned_total) for line in returned_lines],
    )


def refusal(of, lines=(), **payload):
    """The class and the text of the refusal of a return."""
    with pytest.raises((ReturnExceedsOrder, PayloadMissing)) as caught:
        with_returned(of, lines, payload)
    return type(caught.value), str(caught.value)


MUG, TEA = {"productCode": "mug"}, {"productCode": "tea"}


def test_an_order_is_partially_returned_until_the_returned_totals_reach_its_total():
    assert state_after_return(order(total="30"), total=Decimal(12)) == ("partially-returned", 12, [])
    partly_returned_order = order(total="30", returned_total="12")
    assert state_after_return(partly_returned_order, total=Decimal(17)) == ("partially-returned", 29, [])
    assert state_after_return(partly_returned_order, total=Decimal(18)) == ("returned", 30, [])
    assert state_after_return(order(total="1"), total=Decimal(1)) == ("returned", 1, [])


def test_a_return_of_nothing_changes_only_the_status():
    assert state_after_return(order()) == ("partially-returned", 0, [])
    assert state_after_return(order(total="0")) == ("partially-returned", 0, [])
    assert state_after_return(order(), [item()]) == ("partially-returned", 0, [(0, 0)])


def test_a_return_of_more_than_the_rest_of_an_order_is_refused():
    assert refusal(order(total="30", returned_total="12"), total=Decimal("18.01")) == (
        ReturnExceedsOrder,
        "The return is worth 18.01; only 18 of the order order-17 is left.",
    )


def test_a_returned_total_without_items_is_compared_with_the_total_of_the_order():
    assert state_after_return(order(total="10"), [item()], total=Decimal(4)) == ("partially-returned", 4, [(0, 0)])
    assert refusal(order(total="10"), [item()], total=Decimal(11))[0] is ReturnExceedsOrder


def test_returned_items_of_an_order_without_items_count_by_their_totals():
    items = [{"total": Decimal(5)}, {"productCode": "mug", "total": Decimal(7)}]
    assert state_after_return(order(), items=items) == ("partially-returned", 12, [])
    assert refusal(order(), items=[MUG]) == (
        PayloadMissing,
        "A returned item needs a total, or the productCode of an item of the order.",
    )
    assert refusal(order(), items=[{"total": Decimal(31)}])[0] is ReturnExceedsOrder


def test_a_returned_item_without_a_quantity_is_returned_as_a_whole():
    items = [item("mug", "10"), item("tea", "20")]
    assert state_after_return(order(), items, items=[MUG]) == ("partially-returned", 10, [(1, 10), (0, 0)])


def test_an_order_whose_items_are_all_returned_is_returned():
    items = [item("mug", "10"), item("tea", "20")]
    assert state_after_return(order(), items, items=[MUG, TEA]) == ("returned", 30, [(1, 10), (1, 20)])
    # The items are worth less than the order, for example because of a fee.
    assert state_after_return(order(total="35"), items, items=[MUG, TEA]) == ("returned", 35, [(1, 10), (1, 20)])


def test_items_that_are_worth_more_than_a_discounted_order_return_its_total():
    items = [item("mug", "10"), item("tea", "20")]
    assert state_after_return(order(total="25"), items, items=[TEA]) == ("partially-returned", 20, [(0, 0), (1, 20)])
    assert state_after_return(order(total="15"), items, items=[TEA]) == ("returned", 15, [(0, 0), (1, 20)])


def test_a_returned_quantity_is_worth_its_share_of_the_item():
    items = [item("mug", "10", "4")]
    assert state_after_return(order(), items, items=[{**MUG, "quantity": 1}]) == (
        "partially-returned",
        Decimal("2.5"),
        [(1, Decimal("2.5"))],
    )
    # One of the four mugs was returned before: the other three are worth 7.50.
    partly_returned_items = [item("mug", "10", "4", "2.5", "1"), item("tea")]
    assert state_after_return(order(returned_total="2.5"), partly_returned_items, items=[{**MUG, "quantity": 3}]) == (
        "partially-returned",
        10,
        [(4, 10), (0, 0)],
    )
    # Without a quantity, the whole rest of the item is returned.
    assert state_after_return(order(returned_total="2.5"), partly_returned_items, items=[MUG]) == (
        "partially-returned",
        10,
        [(4, 10), (0, 0)],
    )


def test_the_last_part_is_worth_the_rest_of_the_item():
    # A third of 10.00 is 3.33; the last piece is worth 3.34.
    partly_returned_items = [item("mug", "10", "3", "6.66", "2")]
    assert state_after_return(order(), partly_returned_items, items=[{**MUG, "quantity": 1}])[2] == [
        (3, Decimal("10.00"))
    ]


def test_a_quantity_is_taken_from_all_lines_of_a_product():
    items = [item("mug", "10", "2"), item("tea", "5"), item("mug", "8", "4")]
    assert state_after_return(order(), items, items=[{**MUG, "quantity": 3}]) == (
        "partially-returned",
        12,
        [(2, 10), (0, 0), (1, 2)],
    )


def test_a_total_is_taken_from_all_lines_of_a_product():
    items = [item("mug", "10"), item("mug", "8")]
    assert state_after_return(order(), items, items=[{**MUG, "total": Decimal(13)}]) == (
        "partially-returned",
        13,
        [(0, 10), (0, 3)],
    )


def test_a_total_that_is_sent_with_a_quantity_is_the_value_of_the_return():
    items = [item("mug", "10", "4")]
    returned_items = [{**MUG, "quantity": 2, "total": Decimal(3)}]
    assert state_after_return(order(), items, items=returned_items) == ("partially-returned", 3, [(2, 3)])


def test_an_item_without_a_total_is_returned_at_the_total_of_the_return():
    items = [item("mug", None), item("tea")]
    assert state_after_return(order(), items, items=[{**MUG, "total": Decimal(7)}]) == (
        "partially-returned",
        7,
        [(0, 7), (0, 0)],
    )
    assert refusal(order(), items, items=[MUG]) == (
        PayloadMissing,
        "The order has no total of the item with the productCode mug, so its return needs a total.",
    )


def test_an_item_without_a_code_needs_a_total():
    items = [item(None)]
    assert state_after_return(order(), items, items=[{"total": Decimal(4)}]) == ("partially-returned", 4, [(0, 4)])
    assert refusal(order(), items, items=[{"quantity": 1}])[0] is PayloadMissing


def test_an_item_that_the_order_does_not_have_is_refused():
    assert refusal(order(), [item()], items=[TEA]) == (
        ReturnExceedsOrder,
        "The order has no item with the productCode tea.",
    )
    assert refusal(order(), [item()], items=[{"total": Decimal(1)}]) == (
        ReturnExceedsOrder,
        "The order has no item without a productCode.",
    )


def test_an_item_that_was_returned_cannot_be_returned_again():
    returned_items = [item("mug", "10", "2", "10", "2"), item("mug", "5", None, "5")]
    assert refusal(order(), returned_items, items=[MUG]) == (
        ReturnExceedsOrder,
        "All of the item with the productCode mug has already been returned.",
    )
    assert state_after_return(order(), [returned_items[0], item("mug", "5")], items=[MUG])[2] == [(2, 10), (1, 5)]


def test_a_return_of_more_than_the_rest_of_an_item_is_refused():
    items = [item("mug", "10", "4", "2.5", "1")]
    assert refusal(order(), items, items=[{**MUG, "quantity": 4}]) == (
        ReturnExceedsOrder,
        "The returned quantity 4 of the item with the productCode mug is more than the 3 that are left.",
    )
    assert refusal(order(), items, items=[{**MUG, "total": Decimal(8)}]) == (
        ReturnExceedsOrder,
        "The returned total 8 of the item with the productCode mug is more than the 7.5 that is left.",
    )
    assert refusal(order(), items, items=[{**MUG, "quantity": 4, "total": Decimal(1)}])[0] is ReturnExceedsOrder


def test_a_share_that_exceeds_the_rest_of_the_total_is_refused():
    # 9 of the total of 10 were returned with one of four pieces.
    items = [item("mug", "10", "4", "9", "1")]
    assert refusal(order(), items, items=[{**MUG, "quantity": 1}]) == (
        ReturnExceedsOrder,
        "The returned quantity 1 of the item with the productCode mug is worth 2.5; only 1 of the item's total is"
        " left.",
    )
    items_with_enough_left = [item("mug", "10", "4", "7.5", "1")]
    assert state_after_return(order(), items_with_enough_left, items=[{**MUG, "quantity": 1}])[2] == [(2, 10)]


def test_a_returned_item_may_have_the_total_0():
    assert state_after_return(order(), items=[{"total": Decimal(0)}]) == ("partially-returned", 0, [])


def test_several_pieces_of_an_item_are_worth_their_share():
    assert state_after_return(order(), [item("mug", "10", "4")], items=[{**MUG, "quantity": 2}])[2] == [(2, 5)]
    # An item without a quantity is one piece.
    assert state_after_return(order(), [item("mug", "10")], items=[{**MUG, "quantity": "0.5"}])[2] == [
        (Decimal("0.5"), 5)
    ]


# --- what is left ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "total", "discounted_total", "sub_total"),
    [
        pytest.param(order(), 30, 27, "15.013", id="nothing was returned, so nothing is rounded"),
        pytest.param(order(returned_total="10"), 20, 18, "10.01", id="a third"),
        pytest.param(order(returned_total="30"), 0, 0, 0, id="everything"),
        pytest.param(order(total="0"), 0, 27, "15.013", id="an order that costs nothing"),
    ],
)
def test_the_rest_of_an_order_has_its_share_of_each_total(of, total, discounted_total, sub_total):
    rest, *_ = rest_of(replace(of, discounted_total=Decimal(27), sub_total=Decimal("15.013"), currency="EUR"), [])
    assert (rest.total, rest.discounted_total, rest.sub_total) == (total, discounted_total, Decimal(sub_total))


def test_totals_that_an_order_lacks_are_unknown_after_a_return():
    rest, *_ = rest_of(order(returned_total="10"), [])
    assert (rest.discounted_total, rest.sub_total) == (None, None)


def test_the_rest_of_an_order_is_rounded_to_the_digits_of_its_currency():
    rest, *_ = rest_of(replace(order(returned_total="10"), sub_total=Decimal(100), currency="JPY"), [])
    assert rest.sub_total == 67


def test_the_rest_of_an_order_has_the_items_that_were_not_returned_in_full():
    returned_item, partial_item, whole_item = (
        item("mug", "10", "2", "10", "2"),
        item("tea", "10", "4", "2.5", "1"),
        item("jam", "5"),
    )
    _, items, places = rest_of(order(), [returned_item, partial_item, whole_item])
    assert [(rest.product_code, rest.total, rest.quantity) for rest in items] == [
        ("tea", Decimal("7.5"), 3),
        ("jam", 5, None),
    ]
    assert places == (1, 2)


@pytest.mark.parametrize(
    ("line", "total", "sub_total"),
    [
        pytest.param(item("tea", "10", "4", "5", "1"), 5, 10, id="by its total"),
        pytest.param(item("tea", None, "4", "0", "1"), None, 15, id="by its quantity"),
        pytest.param(item("tea", "0", "4", "0", "1"), 0, 15, id="by the quantity of what costs nothing"),
        pytest.param(item("tea", None, None), None, 20, id="all of it"),
    ],
)
def test_the_rest_of_an_item_has_its_share_of_each_total(line, total, sub_total):
    [rest] = rest_of(order(), [replace(line, sub_total=Decimal(20), discounted_total=Decimal(40))]).items
    assert (rest.total, rest.sub_total, rest.discounted_total) == (total, sub_total, 2 * sub_total)
