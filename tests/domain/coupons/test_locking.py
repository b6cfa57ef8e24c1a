"""Locked coupons: the coupon or stock that a lock keeps for its member, and its release.

A lock with `auto_assign` keeps a coupon of the stock, which its use assigns; without it, one that the member has.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from domain.coupons.locks import CouponLocked, CouponLockEnded
from domain.coupons.refusals import OutOfStock, QuotaReached, UsageLimitReached
from domain.coupons.usages import CodeHeld, CouponExpired, CouponNotAssigned
from tests.builders.coupon_service import ANA, BEN, NOW, Shop, shared_coupon

HALF_AN_HOUR = timedelta(minutes=30)


def codeless(**settings):
    """A shop whose book has one coupon without a code, for all members."""
    shop = Shop(type="codeless", **settings)
    shop.state.put_coupons([shop.coupon(1, None)])
    return shop


def test_a_lock_keeps_the_coupon_that_the_member_has():
    shop = Shop()
    assignment = shop.assign()
    lock = shop.lock()
    assert (lock.coupon_id, lock.coupon_lot_id, lock.reserves_stock) == (1, assignment.coupon_lot_id, False)
    assert (lock.member_id, lock.coupon_book_id, lock.organization_id) == (1, 12, 1)
    assert (lock.coupon_lock_id, lock.coupon_lock_key, lock.system_unique_key) == (1, "lock-key-1", "lock-1")
    assert (lock.expires_at, lock.ended_at, lock.created_at) == (NOW + HALF_AN_HOUR, None, NOW)
    for coupon in (None, shop.state.coupons[1]):
        with pytest.raises(CouponLocked, match=r"The coupon of the coupon book Free coffee is locked\."):
            shop.use(coupon=coupon)
    [use] = shop.use_locked(lock)
    assert (use.coupon_id, use.amount_used) == (1, 1)


def test_a_lock_keeps_one_of_several_coupons():
    shop = shared_coupon()
    shop.assign(amount=Decimal(3))
    lock = shop.lock()
    assert len(shop.use(amount=Decimal(2))) == 2
    with pytest.raises(CouponLocked):
        shop.use()
    assert len(shop.use_locked(lock)) == 1


def test_the_lot_that_is_not_locked_is_used():
    shop = Shop()
    assignment_for_a_day = shop.assign(expires_at=NOW + timedelta(days=1))
    assignment_for_two_days = shop.assign(expires_at=NOW + timedelta(days=2))
    assert shop.lock().coupon_lot_id == assignment_for_a_day.coupon_lot_id
    [use] = shop.use()
    assert use.coupon_lot_id == assignment_for_two_days.coupon_lot_id


class CountedLocks(dict):
    """The locks of a state, which counts how often all of them are read."""

    readings = 0

    def values(self):
        self.readings += 1
        return super().values()


@pytest.mark.parametrize("count", [2, 40])
def test_a_use_reads_all_locks_twice_however_many_lots_are_locked(count):
    shop = shared_coupon()
    shop.state.locks = CountedLocks()
    lot_ids = [shop.assign().coupon_lot_id for _ in range(count + 1)]
    locked_ids = [shop.lock().coupon_lot_id for _ in range(count)]
    shop.state.locks.readings = 0
    [use] = shop.use()
    assert {use.coupon_lot_id, *locked_ids} == {*lot_ids}
    # Once for the limit of uses, and once for the free lot.
    assert shop.state.locks.readings == 2


def test_a_lock_of_one_member_does_not_prevent_uses_of_another():
    shop = shared_coupon()
    shop.assign(ANA)
    shop.assign(BEN)
    shop.lock(ANA)
    assert len(shop.use(BEN)) == 1
    with pytest.raises(CouponLocked):
        shop.use(ANA)


def test_a_lock_of_one_code_does_not_prevent_uses_of_other_codes():
    shop = Shop()
    free_coupon, locked_coupon = (shop.state.coupons[shop.assign().coupon_id] for _ in range(2))
    lock = shop.lock(coupon=locked_coupon)
    assert lock.coupon_id == locked_coupon.coupon_id
    with pytest.raises(CouponLocked):
        shop.use(coupon=locked_coupon)
    [use] = shop.use(coupon=free_coupon)
    assert use.coupon_id == free_coupon.coupon_id
    # It is used up now, and none of it is locked.
    with pytest.raises(CouponNotAssigned):
        shop.use(coupon=free_coupon)


def test_a_lock_needs_a_coupon_that_has_not_expired():
    shop = Shop()
    with pytest.raises(CouponNotAssigned):
        shop.lock()
    shop.assign(expires_at=NOW)
    with pytest.raises(CouponExpired):
        shop.lock()


def test_a_lock_of_the_stock_keeps_a_code_until_its_use_assigns_it():
    shop = Shop()
    lock = shop.lock(auto_assign=True)
    assert (lock.coupon_id, lock.coupon_lot_id, lock.reserves_stock) == (1, None, True)
    assert shop.state.books[12].total_assigned == 0
    # The next assignment gets the second code.
    assert shop.assign(BEN).coupon_id == 2
    with pytest.raises(CouponLocked, match=r"The code C-1 is locked\."):
        shop.assign(BEN, coupon=shop.state.coupons[1])
    with pytest.raises(CouponLocked):
        shop.use(coupon=shop.state.coupons[1], auto_assign=True)
    [use] = shop.use_locked(lock)
    assert use.coupon_id == 1
    # One coupon of Ben, and the one that the use has assigned.
    assert shop.state.books[12].total_assigned == 1 + 1


def test_a_member_with_a_locked_code_is_assigned_another_code():
    shop = Shop()
    shop.lock(auto_assign=True)
    [use] = shop.use(auto_assign=True)
    assert use.coupon_id == 2
    with pytest.raises(CouponLocked):
        shop.use()
    # A book with one shared code has no other code.
    shop_of_one_code = shared_coupon()
    shop_of_one_code.lock(auto_assign=True)
    with pytest.raises(CouponLocked):
        shop_of_one_code.use(auto_assign=True)


def test_a_code_is_free_when_its_lock_is_released():
    shop = Shop()
    lock = shop.lock(auto_assign=True)
    assert shop.state.coupons[1].locked_until == NOW + HALF_AN_HOUR
    shop.service.end_lock(lock)
    assert shop.state.coupons[1].locked_until is None
    assert shop.assign(BEN, coupon=shop.state.coupons[1]).coupon_id == 1


def test_a_lock_is_ended_once_and_leaves_the_coupon_usable():
    shop = Shop()
    shop.assign()
    lock = shop.lock()
    ended_lock = shop.service.end_lock(lock)
    assert (ended_lock.ended_at, ended_lock.updated_at) == (NOW, NOW)
    with pytest.raises(CouponLockEnded):
        shop.service.end_lock(lock)
    assert len(shop.use()) == 1


def test_a_lock_whose_time_is_over_keeps_nothing():
    shop = Shop()
    shop.assign()
    lock = shop.lock(ends_in=timedelta(0))
    with pytest.raises(CouponLockEnded):
        shop.service.end_lock(lock)
    assert len(shop.use()) == 1


def test_locks_count_against_the_stock():
    shop = codeless(max_coupon_count=3)
    assert shop.state.stock_left(shop.book) == 3
    lock = shop.lock(ANA, auto_assign=True)
    shop.lock(BEN, auto_assign=True)
    assert shop.state.stock_left(shop.book) == 3 - 2
    with pytest.raises(OutOfStock):
        shop.assign(BEN, amount=Decimal(2))
    shop.assign(BEN)
    with pytest.raises(OutOfStock):
        shop.assign(BEN)
    # The use assigns the coupon that its lock has kept.
    assert len(shop.use_locked(lock)) == 1
    assert shop.state.stock_left(shop.book) == 0


def test_a_released_lock_gives_its_coupon_back_to_the_stock():
    shop = codeless(max_coupon_count=1)
    shop.service.end_lock(shop.lock(auto_assign=True))
    assert shop.state.stock_left(shop.book) == 1
    # The coupon of the member is no longer part of the stock.
    shop.assign()
    shop.service.end_lock(shop.lock())
    assert shop.state.stock_left(shop.book) == 0


def test_a_lock_counts_against_the_stock_of_a_single_code():
    shop = shared_coupon(max_coupon_count=5)
    shop.lock(auto_assign=True)
    assert shop.state.stock_left(shop.book) == 5 - 1


def test_locks_count_against_the_assignments_of_a_shared_code():
    """Two assignments and a lock reach the maximum of 3."""
    shop = shared_coupon(max_assigned_per_coupon=3)
    shop.assign()
    shop.lock(BEN, auto_assign=True)
    shop.assign()
    with pytest.raises(OutOfStock):
        shop.assign()


def test_locks_of_other_codes_do_not_count_against_the_maximum_of_a_code():
    shop = Shop(max_assigned_per_coupon=1)
    shop.lock(auto_assign=True)
    with pytest.raises(OutOfStock):
        shop.assign(BEN, amount=Decimal(2))
    assert shop.assign(BEN).coupon_id == 2


def test_a_lock_counts_against_the_quota_only_if_it_reserves_stock():
    """Two assignments and the lock of the stock reach the maximum of 3; the first lock is of an assigned coupon."""
    shop = Shop(max_assigned_per_member=3)
    shop.assign()
    shop.lock()
    shop.lock(auto_assign=True)
    shop.assign()
    with pytest.raises(QuotaReached, match=r"A member may have 3 of the coupon book, and this one has had 3\."):
        shop.assign()
    assert shop.assign(BEN).amount_assigned == 1


def test_locks_count_against_the_uses_in_a_period():
    """A lock and a use reach the maximum of 2 a day."""
    shop = shared_coupon(max_usages_per_period=2, usage_period_type="daily")
    shop.assign(amount=Decimal(9))
    lock = shop.lock()
    shop.use()
    with pytest.raises(UsageLimitReached):
        shop.use()
    with pytest.raises(UsageLimitReached):
        shop.lock()
    assert len(shop.use_locked(lock)) == 1


def test_a_book_stores_the_end_of_its_longest_lock():
    shop = shared_coupon()
    shop.assign(amount=Decimal(3))
    for hours in (1, 3, 2):
        shop.lock(ends_in=timedelta(hours=hours))
    assert shop.state.books[12].locked_until == NOW + timedelta(hours=3)
    # The book is loaded again; another unit of work may have stored a later end since, or none.
    for stored_hours, latest_hours in ((5, 5), (None, 3)):
        stored_end = None if stored_hours is None else NOW + timedelta(hours=stored_hours)
        other_shop = Shop()
        other_shop.state.put_book(replace(shop.book, locked_until=NOW + timedelta(hours=3)))
        other_shop.state.put_book(replace(shop.book, locked_until=stored_end))
        assert other_shop.state.books[12].locked_until == NOW + timedelta(hours=latest_hours)


def test_a_named_code_of_another_member_is_not_locked():
    shop = Shop()
    code = shop.state.coupons[shop.assign(BEN).coupon_id]
    with pytest.raises(CodeHeld):
        shop.lock(coupon=code, auto_assign=True)


def test_a_loaded_lock_that_is_ended_stays_ended_and_is_stored_with_its_use():
    shop = codeless(max_coupon_count=9)
    stored_lock = replace(shop.lock(auto_assign=True), coupon_lock_id=7)
    shop.state.take_changes()
    # Book 12 has 4 active locks.
    shop.state.put_locks([stored_lock], {12: 4})
    assert shop.state.stock_left(shop.book) == 9 - 4
    ended_lock, usage_id = shop.service.end_lock(stored_lock), 33
    shop.state.link_lock(ended_lock, usage_id)
    # The same lock is loaded a second time, and is still ended.
    shop.state.put_locks([stored_lock], {12: 4})
    assert shop.state.stock_left(shop.book) == 9 - 3
    [changed_lock] = shop.state.take_changes().locks
    assert (changed_lock.coupon_lock_id, changed_lock.ended_at, changed_lock.coupon_usage_id) == (7, NOW, usage_id)
