"""Lots are read in portions, only as far as the uses of a unit of work need them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from domain.coupons.lots import CouponLot, LotRange, LotReading, order_of_use

NOW = datetime(2026, 3, 29, tzinfo=UTC)
ANA, BEN = 1, 2
# The unexpired lots of all coupons of book 12.
BOOK = LotRange(12, None, with_expired=False)


def lot(number, *, member=ANA, coupon=5, expires_in=None, amount=1, used_amount=0, created_at=NOW):
    """An unused lot of one coupon that does not expire, unless `expires_in` is a number of days."""
    expired_at = None if expires_in is None else NOW + timedelta(days=expires_in)
    return CouponLot(
        organization_id=1,
        coupon_lot_id=number,
        member_id=member,
        coupon_id=coupon,
        coupon_book_id=12,
        amount=Decimal(amount),
        amount_used=Decimal(used_amount),
        amount_owed=Decimal(0),
        value=None,
        remaining_value=None,
        custom_attributes={},
        expired_at=expired_at,
        created_at=created_at,
        updated_at=created_at,
    )


class Store:
    """Lots of several members; `queries` has (ids of members, maximum number of lots of a member) of each query."""

    def __init__(self, *lots, member_ids=()):
        self.lots = sorted(lots, key=order_of_use)
        self.member_ids, self.queries = member_ids, []

    def find_lots(self, among, after, limit):
        """The next lots of each member after the last one that was read."""
        self.queries.append((sorted(after), limit))
        next_lots = []
        for member, last_lot in after.items():
            lots_of_member = [lot for lot in self.lots if lot.member_id == member]
            unread_lots = [
                lot for lot in lots_of_member if last_lot is None or order_of_use(lot) > order_of_use(last_lot)
            ]
            next_lots += unread_lots[:limit]
        return next_lots


def ids_in_order_of_use(*lots):
    """The ids of lots, that of the next one to use first."""
    return [sorted_lot.coupon_lot_id for sorted_lot in sorted(lots, key=order_of_use)]


def test_the_lot_that_expires_soonest_is_used_first_and_the_oldest_of_equals():
    yesterday = NOW - timedelta(days=1)
    lots = [lot(1), lot(2, expires_in=2), lot(3, expires_in=1), lot(4, expires_in=1, created_at=yesterday), lot(5)]
    assert ids_in_order_of_use(*lots) == [4, 3, 2, 1, 5]
    # Lots of a dry run have decreasing negative ids; stored lots are older.
    assert ids_in_order_of_use(lot(-2), lot(-1), lot(9)) == [9, -1, -2]


def test_a_range_has_lots_with_an_amount_left():
    assert BOOK.contains(lot(1), NOW)
    assert not BOOK.contains(lot(1, used_amount=1), NOW)
    assert not BOOK.contains(lot(1, expires_in=0), NOW)
    assert LotRange(12, None, with_expired=True).contains(lot(1, expires_in=0), NOW)
    range_of_one_coupon = LotRange(12, 5, with_expired=False)
    assert range_of_one_coupon.contains(lot(1), NOW)
    assert not range_of_one_coupon.contains(lot(1, coupon=6), NOW)


def test_each_reading_of_lots_has_eight_times_the_limit_of_the_one_before():
    store = Store(*(lot(number) for number in range(1, 1 + 29)))
    reading = LotReading(store)
    read_counts = [len(reading.read_more(ANA, BOOK, count=1)) for _ in range(3)]
    assert store.queries == [([ANA], 1), ([ANA], 8), ([ANA], 64)]
    # After the first 1 + 8 of the 29 lots, 20 remain.
    assert read_counts == [1, 8, 20]
    assert len(LotReading(store).read_more(ANA, BOOK, count=5)) == 5


def test_a_read_of_lots_covers_all_members_who_may_have_more():
    store = Store(lot(1), lot(2), lot(3, member=BEN), member_ids=(ANA, BEN))
    reading = LotReading(store)
    reading.read_more(ANA, BOOK, count=2)
    reading.read_more(ANA, BOOK, count=2)
    # The first query found only one lot of Ben, so he has no more.
    assert store.queries == [([ANA, BEN], 2), ([ANA], 8 * 2)]


def test_a_lot_is_the_next_to_use_if_all_earlier_lots_have_been_read():
    first_lot, second_lot = lot(1, expires_in=1), lot(2, expires_in=2)
    reading = LotReading(Store(first_lot, second_lot))
    # None is the end of all lots.
    assert not reading.precedes_unread_lots(ANA, BOOK, None)
    reading.read_more(ANA, BOOK, count=1)
    assert reading.precedes_unread_lots(ANA, BOOK, first_lot)
    assert not reading.precedes_unread_lots(ANA, BOOK, second_lot)
    assert not reading.precedes_unread_lots(ANA, BOOK, None)
    reading.read_more(ANA, BOOK, count=1)
    assert reading.precedes_unread_lots(ANA, BOOK, second_lot)
    assert reading.precedes_unread_lots(ANA, BOOK, None)
