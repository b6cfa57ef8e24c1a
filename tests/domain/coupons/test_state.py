"""Books, codes and members' coupons in one unit of work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.coupons.books import Coupon, UnknownCoupon
from domain.coupons.lots import CouponLot, LotRange
from domain.coupons.refusals import OutOfStock
from domain.coupons.state import CouponState
from domain.coupons.usages import CodeHeld, UsageTotals
from tests.builders.coupon_values import coupon_book

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
ANA, BEN = 1, 2
ONE, ZERO = Decimal(1), Decimal(0)


class EmptySource:
    """A source without lots and codes."""

    member_ids = ()

    def find_lots(self, among, after, limit):
        return []

    def supply_codes(self, book):
        return []


def coupon(number=1, code="A", **values):
    """A coupon of book 12 with this number as its id and position."""
    return replace(
        Coupon(
            organization_id=1,
            coupon_id=number,
            coupon_book_id=12,
            position=number,
            code=code,
            total_assigned=ZERO,
            total_usages=ZERO,
            custom_attributes={},
            expired_at=None,
            locked_until=None,
            created_at=NOW,
            updated_at=NOW,
        ),
        **values,
    )


def state(*coupons, **settings):
    """The state with book 12, which has these settings, and with these coupons."""
    coupon_state = CouponState(NOW, EmptySource())
    coupon_state.put_book(coupon_book(**settings))
    coupon_state.put_coupons(coupons)
    return coupon_state


def assign(coupon_state, member_id, assigned_coupon, amount, used_amount=ZERO):
    """Assign an amount, or revert a negative one, and use `used_amount`; return the coupon of the member."""
    return coupon_state.add_amounts(member_id, assigned_coupon, amount, used_amount, lot=None)


def test_a_book_that_is_loaded_again_keeps_the_changes_of_the_unit_of_work():
    """3 are assigned and 1 is used before the book is loaded again."""
    coupon_state = state(coupon(), type="single", coupon_count=1, total_assigned=Decimal(4), total_usages=Decimal(2))
    assign(coupon_state, ANA, coupon(), Decimal(3), used_amount=ONE)
    locked_book = coupon_book(type="single", name="New name", total_assigned=Decimal(10), total_usages=Decimal(5))
    coupon_state.put_book(locked_book)
    book = coupon_state.books[12]
    assert (book.name, book.total_assigned, book.total_usages) == ("New name", 10 + 3, 5 + 1)
    assert coupon_state.original_books[12] == locked_book


def test_a_coupon_that_is_loaded_again_keeps_its_state():
    coupon_state = state(coupon())
    assign(coupon_state, ANA, coupon(), ONE)
    coupon_state.put_coupons([coupon()])
    assert coupon_state.coupons[1].total_assigned == 1


def test_the_coupons_of_a_member_that_are_loaded_again_keep_their_state():
    coupon_state = state(coupon())
    member_coupon = assign(coupon_state, ANA, coupon(), ONE)
    coupon_state.put_member_coupons([replace(member_coupon, amount_assigned=Decimal(9))])
    assert coupon_state.member_coupons[ANA, 1].amount_assigned == 1
    coupon_state.put_member_coupons([replace(member_coupon, member_id=BEN, amount_assigned=Decimal(9))])
    assert assign(coupon_state, BEN, coupon(), ONE).amount_assigned == 9 + 1


def test_only_a_loaded_book_has_a_shared_coupon():
    coupon_state = CouponState(NOW, EmptySource())
    coupon_state.put_coupons([coupon()])
    assert coupon_state.coupons.keys() == {1}
    assert coupon_state.shared_coupon_ids == {}
    assert state(coupon(), type="single").shared_coupon_ids == {12: 1}


def test_a_code_is_found_in_its_book():
    coupon_state = state(coupon())
    assert coupon_state.coupon_by_code(coupon_state.books[12], "A").coupon_id == 1
    with pytest.raises(UnknownCoupon, match=r"The coupon book Free coffee has no code B\."):
        coupon_state.coupon_by_code(coupon_state.books[12], "B")


def test_the_shared_coupon_is_assigned_if_there_is_one():
    coupon_state = state(coupon(), type="single")
    assert coupon_state.coupon_to_assign(ANA, coupon_state.books[12], None, ONE).coupon_id == 1
    empty_state = state(type="single")
    with pytest.raises(OutOfStock, match=r"The coupon book Free coffee has no code yet\."):
        empty_state.coupon_to_assign(ANA, empty_state.books[12], None, ONE)


def test_a_list_without_free_codes_is_out_of_stock():
    coupon_state = state(type="list")
    with pytest.raises(OutOfStock, match=r"All codes of the coupon book Free coffee are assigned or locked\."):
        coupon_state.coupon_to_assign(ANA, coupon_state.books[12], None, ONE)


def state_with_supply(*codes, lots=(), **settings):
    """A state whose supply has these codes, and these lots of members."""

    class Stored(EmptySource):
        def find_lots(self, among, after, limit):
            return [lot for lot in lots if after.get(lot.member_id) is None and lot.member_id in after]

        def supply_codes(self, book):
            return [code for code in codes if code.coupon_id not in coupon_state.coupons]

    coupon_state = CouponState(NOW, Stored())
    coupon_state.put_book(coupon_book(**settings))
    return coupon_state


@pytest.mark.parametrize(("kind", "new_ids"), [("generated", {1, 2}), ("list", set())])
def test_only_codes_of_a_generated_book_are_new_when_they_are_fetched(kind, new_ids):
    coupon_state = state_with_supply(coupon(), coupon(2, "B"), type=kind)
    assert coupon_state.coupon_to_assign(ANA, coupon_state.books[12], None, ONE).code == "A"
    assert coupon_state.new_coupon_ids == new_ids
    assert coupon_state.original_coupons.keys() == {1, 2} - new_ids


def test_a_free_code_that_is_assigned_used_or_locked_is_skipped():
    in_a_minute = NOW + timedelta(minutes=1)
    coupon_state = state_with_supply(
        coupon(1, total_assigned=ONE),
        coupon(2, total_usages=ONE),
        coupon(3, locked_until=in_a_minute),
        coupon(4),
        type="list",
    )
    assert coupon_state.coupon_to_assign(ANA, coupon_state.books[12], None, ONE).coupon_id == 4


def test_a_code_that_was_locked_until_now_is_free():
    coupon_state = state_with_supply(coupon(locked_until=NOW), type="list")
    assert coupon_state.coupon_to_assign(ANA, coupon_state.books[12], None, ONE).coupon_id == 1


def test_the_first_free_code_that_was_loaded_is_assigned_if_no_further_code_is_free():
    coupon_state = state(coupon(3), coupon(2, "B"), coupon(1, total_assigned=ONE), type="list")
    coupon_state.put_coupons([coupon(4, coupon_book_id=13, position=1)])
    book = coupon_state.books[12]
    first = coupon_state.coupon_to_assign(ANA, book, None, ONE)
    assign(coupon_state, ANA, first, ONE)
    second = coupon_state.coupon_to_assign(BEN, book, None, ONE)
    assign(coupon_state, BEN, second, ONE)
    assert [first.coupon_id, second.coupon_id] == [2, 3]
    with pytest.raises(OutOfStock):
        coupon_state.coupon_to_assign(BEN, book, None, ONE)


def lot(number, *, expires_in=None, **values):
    """A lot of one coupon of Ana's, which expires in so many days."""
    expired_at = None if expires_in is None else NOW + timedelta(days=expires_in)
    return replace(
        CouponLot(
            organization_id=1,
            coupon_lot_id=number,
            member_id=ANA,
            coupon_id=1,
            coupon_book_id=12,
            amount=ONE,
            amount_used=ZERO,
            amount_owed=ZERO,
            value=None,
            remaining_value=None,
            custom_attributes={},
            expired_at=expired_at,
            created_at=NOW,
            updated_at=NOW,
        ),
        **values,
    )


