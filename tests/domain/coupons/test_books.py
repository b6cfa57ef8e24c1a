"""What is left of a coupon book, which codes it takes, and what is left of the lots of its coupons."""

from __future__ import annotations

from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.coupons.books import CodesNotAccepted, CodeTaken, code_taken, refuse_codes, stock_left
from domain.coupons.lots import CouponLot, last_expiry
from tests.builders.campaigns import NOON
from tests.builders.coupon_values import coupon_book


@pytest.mark.parametrize(
    ("settings", "stock"),
    [
        ({"type": "codeless"}, None),
        ({"type": "codeless", "max_coupon_count": 10}, 7),
        ({"type": "codeless", "max_coupon_count": 10, "max_assigned_per_coupon": 4}, 7),
        ({"type": "generated", "max_coupon_count": 10, "max_assigned_per_coupon": 4}, 7),
        ({"type": "single", "coupon_count": 1, "max_coupon_count": 10, "max_assigned_per_coupon": 4}, 1),
        ({"type": "single", "coupon_count": 1, "max_coupon_count": 3, "max_assigned_per_coupon": 4}, 0),
        ({"type": "single", "coupon_count": 1}, None),
        ({"type": "single", "coupon_count": 0}, 0),
    ],
)
def test_the_stock_is_the_rest_of_the_limits(settings, stock):
    """3 coupons are assigned; without limits, the stock is None."""
    assert stock_left(coupon_book(total_assigned=Decimal(3), **settings)) == stock


def test_the_stock_of_a_list_is_its_free_codes():
    book = coupon_book(type="list", max_coupon_count=1, total_assigned=Decimal(3))
    assert stock_left(book, unassigned=5) == 5
    assert stock_left(book, unassigned=0) == 0
    assert stock_left(book) == 0


@pytest.mark.parametrize("kind", ["generated", "codeless"])
def test_only_lists_and_single_books_take_codes(kind):
    with pytest.raises(CodesNotAccepted, match=rf"A book of the type {kind} takes no codes\."):
        refuse_codes(coupon_book(type=kind), ["A"])


def test_a_single_book_has_one_code():
    single_book = coupon_book(type="single")
    refuse_codes(single_book, ["A"])
    for book, codes in ((single_book, ["A", "B"]), (coupon_book(type="single", coupon_count=1), ["A"])):
        with pytest.raises(CodesNotAccepted, match=r"A book of the type single has only one code; it already has one"):
            refuse_codes(book, codes)


def test_a_list_takes_different_codes():
    refuse_codes(coupon_book(type="list", coupon_count=5), ["A", "B"])
    with pytest.raises(CodeTaken, match=r"The code B is named twice\."):
        refuse_codes(coupon_book(type="list"), ["A", "B", "B"])
    assert str(code_taken("A")) == "The coupon book already has the code A."


def lot(**values):
    """A lot of 3 coupons, of which 1 is used."""
    plain = dict.fromkeys(CouponLot.__slots__)
    return CouponLot(**{**plain, "amount": Decimal(3), "amount_used": Decimal(1), "amount_owed": Decimal(0), **values})


def test_a_lot_has_its_unused_amount_left():
    assert lot().unused_amount == 3 - 1
    assert lot(amount=Decimal(0)).unused_amount == 0
    assert lot().after_use(Decimal(2), NOON).unused_amount == 3 - 1 - 2
    assert lot().after_reverted_assignment(Decimal(2), NOON, owed_amount=Decimal(1)).amount_owed == 1


@pytest.mark.parametrize(("expired_at", "has_expired"), [(None, False), (NOON, True)])
def test_a_lot_expires_at_its_moment(expired_at, has_expired):
    assert lot(expired_at=expired_at).has_expired(NOON) is has_expired


