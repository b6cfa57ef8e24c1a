"""Locks of coupons: how long they keep a coupon, and when they have ended."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from domain.coupons.locks import CouponLock, CouponLockEnded, end_of_lock, refuse_ended
from domain.problems import InvalidRequest

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)
MADRID = ZoneInfo("Europe/Madrid")


def lock(**values):
    """A lock that ends half an hour after now."""
    plain = dict.fromkeys(field.name for field in fields(CouponLock))
    return CouponLock(**plain | {"coupon_lock_key": "k", "expires_at": NOW + timedelta(minutes=30)} | values)


@pytest.mark.parametrize(
    ("valid_for", "end"),
    [
        (None, NOW + timedelta(minutes=30)),
        ("PT1S", NOW + timedelta(seconds=1)),
        ("PT168H", NOW + timedelta(days=7)),
        # Clocks are set by an hour in the night after.
        ("P7D", NOW + timedelta(days=7, hours=-1)),
    ],
)
def test_a_lock_ends_after_its_time(valid_for, end):
    assert end_of_lock(valid_for, NOW, MADRID) == end


@pytest.mark.parametrize("valid_for", ["PT0S", "PT168H1S", "P8D", "P1M", "soon"])
def test_an_invalid_time_of_a_lock_is_refused(valid_for):
    with pytest.raises(InvalidRequest) as refusal:
        end_of_lock(valid_for, NOW, MADRID)
    assert [fault.pointer for fault in refusal.value.faults] == ["/validFor"]


def test_a_lock_is_active_until_it_is_ended_or_its_time_is_over():
    end = lock().expires_at
    assert lock().is_active(end - timedelta(microseconds=1))
    assert not lock().is_active(end)
    assert not lock().is_active(end + timedelta(hours=1))
    assert not lock(ended_at=NOW).is_active(NOW)
    refuse_ended(lock(), NOW)
    with pytest.raises(CouponLockEnded):
        refuse_ended(lock(), end)


def test_a_lock_without_a_lot_keeps_something_of_the_stock():
    assert lock().reserves_stock
    assert not lock(coupon_lot_id=1).reserves_stock
