"""The number and the date of a member's earlier orders at a moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from domain.orders import (
    CANCELLED,
    CONFIRMED,
    CREATED,
    NO_ORDERS,
    PARTIALLY_RETURNED,
    REJECTED,
    RETURNED,
    EarlierOrders,
    Order,
    OrderHistory,
)
from tests.domain.campaigns.test_context import record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
# Member 7 has three orders: at NOON, on day 1 and on day 3.
HISTORY = OrderHistory({7: [NOON, NOON + DAY, NOON + 3 * DAY]})


def order(order_id, at, status=CREATED, member_id=7):
    """An order dated `at` that was created on day 9."""
    values = {"order_id": order_id, "member_id": member_id, "status": status, "external_event_date": at}
    return record(Order, **values, created_at=NOON + 9 * DAY)


@pytest.mark.parametrize(
    ("days", "earlier_orders"),
    [
        (0, NO_ORDERS),
        (0.5, EarlierOrders(count=1, last_at=NOON)),
        (1, EarlierOrders(count=1, last_at=NOON)),
        (9, EarlierOrders(count=3, last_at=NOON + 3 * DAY)),
    ],
)
def test_orders_before_a_moment_are_counted_and_the_last_is_dated(days, earlier_orders):
    assert HISTORY.before(7, NOON + days * DAY) == earlier_orders
    assert HISTORY.before(8, NOON + days * DAY) == NO_ORDERS


@pytest.mark.parametrize(
    ("status", "is_counted"),
    [
        (CREATED, True),
        (CONFIRMED, True),
        (PARTIALLY_RETURNED, True),
        (CANCELLED, False),
        (REJECTED, False),
        (RETURNED, False),
    ],
)
def test_orders_of_the_batch_count_by_their_current_status(status, is_counted):
    order_of_batch = order(1, NOON + 4 * DAY, status)
    with_order_of_batch = EarlierOrders(count=3 + 1, last_at=NOON + 4 * DAY)
    only_history = EarlierOrders(count=3, last_at=NOON + 3 * DAY)
    expected_orders = with_order_of_batch if is_counted else only_history
    assert HISTORY.before(7, NOON + 9 * DAY, [order_of_batch]) == expected_orders


def test_later_orders_and_those_of_other_members_do_not_count():
    at = NOON + 2 * DAY
    batch = [order(1, NOON, member_id=8), order(2, at), order(3, NOON), order(4, NOON + DAY)]
    # Two of the history and the orders 3 and 4, unless order 3 is the one that is evaluated.
    assert HISTORY.before(7, at, batch, own_order_id=3) == EarlierOrders(count=2 + 1, last_at=NOON + DAY)
    assert HISTORY.before(7, at, batch) == EarlierOrders(count=2 + 2, last_at=NOON + DAY)
    assert HISTORY.before(8, at, batch) == EarlierOrders(count=1, last_at=NOON)


def test_an_order_without_a_date_is_dated_when_it_was_created():
    undated_order = replace(order(1, at=None), created_at=NOON + 5 * DAY)
    assert HISTORY.before(7, NOON + 9 * DAY, [undated_order]) == EarlierOrders(count=3 + 1, last_at=NOON + 5 * DAY)
