"""Partial returns: what is left of an order and of its items, and which returns are refused."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from decimal import Decimal

import pytest

from domain.events import PayloadMissing
from domain.orders import Order, OrderItem, ReturnExceedsOrder
from domain.returns import order_after_return, rest_of


def order(*, total, returned_total="0"):
    values = dict.fromkeys(field.name for field in fields(Order))
    values |= {"external_id": "order-17", "total": Decimal(total), "returned_total": Decimal(returned_total)}
    return Order(**values | {"status": "confirmed"})


def item(code, *, total, quantity=None, returned_total="0", returned_quantity="0"):
    """A line of an order; without a quantity it is one piece."""
    values = dict.fromkeys(field.name for field in fields(OrderItem))
    values |= {"product_code": code, "returned_total": Decimal(returned_total)}
    values |= {"total": total and Decimal(total), "quantity": quantity and Decimal(quantity)}
    return OrderItem(**values | {"returned_quantity": Decimal(returned_quantity)})


def state_after_return(of, order_items=(), **payload):
    """The status and the returned total of the order, and the returned pieces of each of its items."""
    returned_order, lines = order_after_return(of, order_items, in_payload(**payload))
    return (
        returned_order.status,
        returned_order.returned_total,
        [(line.returned_quantity, line.returned_total) for line in lines],
    )


def pieces_after_return(of, order_items, **payload):
    """The returned pieces of each item of the order."""
    return state_after_return(of, order_items, **payload)[2]


def refusal(of, order_items=(), **payload):
    """The class and the text of the refusal of a return."""
    with pytest.raises((ReturnExceedsOrder, PayloadMissing)) as caught:
        order_after_return(of, order_items, in_payload(**payload))
    return type(caught.value), str(caught.value)


def in_payload(total=None, returned_items=None):
    """The payload of a return, with the fields that are not None."""
    fields_of_return = {"total": total, "items": returned_items}
    return {name: field for name, field in fields_of_return.items() if field is not None}


def pieces(quantity, *, worth):
    """The returned quantity and the returned total of an item."""
    return quantity, worth


NOT_RETURNED = pieces(0, worth=0)


MUG, TEA = {"productCode": "mug"}, {"productCode": "tea"}


def test_an_order_is_partially_returned_until_the_returned_totals_reach_its_total():
    assert state_after_return(order(total="30"), total=Decimal(12)) == ("partially-returned", 12, [])
    partly_returned_order = order(total="30", returned_total="12")
    assert state_after_return(partly_returned_order, total=Decimal(17)) == ("partially-returned", 29, [])
    assert state_after_return(partly_returned_order, total=Decimal(18)) == ("returned", 30, [])
    assert state_after_return(order(total="1"), total=Decimal(1)) == ("returned", 1, [])


def test_a_return_of_nothing_changes_only_the_status():
    assert state_after_return(order(total="30")) == ("partially-returned", 0, [])
    assert state_after_return(order(total="0")) == ("partially-returned", 0, [])
    assert state_after_return(order(total="30"), [item("mug", total="10")]) == ("partially-returned", 0, [NOT_RETURNED])


def test_a_return_of_more_than_the_rest_of_an_order_is_refused():
    assert refusal(order(total="30", returned_total="12"), total=Decimal("18.01")) == (
        ReturnExceedsOrder,
        "The return is worth 18.01; only 18 of the order order-17 is left.",
    )


def test_a_returned_total_without_items_is_compared_with_the_total_of_the_order():
    assert state_after_return(order(total="10"), [item("mug", total="10")], total=Decimal(4)) == (
        "partially-returned",
        4,
        [NOT_RETURNED],
    )
    assert refusal(order(total="10"), [item("mug", total="10")], total=Decimal(11))[0] is ReturnExceedsOrder


def test_returned_items_of_an_order_without_items_count_by_their_totals():
    returned_items = [{"total": Decimal(5)}, {"productCode": "mug", "total": Decimal(7)}]
    assert state_after_return(order(total="30"), returned_items=returned_items) == ("partially-returned", 12, [])
    assert refusal(order(total="30"), returned_items=[MUG]) == (
        PayloadMissing,
        "A returned item needs a total, or the productCode of an item of the order.",
    )
    assert refusal(order(total="30"), returned_items=[{"total": Decimal(31)}])[0] is ReturnExceedsOrder


def test_a_returned_item_without_a_quantity_is_returned_as_a_whole():
    order_items = [item("mug", total="10"), item("tea", total="20")]
    assert state_after_return(order(total="30"), order_items, returned_items=[MUG]) == (
        "partially-returned",
        10,
        [pieces(1, worth=10), NOT_RETURNED],
    )


def test_an_order_whose_items_are_all_returned_is_returned():
    order_items = [item("mug", total="10"), item("tea", total="20")]
    assert state_after_return(order(total="30"), order_items, returned_items=[MUG, TEA]) == (
        "returned",
        30,
        [pieces(1, worth=10), pieces(1, worth=20)],
    )
    # The items are worth less than the order, for example because of a fee.
    assert state_after_return(order(total="35"), order_items, returned_items=[MUG, TEA]) == (
        "returned",
        35,
        [pieces(1, worth=10), pieces(1, worth=20)],
    )


def test_items_that_are_worth_more_than_a_discounted_order_return_its_total():
    order_items = [item("mug", total="10"), item("tea", total="20")]
    assert state_after_return(order(total="25"), order_items, returned_items=[TEA]) == (
        "partially-returned",
        20,
        [NOT_RETURNED, pieces(1, worth=20)],
    )
    assert state_after_return(order(total="15"), order_items, returned_items=[TEA]) == (
        "returned",
        15,
        [NOT_RETURNED, pieces(1, worth=20)],
    )


def test_a_returned_quantity_is_worth_its_share_of_the_item():
    order_items = [item("mug", total="10", quantity="4")]
    assert state_after_return(order(total="30"), order_items, returned_items=[{**MUG, "quantity": 1}]) == (
        "partially-returned",
        Decimal("2.5"),
        [pieces(1, worth=Decimal("2.5"))],
    )
    # One of the four mugs was returned before: the other three are worth 7.50.
    partly_returned_items = [
        item("mug", total="10", quantity="4", returned_total="2.5", returned_quantity="1"),
        item("tea", total="10"),
    ]
    assert state_after_return(
        order(total="30", returned_total="2.5"), partly_returned_items, returned_items=[{**MUG, "quantity": 3}]
    ) == (
        "partially-returned",
        10,
        [pieces(4, worth=10), NOT_RETURNED],
    )
    # Without a quantity, the whole rest of the item is returned.
    assert state_after_return(order(total="30", returned_total="2.5"), partly_returned_items, returned_items=[MUG]) == (
        "partially-returned",
        10,
        [pieces(4, worth=10), NOT_RETURNED],
    )


def test_the_last_part_is_worth_the_rest_of_the_item():
    # A third of 10.00 is 3.33; the last piece is worth 3.34.
    partly_returned_items = [item("mug", total="10", quantity="3", returned_total="6.66", returned_quantity="2")]
    assert pieces_after_return(order(total="30"), partly_returned_items, returned_items=[{**MUG, "quantity": 1}]) == [
        pieces(3, worth=10)
    ]


@pytest.mark.parametrize(
    ("currency", "total_of_three", "worth_of_each"),
    [
        ("EUR", "10", ["3.33", "3.33", "3.34"]),
        ("JPY", "1000", [333, 333, 334]),
        ("KWD", "1", ["0.333", "0.333", "0.334"]),
        (None, "10", ["3.33", "3.33", "3.34"]),
    ],
)
def test_pieces_are_worth_a_share_that_is_rounded_down_to_the_digits_of_the_currency(
    currency, total_of_three, worth_of_each
):
    purchase = replace(order(total="30"), currency=currency)
    items = (item("mug", total=total_of_three, quantity="3"), item("tea", total="10"))
    returned_totals = [Decimal(0)]
    for _ in worth_of_each:
        _, items = order_after_return(purchase, items, {"items": [{**MUG, "quantity": 1}]})
        returned_totals.append(items[0].returned_total)
    differences = [after - before for before, after in itertools.pairwise(returned_totals)]
    assert differences == [Decimal(worth) for worth in worth_of_each]


def test_a_quantity_is_taken_from_all_lines_of_a_product():
    order_items = [item("mug", total="10", quantity="2"), item("tea", total="5"), item("mug", total="8", quantity="4")]
    assert state_after_return(order(total="30"), order_items, returned_items=[{**MUG, "quantity": 3}]) == (
        "partially-returned",
        12,
        [pieces(2, worth=10), NOT_RETURNED, pieces(1, worth=2)],
    )


def test_a_total_is_taken_from_all_lines_of_a_product():
    order_items = [item("mug", total="10"), item("mug", total="8")]
    assert state_after_return(order(total="30"), order_items, returned_items=[{**MUG, "total": Decimal(13)}]) == (
        "partially-returned",
        13,
        [pieces(0, worth=10), pieces(0, worth=3)],
    )


def test_a_total_that_is_sent_with_a_quantity_is_the_value_of_the_return():
    order_items = [item("mug", total="10", quantity="4")]
    returned_items = [{**MUG, "quantity": 2, "total": Decimal(3)}]
    assert state_after_return(order(total="30"), order_items, returned_items=returned_items) == (
        "partially-returned",
        3,
        [pieces(2, worth=3)],
    )


def test_an_item_without_a_total_is_returned_at_the_total_of_the_return():
    order_items = [item("mug", total=None), item("tea", total="10")]
    assert state_after_return(order(total="30"), order_items, returned_items=[{**MUG, "total": Decimal(7)}]) == (
        "partially-returned",
        7,
        [pieces(0, worth=7), NOT_RETURNED],
    )
    assert refusal(order(total="30"), order_items, returned_items=[MUG]) == (
        PayloadMissing,
        "The order has no total of the item with the productCode mug, so its return needs a total.",
    )


def test_an_item_without_a_code_needs_a_total():
    order_items = [item(code=None, total="10")]
    assert state_after_return(order(total="30"), order_items, returned_items=[{"total": Decimal(4)}]) == (
        "partially-returned",
        4,
        [pieces(0, worth=4)],
    )
    assert refusal(order(total="30"), order_items, returned_items=[{"quantity": 1}])[0] is PayloadMissing


def test_an_item_that_the_order_does_not_have_is_refused():
    assert refusal(order(total="30"), [item("mug", total="10")], returned_items=[TEA]) == (
        ReturnExceedsOrder,
        "The order has no item with the productCode tea.",
    )
    assert refusal(order(total="30"), [item("mug", total="10")], returned_items=[{"total": Decimal(1)}]) == (
        ReturnExceedsOrder,
        "The order has no item without a productCode.",
    )


def test_an_item_that_was_returned_cannot_be_returned_again():
    returned_in_full = item("mug", total="10", quantity="2", returned_total="10", returned_quantity="2")
    second_line = item("mug", total="5")
    assert refusal(
        order(total="30"), [returned_in_full, replace(second_line, returned_total=Decimal(5))], returned_items=[MUG]
    ) == (
        ReturnExceedsOrder,
        "All of the item with the productCode mug has already been returned.",
    )
    assert pieces_after_return(order(total="30"), [returned_in_full, second_line], returned_items=[MUG]) == [
        pieces(2, worth=10),
        pieces(1, worth=5),
    ]


def test_a_return_of_more_than_the_rest_of_an_item_is_refused():
    order_items = [item("mug", total="10", quantity="4", returned_total="2.5", returned_quantity="1")]
    assert refusal(order(total="30"), order_items, returned_items=[{**MUG, "quantity": 4}]) == (
        ReturnExceedsOrder,
        "The returned quantity 4 of the item with the productCode mug is more than the 3 that are left.",
    )
    assert refusal(order(total="30"), order_items, returned_items=[{**MUG, "total": Decimal(8)}]) == (
        ReturnExceedsOrder,
        "The returned total 8 of the item with the productCode mug is more than the 7.5 that is left.",
    )
    returned_item = {**MUG, "quantity": 4, "total": Decimal(1)}
    assert refusal(order(total="30"), order_items, returned_items=[returned_item])[0] is ReturnExceedsOrder


def test_a_share_that_exceeds_the_rest_of_the_total_is_refused():
    # 9 of the total of 10 were returned with one of four pieces.
    order_items = [item("mug", total="10", quantity="4", returned_total="9", returned_quantity="1")]
    assert refusal(order(total="30"), order_items, returned_items=[{**MUG, "quantity": 1}]) == (
        ReturnExceedsOrder,
        "The returned quantity 1 of the item with the productCode mug is worth 2.50; only 1 of the item's total is"
        " left.",
    )
    items_with_enough_left = [item("mug", total="10", quantity="4", returned_total="7.5", returned_quantity="1")]
    assert pieces_after_return(order(total="30"), items_with_enough_left, returned_items=[{**MUG, "quantity": 1}]) == [
        pieces(2, worth=10)
    ]


def test_a_returned_item_may_have_the_total_0():
    assert state_after_return(order(total="30"), returned_items=[{"total": Decimal(0)}]) == (
        "partially-returned",
        0,
        [],
    )


def test_several_pieces_of_an_item_are_worth_their_share():
    assert pieces_after_return(
        order(total="30"), [item("mug", total="10", quantity="4")], returned_items=[{**MUG, "quantity": 2}]
    ) == [pieces(2, worth=5)]
    # An item without a quantity is one piece.
    assert pieces_after_return(
        order(total="30"), [item("mug", total="10")], returned_items=[{**MUG, "quantity": "0.5"}]
    ) == [pieces(Decimal("0.5"), worth=5)]


# --- what is left ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order_with_returns", "remaining_total", "remaining_discounted_total", "remaining_sub_total"),
    [
        pytest.param(order(total="30"), 30, 27, "15.013", id="nothing was returned, so nothing is rounded"),
        pytest.param(order(total="30", returned_total="10"), 20, 18, "10.01", id="a third was returned"),
        pytest.param(order(total="30", returned_total="30"), 0, 0, 0, id="everything was returned"),
        pytest.param(order(total="0"), 0, 27, "15.013", id="an order that costs nothing"),
    ],
)
def test_the_rest_of_an_order_has_its_share_of_each_total(
    order_with_returns, remaining_total, remaining_discounted_total, remaining_sub_total
):
    totals = {"discounted_total": Decimal(27), "sub_total": Decimal("15.013")}
    remaining_order = rest_of(replace(order_with_returns, **totals, currency="EUR"), []).order
    assert remaining_order.total == remaining_total
    assert remaining_order.discounted_total == remaining_discounted_total
    assert remaining_order.sub_total == Decimal(remaining_sub_total)


def test_totals_that_an_order_lacks_are_unknown_after_a_return():
    remaining_order = rest_of(order(total="30", returned_total="10"), []).order
    assert (remaining_order.discounted_total, remaining_order.sub_total) == (None, None)


def test_the_rest_of_an_order_is_rounded_to_the_digits_of_its_currency():
    order_in_yen = replace(order(total="30", returned_total="10"), sub_total=Decimal(100), currency="JPY")
    # Two thirds of 100.
    assert rest_of(order_in_yen, []).order.sub_total == 67


def test_the_rest_of_an_order_has_the_items_that_were_not_returned_in_full():
    returned_item, partial_item, whole_item = (
        item("mug", total="10", quantity="2", returned_total="10", returned_quantity="2"),
        item("tea", total="10", quantity="4", returned_total="2.5", returned_quantity="1"),
        item("jam", total="5"),
    )
    remaining_order = rest_of(order(total="30"), [returned_item, partial_item, whole_item])
    assert [(line.product_code, line.total, line.quantity) for line in remaining_order.items] == [
        ("tea", Decimal("7.5"), 3),
        ("jam", 5, None),
    ]
    assert remaining_order.item_positions == (1, 2)


@pytest.mark.parametrize(
    ("line", "remaining_total", "remaining_sub_total"),
    [
        pytest.param(
            item("tea", total="10", quantity="4", returned_total="5", returned_quantity="1"),
            5,
            10,
            id="half of its total was returned",
        ),
        pytest.param(
            item("tea", total=None, quantity="4", returned_total="0", returned_quantity="1"),
            None,
            15,
            id="without a total, one of four pieces was returned",
        ),
        pytest.param(
            item("tea", total="0", quantity="4", returned_total="0", returned_quantity="1"),
            0,
            15,
            id="of an item for nothing, one of four pieces was returned",
        ),
        pytest.param(item("tea", total=None), None, 20, id="nothing was returned"),
    ],
)
def test_the_rest_of_an_item_has_its_share_of_each_total(line, remaining_total, remaining_sub_total):
    line_with_totals = replace(line, sub_total=Decimal(20), discounted_total=Decimal(2 * 20))
    [remaining_line] = rest_of(order(total="30"), [line_with_totals]).items
    assert remaining_line.total == remaining_total
    assert remaining_line.sub_total == remaining_sub_total
    assert remaining_line.discounted_total == 2 * remaining_sub_total
