"""Locks of coupons."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection

from domain.coupons.locks import CouponLock
from persistence.records import Records
from persistence.tables.coupons import coupon_locks

LOCKS = Records(coupon_locks, CouponLock)

_RELEASE = """
WITH released AS (
    UPDATE coupon_locks SET ended_at = %s, updated_at = %s
    WHERE organization_id = %s AND coupon_lock_id = ANY(%s) AND ended_at IS NULL
    RETURNING coupon_id
)
UPDATE coupons c SET locked_until = NULL FROM released r
WHERE c.organization_id = %s AND c.coupon_id = r.coupon_id AND c.locked_until IS NOT NULL
"""


def find_by_keys(db: Connection, organization_id: int, keys: Collection[str]) -> dict[str, CouponLock]:
    """The locks with these keys, by key."""
    return {lock.coupon_lock_key: lock for lock in LOCKS.find_all(db, organization_id, coupon_lock_key=keys)}


def find_active_locks(
    db: Connection, organization_id: int, member_ids: Collection[int], at: datetime
) -> list[CouponLock]:
    """The locks of members that reserve a coupon at the moment `at`: neither ended nor expired."""
    t = coupon_locks.c
    return LOCKS.find_where(db, organization_id, t.member_id.in_(member_ids), t.ended_at.is_(None), t.expires_at > at)


def release(db: Connection, organization_id: int, lock_ids: Collection[int], at: datetime) -> None:
    """End locks, so that their codes are free for other members."""
    db.exec_driver_sql(_RELEASE, (at, at, organization_id, list(lock_ids), organization_id))
