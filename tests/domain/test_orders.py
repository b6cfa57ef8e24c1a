"""Orders: which status may follow which, and the steps of a new order to its first status."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

import pytest

from domain.orders import (
    CANCELLED,
    CONFIRMED,
    CREATED,
    PARTIALLY_RETURNED,
    REJECTED,
    RETURNED,
    UNDOING_EVENTS,
    OrderItem,
    OrderStatusConflict,
    check_transition,
    event_of_status,
    steps_to,
)

STATUSES = (CREATED, CONFIRMED, REJECTED, CANCELLED, PARTIALLY_RETURNED, RETURNED)
FOLLOWING = {
    CREATED: {CONFIRMED, REJECTED, CANCELLED},
    CONFIRMED: {CANCELLED, PARTIALLY_RETURNED, RETURNED},
    PARTIALLY_RETURNED: {PARTIALLY_RETURNED, RETURNED},
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("next_status", STATUSES)
def test_a_status_that_may_not_follow_the_current_one_is_refused(status, next_status):
    if next_status in FOLLOWING.get(status, ()):
        check_transition(status, next_status)
        return
    with pytest.raises(OrderStatusConflict):
        check_transition(status, next_status)


def test_a_first_status_implies_the_steps_before_it():
    assert steps_to(CREATED) == (CREATED,)
    assert steps_to(CONFIRMED) == (CREATED, CONFIRMED)
    assert steps_to(REJECTED) == (CREATED, REJECTED)
    assert steps_to(CANCELLED) == (CREATED, CANCELLED)
    assert steps_to(RETURNED) == (CREATED, CONFIRMED, RETURNED)


def test_a_new_order_cannot_be_partially_returned():
    with pytest.raises(OrderStatusConflict):
        steps_to(PARTIALLY_RETURNED)


def test_a_status_has_an_event_type():
    assert event_of_status(CONFIRMED) == "member-purchase-order-confirmed"


def test_cancellations_rejections_and_returns_undo_an_order():
    assert {
        "member-purchase-order-cancelled",
        "member-purchase-order-rejected",
        "member-purchase-order-returned",
        "member-purchase-order-partially-returned",
    } == UNDOING_EVENTS


def item(total=None, quantity=None, returned_total=0, returned_quantity=0):
    values = dict.fromkeys(field.name for field in fields(OrderItem))
    values |= {"total": total if total is None else Decimal(total)}
    values |= {"quantity": quantity if quantity is None else Decimal(quantity)}
    return OrderItem(
        **values | {"returned_total": Decimal(returned_total), "returned_quantity": Decimal(returned_quantity)}
    )


@pytest.mark.parametrize(
    ("line", "quantity_left", "total_left", "is_returned"),
    [
        # An item without a quantity is one piece.
        (item(), 1, 0, False),
        (item(returned_quantity=1), 0, 0, True),
        (item(total=10), 1, 10, False),
        (item(total=10, returned_total=9), 1, 1, False),
        (item(total=10, returned_total=10), 1, 0, True),
        (item(total=0), 1, 0, False),
        (item(total=10, quantity=3, returned_quantity=2), 1, 10, False),
        (item(total=10, quantity=3, returned_quantity=3), 0, 10, True),
    ],
)
def test_the_rest_of_an_item_is_its_quantity_and_total_less_what_was_returned(
    line, quantity_left, total_left, is_returned
):
    assert line.quantity_left == quantity_left
    assert line.total_left == total_left
    assert line.is_returned is is_returned
