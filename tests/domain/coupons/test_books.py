"""What is left of a coupon book, and which codes it takes."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.coupons.books import CodesNotAccepted, CodeTaken, code_taken, refuse_codes, stock_left
from domain.coupons.lots import CouponLot, last_expiry
from tests.builders.campaigns import NOON
from tests.builders.coupon_values import coupon_book


@pytest.mark.parametrize(
    ("book", "left"),
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
def test_limits_leave_a_stock(book, left):
    assert stock_left(coupon_book(total_assigned=Decimal(3), **book)) == left


def test_a_list_has_as_many_as_free_codes():
    book = coupon_book(type="list", max_coupon_count=1, total_assigned=Decimal(3))
    assert (stock_left(book, 5), stock_left(book, 0), stock_left(book)) == (5, 0, 0)


@pytest.mark.parametrize("kind", ["generated", "codeless"])
def test_only_lists_and_single_books_take_codes(kind):
    with pytest.raises(CodesNotAccepted, match=rf"A book of the type {kind} takes no codes\."):
        refuse_codes(coupon_book(type=kind), ["A"])


def test_a_single_book_has_one_code():
    single = coupon_book(type="single")
    refuse_codes(single, ["A"])
    for book, codes in ((single, ["A", "B"]), (coupon_book(type="single", coupon_count=1), ["A"])):
        with pytest.raises(CodesNotAccepted, match=r"A book of the type single has one code\."):
            refuse_codes(book, codes)


def test_a_list_takes_different_codes():
    refuse_codes(coupon_book(type="list", coupon_count=5), ["A", "B"])
    with pytest.raises(CodeTaken, match=r"The code B is named twice\."):
        refuse_codes(coupon_book(type="list"), ["A", "B", "B"])
    assert str(code_taken("A")) == "The coupon book already has the code A."


def lot(**values):
    plain = dict.fromkeys(CouponLot.__slots__)
    return CouponLot(**{**plain, "amount": Decimal(3), "amount_used": Decimal(1), "amount_owed": Decimal(0), **values})


def test_a_lot_has_left_what_is_not_used():
    assert lot().left == 2
    assert lot(amount=Decimal(0)).left == 0
    assert lot().used(Decimal(2), NOON).left == 0
    assert lot().taken_back(Decimal(2), NOON, owed=Decimal(1)).amount_owed == 1


@pytest.mark.parametrize(("expired_at", "expected"), [(None, False), (NOON, True)])
def test_a_lot_expires_at_its_moment(expired_at, expected):
    assert lot(expired_at=expired_at).has_expired(NOON) is expected


def test_a_use_that_comes_back_pays_what_the_lot_owes():
    owing = lot(amount=Decimal(3), amount_used=Decimal(2), amount_owed=Decimal(1))
    after = owing.given_back(Decimal(2), NOON)
    assert (after.amount, after.amount_used, after.amount_owed, after.updated_at) == (2, 0, 0, NOON)


def test_the_last_expiry_is_that_of_all_lots():
    assert last_expiry([]) is None
    assert last_expiry([lot(expired_at=NOON), lot()]) is None
    assert last_expiry([lot(expired_at=NOON), lot(expired_at=NOON.replace(year=2025))]) == NOON