def test_a_reverted_use_pays_the_debt_of_the_lot():
    owing_lot = lot(amount=Decimal(3), amount_used=Decimal(2), amount_owed=Decimal(1))
    lot_after_revert = owing_lot.after_reverted_use(Decimal(2), NOON)
    # One of the two coupons that come back pays the debt of 1.
    assert (lot_after_revert.amount, lot_after_revert.amount_used) == (3 - 1, 0)
    assert lot_after_revert.amount_owed == 0
    assert lot_after_revert.updated_at == NOON


def test_the_last_expiry_of_lots_is_none_if_one_of_them_never_expires():
    assert last_expiry([]) is None
    assert last_expiry([lot(expired_at=NOON), lot()]) is None
    assert last_expiry([lot(expired_at=NOON), lot(expired_at=NOON.replace(year=2025))]) == NOON


def card(remaining, *, amount=1, **values):
    """A lot of value coupons of 12 each, none of which is used up, with a remaining value."""
    values = {"value": Decimal(12), "remaining_value": Decimal(remaining), "amount": Decimal(amount), **values}
    return lot(**{"amount_used": Decimal(0), **values})


@pytest.mark.parametrize(
    ("amount", "remaining_value", "discount", "used_coupons", "value_after_use"),
    [(1, 12, "11.99", 0, "0.01"), (1, 12, 12, 1, 0), (2, 24, 11, 0, 13), (2, 24, 12, 1, 12), (2, 24, 13, 1, 11)],
)
def test_a_use_of_value_coupons_uses_up_the_coupons_that_the_remaining_value_does_not_need(
    amount, remaining_value, discount, used_coupons, value_after_use
):
    unused_card = card(remaining_value, amount=amount)
    used_card = unused_card.after_use(Decimal(1), NOON, Decimal(discount))
    assert used_card.amount_used == used_coupons
    assert used_card.remaining_value == Decimal(value_after_use)
    assert used_card.has_uses
    assert not unused_card.has_uses
    restored_card = used_card.after_reverted_use(Decimal(used_coupons), NOON, Decimal(discount))
    assert (restored_card.amount_used, restored_card.remaining_value) == (0, remaining_value)


def test_the_rest_of_a_reversed_assignment_has_no_value():
    reversed_card = card(7).after_reverted_assignment(Decimal(1), NOON)
    assert (reversed_card.amount, reversed_card.remaining_value) == (0, 0)
    assert reversed_card.after_reverted_use(Decimal(0), NOON, Decimal(5)).remaining_value == 0
    owing_card = card(0, amount_used=Decimal(1)).after_reverted_assignment(Decimal(0), NOON, owed_amount=Decimal(1))
    assert (owing_card.amount, owing_card.amount_owed, owing_card.unused_amount) == (1, 1, 0)
    paid_card = owing_card.after_reverted_use(Decimal(1), NOON, Decimal(5))
    assert (paid_card.amount, paid_card.amount_used, paid_card.amount_owed, paid_card.remaining_value) == (0, 0, 0, 0)
    # Of two coupons with 8 and 12, the second one remains.
    card_of_two = card(20, amount=2).after_reverted_assignment(Decimal(1), NOON)
    assert (card_of_two.amount, card_of_two.remaining_value) == (1, 12)


@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=12))
def test_the_remaining_value_is_the_value_less_unreverted_uses(amount, moves):
    cards = card(12 * amount, amount=amount)
    active_discounts: list[Decimal] = []
    for is_use, number in moves:
        if is_use and number <= cards.remaining_value:
            cards = cards.after_use(Decimal(1), NOON, Decimal(number))
            active_discounts.append(Decimal(number))
        elif not is_use and active_discounts:
            discount = active_discounts.pop(number % len(active_discounts))
            cards = cards.after_reverted_use(Decimal(0), NOON, discount)
        remaining_value = 12 * amount - sum(active_discounts)
        assert (cards.remaining_value, cards.amount) == (remaining_value, amount)
        assert cards.amount_used == amount - ceil(remaining_value / 12)
        assert cards.has_uses is bool(active_discounts)
