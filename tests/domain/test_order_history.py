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
# Member 7 has three earlier orders.
HISTORY = OrderHistory({7: [NOON, NOON + DAY, NOON + 3 * DAY]})


def order(order_id, at, status=CREATED, member_id=7):
    values = {"order_id": order_id, "member_id": member_id, "status": status, "external_event_date": at}
    return record(Order, **values, created_at=NOON + 9 * DAY)


@pytest.mark.parametrize(
    ("days", "earlier_orders"),
    [(0, NO_ORDERS), (0.5, EarlierOrders(1, NOON)), (1, EarlierOrders(1, NOON)), (9, EarlierOrders(3, NOON + 3 * DAY))],
)
def test_orders_before_a_moment_are_counted_and_the_last_is_dated(days, earlier_orders):
    assert HISTORY.before(7, NOON + days * DAY) == earlier_orders
    assert HISTORY.before(8, NOON + days * DAY) == NO_ORDERS


@pytest.mark.parametrize(
    ("status", "counts"),
    [(CREATED, 1), (CONFIRMED, 1), (PARTIALLY_RETURNED, 1), (CANCELLED, 0), (REJECTED, 0), (RETURNED, 0)],
)
def test_orders_of_the_batch_count_by_their_current_status(status, counts):
    earlier_orders = HISTORY.before(7, NOON + 9 * DAY, [order(1, NOON + 4 * DAY, status)])
    assert earlier_orders == EarlierOrders(3 + counts, NOON + (3 + counts) * DAY)


def test_later_orders_and_those_of_other_members_do_not_count():
    at = NOON + 2 * DAY
    batch = [order(1, NOON, member_id=8), order(2, at), order(3, NOON), order(4, NOON + DAY)]
    # Two of the history and the orders 3 and 4, unless order 3 is the one that is evaluated.
    assert HISTORY.before(7, at, batch, 3) == EarlierOrders(3, NOON + DAY)
    assert HISTORY.before(7, at, batch) == EarlierOrders(4, NOON + DAY)
    assert HISTORY.before(8, at, batch) == EarlierOrders(1, NOON)


def test_an_order_without_a_date_is_dated_when_it_was_created():
    undated_order = replace(order(1, None), created_at=NOON + 5 * DAY)
    assert HISTORY.before(7, NOON + 9 * DAY, [undated_order]) == EarlierOrders(4, NOON + 5 * DAY)
