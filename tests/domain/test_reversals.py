"""How much of an event is undone."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.orders import CREATED, OrderStatusConflict, steps_to
from domain.reversals import WHOLE, Extent, amount_to_reverse

AMOUNTS = st.decimals(0, 10**13, places=6)


@pytest.mark.parametrize(
    ("amount", "part", "whole", "decimals", "taken"),
    [
        ("10", "0", "10", 0, "0"),
        ("10", "1", "3", 0, "4"),
        ("10", "2", "3", 0, "7"),
        ("10", "1", "3", 2, "3.34"),
        ("10", "5", "3", 0, "10"),
        ("10", "0", "0", 0, "0"),
        ("0", "1", "3", 0, "0"),
        ("18446744073709", "1", "18446744073709", 6, "1"),
    ],
)
def test_what_stands_is_rounded_down(amount, part, whole, decimals, taken):
    assert Extent.part(Decimal(part), Decimal(whole)).of(Decimal(amount), decimals) == Decimal(taken)


@given(amount=AMOUNTS, parts=st.lists(st.decimals(0, 1000, places=2), min_size=1, max_size=6), extra=st.integers(0, 9))
def test_what_is_taken_only_grows_and_never_beyond_the_whole(amount, parts, extra):
    whole, came_back, before = sum(parts) + extra, Decimal(0), Decimal(0)
    for part in parts:
        came_back += part
        taken = Extent.part(came_back, whole).of(amount, 6)
        assert before <= taken <= amount
        before = taken
    assert WHOLE.of(amount, 6) == amount


def test_counts_are_given_back_once():
    points = {"type": "points", "amount": 10}
    third = Extent.part(Decimal(1), Decimal(3))
    assert amount_to_reverse(points, third, 0) == 4
    assert amount_to_reverse({**points, "givenBack": 4}, third, 0) == 0
    assert amount_to_reverse({**points, "givenBack": 4}, WHOLE, 0) == 6
    all_items = Extent.part(Decimal(3), Decimal(3))
    assert amount_to_reverse({"type": "transactions", "amount": 1}, all_items, 0) == 0
    assert amount_to_reverse({"type": "transactions", "amount": 1}, WHOLE, 0) == 1


def test_a_new_order_reaches_every_status_but_one():
    assert steps_to(CREATED) == ("created",)
    assert steps_to("returned") == ("created", "confirmed", "returned")
    with pytest.raises(OrderStatusConflict):
        steps_to("partially-returned")
