"""Locks of coupons: how long they keep a coupon, and when they have ended."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from domain.coupons.locks import CouponLock, CouponLockEnded, refuse_ended

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)
MADRID = ZoneInfo("Europe/Madrid")


def lock(**values):
    """A lock that ends half an hour after now."""
    plain = dict.fromkeys(field.name for field in fields(CouponLock))
    return CouponLock(**plain | {"coupon_lock_key": "k", "expires_at": NOW + timedelta(minutes=30)} | values)


def test_a_lock_is_active_until_it_is_ended_or_its_time_is_over():
    end = lock().expires_at
    assert lock().is_active(end - timedelta(microseconds=1))
    assert not lock().is_active(end)
    assert not lock().is_active(end + timedelta(hours=1))
    assert not lock(ended_at=NOW).is_active(NOW)
    refuse_ended(lock(), NOW)
    with pytest.raises(CouponLockEnded):
        refuse_ended(lock(), end)


def test_a_lock_without_a_lot_reserves_stock():
    assert lock().reserves_stock
    assert not lock(coupon_lot_id=1).reserves_stock
