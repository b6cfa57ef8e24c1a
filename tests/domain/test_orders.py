"""Orders: which status may follow which, and the way of a new order to its first one."""

from __future__ import annotations

import pytest

from domain.orders import (
    CANCELLED,
    CONFIRMED,
    CREATED,
    PARTIALLY_RETURNED,
    REJECTED,
    RETURNED,
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
def test_a_status_follows_another_or_is_refused(status, next_status):
    if next_status in FOLLOWING.get(status, ()):
        check_transition(status, next_status)
        return
    with pytest.raises(OrderStatusConflict):
        check_transition(status, next_status)


def test_the_way_to_a_first_status():
    assert steps_to(CREATED) == (CREATED,)
    assert steps_to(CONFIRMED) == (CREATED, CONFIRMED)
    assert steps_to(CANCELLED) == (CREATED, CANCELLED)
    assert steps_to(RETURNED) == (CREATED, CONFIRMED, RETURNED)
    with pytest.raises(OrderStatusConflict):
        steps_to(PARTIALLY_RETURNED)


def test_the_event_of_a_status():
    assert event_of_status(CONFIRMED) == "member-purchase-order-confirmed"