def test_the_next_lot_is_a_stored_lot_or_a_new_one_of_the_unit_of_work():
    coupon_state = state_with_supply(lots=[lot(5, expires_in=3)])
    coupon_state.store_lot(lot(-1, expires_in=2))
    of_book = LotRange(12, None, with_expired=False)
    assert coupon_state.next_lot(ANA, of_book, 1).coupon_lot_id == -1
    coupon_state.store_lot(lot(-1, expires_in=2, amount_used=ONE))
    assert coupon_state.next_lot(ANA, of_book, 1).coupon_lot_id == 5
    coupon_state.store_lot(lot(5, expires_in=3, amount_used=ONE))
    assert coupon_state.next_lot(ANA, of_book, 1) is None


def test_a_member_has_the_expiry_and_data_of_the_last_lot_unless_all_of_it_was_reversed():
    coupon_state = state(coupon(), type="single")
    for amount, amount_used, is_reversed in (
        (ONE, ZERO, False),
        (ONE, ONE, False),
        (ZERO, ONE, False),
        (ZERO, ZERO, True),
    ):
        last_lot = lot(8, expires_in=1, amount=amount, amount_used=amount_used, custom_attributes={"seat": 4})
        member_coupon = coupon_state.add_amounts(ANA, coupon(), assigned_amount=ZERO, used_amount=ZERO, lot=last_lot)
        assert member_coupon.expired_at == (None if is_reversed else NOW + timedelta(days=1))
        assert member_coupon.custom_attributes == ({} if is_reversed else {"seat": 4})


