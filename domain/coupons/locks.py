"""Locks of coupons: until a moment, a coupon is reserved for a member who is about to use it."""

from dataclasses import dataclass
from datetime import datetime

from domain.fields import Internal, Key, Personal
from domain.problems import Conflict, NotFound

DEFAULT_VALIDITY, MAX_VALIDITY = "PT30M", "P7D"


@dataclass(frozen=True, slots=True)
class CouponLock:
    """A lock of one use of a coupon, which ends at `expires_at`, or at `ended_at` by its use or its release.

    It reserves a coupon of the member's lot `coupon_lot_id`, or if this is None, a coupon of the stock, which is
    assigned when the lock is used.
    """

    organization_id: int
    coupon_lock_id: int
    coupon_lock_key: Key
    member_id: int
    coupon_book_id: int
    coupon_id: int
    coupon_lot_id: int | None
    coupon_usage_id: int | None
    system_unique_key: str
    request_digest: Personal[Internal[bytes | None]]
    expires_at: datetime
    ended_at: datetime | None
    created_at: datetime
    updated_at: datetime

    def is_active(self, at: datetime) -> bool:
        """True while the lock reserves its coupon."""
        return self.ended_at is None and at < self.expires_at

    @property
    def reserves_stock(self) -> bool:
        """True if a use of the lock assigns the coupon first."""
        return self.coupon_lot_id is None


class UnknownCouponLock(NotFound, title="The coupon lock does not exist"):
    """The member has no such lock of the coupon book."""


class CouponLocked(Conflict, title="The coupon is locked"):
    """The coupon is reserved for a use that names its lock."""


class CouponLockEnded(Conflict, title="The coupon lock has ended"):
    """The lock has ended by time, or was used or released."""


def refuse_ended(lock: CouponLock, at: datetime) -> None:
    """Raise CouponLockEnded for a lock that no longer reserves its coupon."""
    if not lock.is_active(at):
        raise CouponLockEnded(f"The coupon lock {lock.coupon_lock_key} has ended.")
