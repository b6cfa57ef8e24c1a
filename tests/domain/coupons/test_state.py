"""Books, codes and members' coupons in one unit of work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.coupons.books import Coupon, UnknownCoupon
from domain.coupons.lots import CouponLot, LotRange
from domain.coupons.refusals import OutOfStock
from domain.coupons.state import CouponState, UsageTotals
from domain.coupons.usages import CodeHeld
from tests.builders.coupon_values import coupon_book

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
ANA, BEN = 1, 2
ONE, ZERO = Decimal(1), Decimal(0)


class Nothing:
    """A source of no lots and no codes."""

    member_ids = ()

    def lots(self, among, after, limit):
        return []

    def more(self, book):
        return []


def coupon(number=1, code="A", **values):
    return replace(Coupon(1, number, 12, number, code, ZERO, ZERO, {}, None, None, NOW, NOW), **values)


def state(*coupons, **settings):
    opened = CouponState(NOW, Nothing())
    opened.put_book(coupon_book(**settings))
    opened.put_coupons(coupons)
    return opened


def test_a_book_that_was_locked_keeps_what_the_work_has_changed():
    opened = state(coupon(), type="single", coupon_count=1, total_assigned=Decimal(4), total_usages=Decimal(2))
    opened.move(ANA, coupon(), Decimal(3), ONE, None)
    locked = coupon_book(type="single", name="New name", total_assigned=Decimal(10), total_usages=Decimal(5))
    opened.put_book(locked)
    book = opened.books[12]
    assert (book.name, book.total_assigned, book.total_usages) == ("New name", 13, 6)
    assert opened.original_books[12] == locked


def test_a_coupon_that_is_present_keeps_its_state():
    opened = state(coupon())
    opened.move(ANA, coupon(), ONE, ZERO, None)
    opened.put_coupons([coupon()])
    assert opened.coupons[1].total_assigned == 1


def test_what_members_have_is_read_once():
    opened = state(coupon())
    held = opened.move(ANA, coupon(), ONE, ZERO, None)
    opened.put_member_coupons([replace(held, amount_assigned=Decimal(9))])
    assert opened.member_coupons[ANA, 1].amount_assigned == 1
    opened.put_member_coupons([replace(held, member_id=BEN, amount_assigned=Decimal(9))])
    assert opened.move(BEN, coupon(), ONE, ZERO, None).amount_assigned == 10


def test_only_a_loaded_book_has_a_coupon_for_all():
    opened = CouponState(NOW, Nothing())
    opened.put_coupons([coupon()])
    assert (opened.coupons.keys(), opened.shared) == ({1}, {})
    assert state(coupon(), type="single").shared == {12: 1}


def test_a_code_is_found_in_its_book():
    opened = state(coupon())
    assert opened.by_code(opened.books[12], "A").coupon_id == 1
    with pytest.raises(UnknownCoupon, match=r"The coupon book Free coffee has no code B\."):
        opened.by_code(opened.books[12], "B")


def test_the_coupon_for_all_is_assigned_unless_there_is_none():
    opened = state(coupon(), type="single")
    assert opened.to_assign(ANA, opened.books[12], None, ONE).coupon_id == 1
    empty = state(type="single")
    with pytest.raises(OutOfStock, match=r"The coupon book Free coffee has no code yet\."):
        empty.to_assign(ANA, empty.books[12], None, ONE)


def test_a_list_without_free_codes_is_out_of_stock():
    opened = state(type="list")
    with pytest.raises(OutOfStock, match=r"All codes of the coupon book Free coffee are assigned\."):
        opened.to_assign(ANA, opened.books[12], None, ONE)


def supplied(*codes, lots=(), **settings):
    """A state whose supply has these codes, and these lots of members."""

    class Stored(Nothing):
        def lots(self, among, after, limit):
            return [lot for lot in lots if after.get(lot.member_id) is None and lot.member_id in after]

        def more(self, book):
            return [code for code in codes if code.coupon_id not in opened.coupons]

    opened = CouponState(NOW, Stored())
    opened.put_book(coupon_book(**settings))
    return opened


@pytest.mark.parametrize(("kind", "new"), [("generated", {1, 2}), ("list", set())])
def test_only_codes_of_a_generated_book_are_new_when_they_are_fetched(kind, new):
    opened = supplied(coupon(), coupon(2, "B"), type=kind)
    assert opened.to_assign(ANA, opened.books[12], None, ONE).code == "A"
    assert (opened.new_coupons, opened.original_coupons.keys()) == (new, {1, 2} - new)


def test_a_free_code_that_is_assigned_used_or_locked_is_skipped():
    later = NOW + timedelta(minutes=1)
    opened = supplied(
        coupon(1, total_assigned=ONE),
        coupon(2, total_usages=ONE),
        coupon(3, locked_until=later),
        coupon(4),
        type="list",
    )
    assert opened.to_assign(ANA, opened.books[12], None, ONE).coupon_id == 4


def test_a_code_that_was_locked_until_now_is_free():
    opened = supplied(coupon(locked_until=NOW), type="list")
    assert opened.to_assign(ANA, opened.books[12], None, ONE).coupon_id == 1


def lot(number, expires_in=None, **values):
    """A lot of one coupon of Ana's."""
    expired_at = None if expires_in is None else NOW + timedelta(days=expires_in)
    return replace(CouponLot(1, number, ANA, 1, 12, ONE, ZERO, ZERO, None, None, {}, expired_at, NOW, NOW), **values)