def test_a_code_is_assigned_up_to_its_maximum():
    assigned_coupon = coupon(total_assigned=Decimal(3))
    coupon_state = state(assigned_coupon, type="single", max_assigned_per_coupon=5)
    book = coupon_state.books[12]
    assert coupon_state.coupon_to_assign(ANA, book, None, Decimal(2)) == assigned_coupon
    with pytest.raises(OutOfStock, match=r"A code may be assigned 5 times, and this one has been assigned 3 times\."):
        coupon_state.coupon_to_assign(ANA, book, None, Decimal(3))
    # A codeless book has no code, so the limit of a code does not apply.
    codeless = state(coupon(code=None, total_assigned=Decimal(9)), type="codeless", max_assigned_per_coupon=5)
    assert codeless.coupon_to_assign(ANA, codeless.books[12], None, ONE).coupon_id == 1


def test_a_code_of_a_list_belongs_to_one_member():
    coupon_state = state(coupon(), type="list")
    book = coupon_state.books[12]
    assign(coupon_state, ANA, coupon(), ONE)
    assert coupon_state.coupon_to_assign(ANA, book, coupon_state.coupons[1], ONE).coupon_id == 1
    with pytest.raises(CodeHeld, match=r"The code A was given to another member\."):
        coupon_state.coupon_to_assign(BEN, book, coupon_state.coupons[1], ONE)
    with pytest.raises(CodeHeld):
        state(coupon(total_usages=ONE), type="list").coupon_to_assign(BEN, book, coupon(), ONE)
    single = state(coupon(total_assigned=ONE), type="single")
    assert single.coupon_to_assign(BEN, single.books[12], single.coupons[1], ONE).coupon_id == 1


