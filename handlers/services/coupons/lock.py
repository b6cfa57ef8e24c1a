"""Locks coupons, and releases the locks."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from domain.coupons.books import BookTerms
from domain.coupons.commands import Lock
from domain.coupons.locks import DEFAULT_VALIDITY, MAX_VALIDITY, CouponLock
from domain.durations import end_of_validity
from domain.idempotency import ResultsByKey
from domain.members import Member
from handlers.call import Call
from handlers.messages.json_text import digest_of
from handlers.services.unit_of_work.requests import unit_of_work
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.coupons import locks
from persistence.coupons.codes import COUPONS
from persistence.coupons.locks import LOCKS

_LOCK_REASON, _RELEASE_REASON = "A coupon was locked by request.", "A coupon lock was released by request."
_ENTITY = "coupon-lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """The request to lock a coupon, by default for half an hour (`valid_for`)."""

    code: str | None = None
    auto_assign: bool = False
    valid_for: str | None = None
    system_unique_key: str


@dataclass(frozen=True, slots=True)
class LockView:
    """A lock in the form of the response."""

    coupon_lock_key: str
    code: str | None
    expires_at: datetime


def lock_coupon(call: Call, member: Member, book: BookTerms, request: LockRequest) -> LockView:
    """Lock a coupon of a book for a member; the same request under the same key returns the first response.

    Raises CouponLocked, KeyReused, InvalidRequest for an impossible `valid_for`, or a refusal of a use.
    """
    # The default time has the same meaning as a field that is left out.
    valid_for = None if request.valid_for == DEFAULT_VALIDITY else request.valid_for
    digest = digest_of((_ENTITY, member.member_id, book.coupon_book_id, request.code, request.auto_assign, valid_for))
    with unit_of_work(call, [member.member_id], _LOCK_REASON) as unit:
        stored_locks = LOCKS.find_all(call.db, unit.organization_id, system_unique_key=[request.system_unique_key])
        earlier_locks = ResultsByKey((lock.system_unique_key, lock.request_digest, lock) for lock in stored_locks)
        lock = earlier_locks.find(request.system_unique_key, digest)
        if lock is None:
            expires_at = end_of_validity(valid_for or DEFAULT_VALIDITY, call.now, call.organization.zone, MAX_VALIDITY)
            work = unit.coupons
            book = work.loader.find_book(coupon_book_id=book.coupon_book_id)
            coupon = None
            if request.code is not None:
                work.loader.load_by_code(book, [request.code])
                coupon = work.coupon(book, request.code)
            command = Lock(expires_at, request.system_unique_key, digest, coupon, request.auto_assign)
            lock = work.lock(member.member_id, book, command)
            _audit(call, lock, after={"couponBookId": book.coupon_book_id, "couponId": lock.coupon_id})
            return _view(lock, work.loader.state.coupons[lock.coupon_id].code)
    return _view_with_code(call, lock)


def release_lock(call: Call, coupon_lock: CouponLock) -> LockView:
    """Release a lock; raises CouponLockEnded."""
    with unit_of_work(call, [coupon_lock.member_id], _RELEASE_REASON) as unit:
        # Read again while the member is locked, since another transaction may have ended the coupon lock.
        coupon_lock = LOCKS.find_again(call.db, coupon_lock)
        unit.coupons.release(coupon_lock)
        _audit(call, coupon_lock, after={"isReleased": True})
    return _view_with_code(call, coupon_lock)


def release_locks(call: Call, members: Collection[Member]) -> None:
    """Release the active locks of members who are about to be deactivated or erased."""
    organization_id = call.organization.organization_id
    member_ids = [member.member_id for member in members]
    if not (member_ids and locks.find_active_locks(call.db, organization_id, member_ids, call.now)):
        return
    UnitOfWork(call).lock(member_ids=member_ids)
    # Read again, as other calls may have changed the locks before this call had locked the members.
    active_locks = locks.find_active_locks(call.db, organization_id, member_ids, call.now)
    locks.release(call.db, organization_id, [lock.coupon_lock_id for lock in active_locks], call.now)


def _view_with_code(call: Call, lock: CouponLock) -> LockView:
    """Look up the code of a lock's coupon; return the lock in the form of the response."""
    coupon = COUPONS.find(call.db, lock.organization_id, lock.coupon_id)
    return _view(lock, None if coupon is None else coupon.code)


def _view(lock: CouponLock, code: str | None) -> LockView:
    return LockView(lock.coupon_lock_key, code, lock.expires_at)


def _audit(call: Call, lock: CouponLock, after: dict[str, object]) -> None:
    call.audit.add(_ENTITY, lock.coupon_lock_id, after=after, member_ids=(lock.member_id,))