def test_the_next_lot_is_found_among_stored_ones_and_those_of_the_work():
    opened = supplied(lots=[lot(5, expires_in=3)])
    opened.keep_lot(lot(-1, expires_in=2))
    of_book = LotRange(12, None, with_expired=False)
    assert opened.next_lot(ANA, of_book, 1).coupon_lot_id == -1
    opened.keep_lot(lot(-1, expires_in=2, amount_used=ONE))
    assert opened.next_lot(ANA, of_book, 1).coupon_lot_id == 5
    opened.keep_lot(lot(5, expires_in=3, amount_used=ONE))
    assert opened.next_lot(ANA, of_book, 1) is None


def test_a_member_has_the_expiry_and_data_of_the_last_lot_unless_all_of_it_was_reversed():
    opened = state(coupon(), type="single")
    for amount, used, expected in (
        (ONE, ZERO, lot(8, 1).expired_at),
        (ONE, ONE, lot(8, 1).expired_at),
        (ZERO, ONE, lot(8, 1).expired_at),
        (ZERO, ZERO, None),
    ):
        last = lot(8, expires_in=1, amount=amount, amount_used=used, custom_attributes={"seat": 4})
        held = opened.move(ANA, coupon(), ZERO, ZERO, last)
        assert (held.expired_at, held.custom_attributes) == (expected, {} if expected is None else {"seat": 4})


def test_a_code_is_assigned_so_many_times():
    taken = coupon(total_assigned=Decimal(3))
    opened = state(taken, type="single", max_assigned_per_coupon=5)
    book = opened.books[12]
    assert opened.to_assign(ANA, book, None, Decimal(2)) == taken
    with pytest.raises(OutOfStock, match=r"A code may be assigned 5 times, and this one has been 3 times\."):
        opened.to_assign(ANA, book, None, Decimal(3))
    # A codeless book has no code that the limit is about.
    codeless = state(coupon(code=None, total_assigned=Decimal(9)), type="codeless", max_assigned_per_coupon=5)
    assert codeless.to_assign(ANA, codeless.books[12], None, ONE).coupon_id == 1


def test_a_code_of_a_list_belongs_to_one_member():
    opened = state(coupon(), type="list")
    book = opened.books[12]
    opened.move(ANA, coupon(), ONE, ZERO, None)
    assert opened.to_assign(ANA, book, opened.coupons[1], ONE).coupon_id == 1
    with pytest.raises(CodeHeld, match=r"The code A was given to another member\."):
        opened.to_assign(BEN, book, opened.coupons[1], ONE)
    with pytest.raises(CodeHeld):
        opened.to_assign(BEN, book, coupon(total_usages=ONE), ONE)
    single = state(coupon(total_assigned=ONE), type="single")
    assert single.to_assign(BEN, single.books[12], single.coupons[1], ONE).coupon_id == 1


def test_a_movement_adds_to_the_member_the_coupon_and_the_book():
    opened = state(coupon())
    opened.put_totals({(ANA, 12): UsageTotals(assigned=Decimal(2), used=Decimal(4))})
    opened.move(ANA, coupon(), Decimal(3), ONE, None)
    held = opened.move(ANA, coupon(), -ONE, ZERO, None)
    assert (held.amount_assigned, held.amount_used, held.member_coupon_id, held.updated_at) == (2, 1, 0, NOW)
    assert (held.organization_id, held.coupon_book_id, held.created_at, held.custom_attributes) == (1, 12, NOW, {})
    assert (opened.coupons[1].total_assigned, opened.coupons[1].total_usages) == (2, 1)
    assert (opened.books[12].total_assigned, opened.books[12].total_usages) == (2, 1)
    assert opened.totals(ANA, 12) == UsageTotals(assigned=Decimal(4), used=Decimal(4))
    assert opened.totals(BEN, 12) == UsageTotals()


DAILY = {"max_usages_per_period": 5, "usage_period_type": "daily"}
MONTHLY = {"max_discount_per_period": Decimal(9), "discount_period_type": "monthly"}
MIDNIGHT = NOW.replace(hour=0)


@pytest.mark.parametrize(
    ("settings", "used_at", "had"),
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
def test_a_use_counts_in_the_periods_in_which_it_took_place(settings, used_at, had):
    opened = state(**settings)
    opened.count_use(ANA, opened.books[12], ONE, Decimal(7), used_at)
    assert opened.totals(ANA, 12) == had
    opened.count_use(ANA, opened.books[12], -ONE, Decimal(-7), used_at)
    assert opened.totals(ANA, 12) == UsageTotals()


def test_changes_are_taken_once():
    opened = state(coupon(2, "B"), coupon())
    opened.put_coupons([coupon(3, "C")], new=True)
    for number in (2, 1, 3):
        opened.move(ANA, opened.coupons[number], ONE, ZERO, None)
    changes = opened.take_changes()
    assert [each.coupon_id for each in changes.coupons] == [1, 2, 3]
    assert [each.coupon_id for each in changes.member_coupons] == [1, 2, 3]
    assert ([each.coupon_book_id for each in changes.books], changes.new_coupons) == ([12], {3})
    assert (changes.original_coupons.keys(), changes.original_books[12].total_assigned) == ({1, 2}, 0)
    again = opened.take_changes()
    assert (again.books, again.coupons, again.member_coupons, again.new_coupons) == ([], [], [], frozenset())


def test_a_lot_that_is_present_keeps_its_state():
    opened = state(coupon())
    opened.put_lots([lot(8)])
    assert opened.lots == {8: lot(8)}
    opened.put_lots([lot(8, amount=Decimal(5)), lot(9)])
    assert {number: each.amount for number, each in opened.lots.items()} == {8: 1, 9: 1}