def test_a_movement_changes_the_totals_of_the_member_the_coupon_and_the_book():
    coupon_state = state(coupon())
    coupon_state.put_totals({(ANA, 12): UsageTotals(assigned=Decimal(2), used=Decimal(4))})
    assign(coupon_state, ANA, coupon(), Decimal(3), used_amount=ONE)
    member_coupon = assign(coupon_state, ANA, coupon(), -ONE)
    assert (member_coupon.amount_assigned, member_coupon.amount_used) == (3 - 1, 1)
    # Its id is 0 until it is stored.
    assert (member_coupon.member_coupon_id, member_coupon.organization_id) == (0, 1)
    assert (member_coupon.coupon_book_id, member_coupon.custom_attributes) == (12, {})
    assert (member_coupon.created_at, member_coupon.updated_at) == (NOW, NOW)
    assert (coupon_state.coupons[1].total_assigned, coupon_state.coupons[1].total_usages) == (3 - 1, 1)
    assert (coupon_state.books[12].total_assigned, coupon_state.books[12].total_usages) == (3 - 1, 1)
    # The book has no limit of uses, so its uses do not count.
    assert coupon_state.totals(ANA, 12) == UsageTotals(assigned=Decimal(2 + 3 - 1), used=Decimal(4))
    assert coupon_state.totals(BEN, 12) == UsageTotals()


DAILY = {"max_usages_per_period": 5, "usage_period_type": "daily"}
MONTHLY = {"max_discount_per_period": Decimal(9), "discount_period_type": "monthly"}
MIDNIGHT = NOW.replace(hour=0)


@pytest.mark.parametrize(
    ("settings", "used_at", "totals"),
    [
        ({}, NOW, UsageTotals()),
        (DAILY, NOW, UsageTotals(used=ONE)),
        (DAILY, MIDNIGHT, UsageTotals(used=ONE)),
        (DAILY, MIDNIGHT - timedelta(microseconds=1), UsageTotals()),
        (MONTHLY, NOW, UsageTotals(discounted=Decimal(7))),
        (MONTHLY, NOW.replace(day=1, hour=0), UsageTotals(discounted=Decimal(7))),
        (MONTHLY, NOW.replace(month=1), UsageTotals()),
        (DAILY | MONTHLY, NOW.replace(day=5), UsageTotals(discounted=Decimal(7))),
        (DAILY | MONTHLY, NOW, UsageTotals(used=ONE, discounted=Decimal(7))),
    ],
)
def test_a_use_counts_in_the_periods_in_which_it_took_place(settings, used_at, totals):
    coupon_state = state(**settings)
    # One use with a discount of 7.
    coupon_state.count_use(ANA, coupon_state.books[12], ONE, Decimal(7), used_at)
    assert coupon_state.totals(ANA, 12) == totals
    coupon_state.count_use(ANA, coupon_state.books[12], -ONE, Decimal(-7), used_at)
    assert coupon_state.totals(ANA, 12) == UsageTotals()


def test_changes_are_returned_only_once():
    coupon_state = state(coupon(2, "B"), coupon(1, "A"))
    coupon_state.put_coupons([coupon(3, "C")], are_new=True)
    for number in (2, 1, 3):
        assign(coupon_state, ANA, coupon_state.coupons[number], ONE)
    changes = coupon_state.take_changes()
    assert [changed_coupon.coupon_id for changed_coupon in changes.coupons] == [1, 2, 3]
    assert [member_coupon.coupon_id for member_coupon in changes.member_coupons] == [1, 2, 3]
    assert [book.coupon_book_id for book in changes.books] == [12]
    assert changes.new_coupon_ids == {3}
    assert changes.original_coupons.keys() == {1, 2}
    assert changes.original_books[12].total_assigned == 0
    later_changes = coupon_state.take_changes()
    assert (later_changes.books, later_changes.coupons, later_changes.member_coupons) == ([], [], [])
    assert later_changes.new_coupon_ids == frozenset()


def test_a_lot_that_is_loaded_again_keeps_its_state():
    coupon_state = state(coupon())
    coupon_state.put_lots([lot(8)])
    assert coupon_state.lots == {8: lot(8)}
    coupon_state.put_lots([lot(8, amount=Decimal(5)), lot(9)])
    assert {number: stored_lot.amount for number, stored_lot in coupon_state.lots.items()} == {8: 1, 9: 1}
