"""Locks of coupons, which reserve coupons for members who are about to use them."""

from domain.coupons.books import CouponBook
from domain.coupons.locks import CouponLock
from domain.members import Member
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.operation import operation
from handlers.schemas.coupon_locks import LOCK
from handlers.services.coupons.lock import LockRequest, LockView, lock_coupon, release_lock

_LOCK_RESPONSE = wrapped("couponLock", LOCK)


@operation("lockCoupon", response=_LOCK_RESPONSE, audit="coupon-lock")
def lock(call: Call, member: Member, book: CouponBook, body: LockRequest) -> LockView:
    """Reserve a coupon for the member until the lock ends."""
    return lock_coupon(call, member, book, body)


@operation("releaseCouponLock", response=_LOCK_RESPONSE, audit="coupon-lock")
def release(call: Call, coupon_lock: CouponLock) -> LockView:
    """End a lock without a use."""
    return release_lock(call, coupon_lock)
