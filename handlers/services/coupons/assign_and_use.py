"""Assigns and uses coupons by request: each key has one result, and the calls of a batch share one unit of work."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from domain.coupons.books import BookTerms, Coupon
from domain.coupons.charges import UsageDetails
from domain.coupons.commands import Assignment, Use
from domain.coupons.locks import CouponLock, UnknownCouponLock
from domain.coupons.usages import CouponUsage
from domain.fields import Key
from domain.idempotency import ResultsByKey
from domain.members import Member
from domain.problems import Conflict, FieldFault, InvalidRequest, NotFound, Refusal
from handlers.call import ADMINISTRATION, Call
from handlers.messages.json_text import digest_of
from handlers.services.unit_of_work.participants.coupons import CouponWork
from handlers.services.unit_of_work.requests import RequestedChange, apply_batch
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.coupons import locks, usages
from persistence.coupons.usages import USAGES

ASSIGN_REASON, USE_REASON = "A coupon was assigned by request.", "A coupon was used by request."


# The fields that did not exist at first; see `CouponCommand.digest`.
_LATER_FIELDS = ("order_total", "remaining_value", "lock_key")


@dataclass(frozen=True, slots=True)
class CouponCommand:
    """The command of a request; fields that the surface of the request does not offer keep their defaults.

    The pending burn `pending_burn_id` pays for the usage. With `bypass_restrictions`, the restrictions of the usage are
    not checked.
    """

    codes: tuple[str, ...] = ()
    coupon_id: int | None = None
    amount: Decimal = Decimal(1)
    keys: tuple[str, ...] = ()
    count: int = 1
    is_strict: bool = field(default=True, metadata={"wire": "strictMode"})
    expires_at: datetime | None = None
    coupon_data: Mapping[str, Any] | None = None
    custom_attributes: Mapping[str, Any] | None = None
    external_id: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    points_override: Decimal | None = None
    pending_burn_id: int | None = field(default=None, metadata={"wire": "pendingCaptureLedgerTransactionId"})
    amount_discounted: Decimal | None = None
    bypass_restrictions: bool = field(default=False, metadata={"wire": "bypassUsageRestrictions"})
    auto_assign: bool = False
    order_total: Decimal | None = None
    remaining_value: Decimal | None = None
    lock_key: Key | None = field(default=None, metadata={"wire": "couponLockKey"})

    @property
    def may_assign(self) -> bool:
        """True for a use that may assign a coupon first."""
        return self.auto_assign or self.lock_key is not None

    def digest(self, request_kind: str, member_id: int, book: BookTerms) -> bytes:
        """The digest of a request with this command: two requests with the same digest are the same request.

        It covers all fields; `request_kind` is "assign" or "use".
        """
        values = [getattr(self, name) for name in self.__slots__ if name not in _LATER_FIELDS]
        # An empty object has the same meaning as a field that is left out.
        details = [None if value == {} else value for value in values]
        # Later fields are added only if they are set, so that requests to earlier versions are still recognized.
        if self.order_total is not None:
            details.append(self.order_total)
        if self.remaining_value is not None:
            details.append(["remaining_value", self.remaining_value])
        if self.lock_key is not None:
            details.append(["lock_key", self.lock_key])
        return digest_of([request_kind, member_id, book.coupon_book_id, *details])

    def details(self, key: str | None, digest: bytes) -> UsageDetails:
        """The details of the usage with this key."""
        return UsageDetails(
            system_unique_key=key,
            request_digest=digest,
            external_id=self.external_id,
            description=self.description,
            tags=self.tags,
            custom_attributes=self.custom_attributes or {},
            points_override=self.points_override,
            pending_burn_id=self.pending_burn_id,
        )


@dataclass(frozen=True, slots=True)
class CouponRequest:
    """The command of a call, for a member and a book; `lock` is the lock that the command names, None until found."""

    member: Member
    book: BookTerms
    command: CouponCommand
    lock: CouponLock | None = None


def use_coupons(calls: Sequence[Call], requests: Sequence[CouponRequest]) -> list[CouponUsage | Refusal]:
    """Use one coupon for each call, one after the other in one unit of work.

    The same key with the same request returns the same usage.
    """
    only_usages: list[CouponUsage | Refusal] = []
    for outcome in _Requests(
        request_kind="use", default_reason=USE_REASON, calls=calls, requests=requests, execute=_use
    ).run_all():
        if isinstance(outcome, Refusal):
            only_usages.append(outcome)
        else:
            only_usages += outcome
    return only_usages


def assign_coupons(calls: Sequence[Call], requests: Sequence[CouponRequest]) -> list[list[CouponUsage] | Refusal]:
    """Assign coupons to the member of each call, one after the other in one unit of work.

    These are the coupons that the command names by code or id, or else the next free ones of the book. If the command
    `is_strict`, all are assigned or none; if not, as many as possible, but at least one. The same keys with the same
    request return the same usages.
    """
    return _Requests(
        request_kind="assign", default_reason=ASSIGN_REASON, calls=calls, requests=requests, execute=_assign
    ).run_all()


# Executes a request about coupons of a book; the bytes are the digest of the request.
Execute = Callable[[CouponWork, Call, CouponRequest, BookTerms, bytes], list[CouponUsage]]


class _Requests:
    """The requests of calls, each with its call.

    All requests have the kind `request_kind`: "assign" or "use". `execute` executes a request, unless its keys were
    used before. `default_reason` is the reason in the derived events of requests without a description.
    """

    def __init__(
        self,
        request_kind: str,
        default_reason: str,
        calls: Sequence[Call],
        requests: Sequence[CouponRequest],
        execute: Execute,
    ) -> None:
        self._request_kind = request_kind
        self._default_reason = default_reason
        self._calls = calls
        self._requests = requests
        self._execute = execute
        self._usages: ResultsByKey[CouponUsage] = ResultsByKey()
        self._locks: Mapping[str, CouponLock] = {}

    def run_all(self) -> list[list[CouponUsage] | Refusal]:
        """Run all requests in one unit of work; return the usages of each, or its refusal."""
        changes = [
            RequestedChange(
                call,
                request.member.member_id,
                request.command.description or self._default_reason,
                partial(self._apply_request, call, request),
            )
            for call, request in zip(self._calls, self._requests, strict=True)
        ]
        return apply_batch(changes, self._prepare)

    def _prepare(self, unit: UnitOfWork) -> None:
        """Find the usages of earlier requests with the same keys; load the books, and the coupons of the commands.

        Locks the stock of the books of which coupons may be assigned.
        """
        keys = {key for request in self._requests for key in request.command.keys}
        # A use that assigns creates two usages.
        usage_count = sum([request.command.count + request.command.may_assign for request in self._requests])
        stored_usages, usage_ids = look_up_and_reserve(unit, keys, usage_count)
        for usage in stored_usages:
            self._usages.add(usage.system_unique_key, usage.request_digest, as_first_returned(usage))
        lock_keys = {request.command.lock_key for request in self._requests if request.command.lock_key is not None}
        self._locks = locks.find_by_keys(unit.db, unit.organization_id, lock_keys) if lock_keys else {}
        by_book: dict[int, list[CouponCommand]] = {}
        for request in self._requests:
            if not any(key in self._usages for key in request.command.keys):
                by_book.setdefault(request.book.coupon_book_id, []).append(request.command)
        coupon_counts = {book_id: sum([command.count for command in commands]) for book_id, commands in by_book.items()}
        loader = unit.coupons.loader
        loader.load(sorted(by_book.keys() - loader.state.books.keys()))
        loader.expect_usages(usage_count, coupon_counts, usage_ids)
        # The order of `persistence.locks`: codes before books, each by id.
        for book_id, commands in sorted(by_book.items()):
            codes = {code for command in commands for code in command.codes}
            ids = {command.coupon_id for command in commands if command.coupon_id is not None}
            if self._locks:
                ids |= {lock.coupon_id for lock in self._locks.values() if lock.coupon_book_id == book_id}
            if codes or ids:
                loader.load_by_code(loader.find_book(coupon_book_id=book_id), codes, ids)
        for book_id, commands in sorted(by_book.items()):
            if self._request_kind == "assign" or any(command.may_assign for command in commands):
                loader.lock_stock(loader.find_book(coupon_book_id=book_id))

    def _apply_request(self, call: Call, request: CouponRequest, unit: UnitOfWork) -> list[CouponUsage]:
        """Return the usages of an earlier request with the same keys; if there are none, execute the request."""
        command = request.command
        _refuse_ambiguous_price(command)
        digest = command.digest(self._request_kind, request.member.member_id, request.book)
        earlier_usages = [usage for key in command.keys if (usage := self._usages.find(key, digest)) is not None]
        if earlier_usages:
            return sorted(earlier_usages, key=lambda usage: usage.coupon_usage_id)
        coupons = unit.coupons
        book = coupons.loader.find_book(coupon_book_id=request.book.coupon_book_id)
        if command.lock_key is not None:
            request = replace(request, lock=_lock_of(request, self._locks.get(command.lock_key)))
        usages = self._execute(coupons, call, request, book, digest)
        for usage in usages:
            self._usages.add(usage.system_unique_key, usage.request_digest, usage)
        return usages


def _use(coupons: CouponWork, call: Call, request: CouponRequest, book: BookTerms, digest: bytes) -> list[CouponUsage]:
    """Use the coupon that the command names by code, id or lock, or else the member's next one of the book."""
    command = request.command
    named_coupons = _named_coupons(coupons, book, command)
    use = Use(
        coupon=named_coupons[0] if named_coupons else None,
        amount_discounted=command.amount_discounted,
        bypass_restrictions=command.bypass_restrictions,
        auto_assign=command.auto_assign,
        order_total=command.order_total,
    )
    details = command.details(command.keys[0] if command.keys else None, digest)
    if request.lock is not None:
        coupon = coupons.loader.state.coupons[request.lock.coupon_id]
        if named_coupons and named_coupons[0].coupon_id != coupon.coupon_id:
            fault = FieldFault(
                "code belongs to another coupon than couponLockKey reserves; leave code out", pointer="/code"
            )
            raise InvalidRequest([fault])
        return coupons.use_locked(request.lock, replace(use, coupon=coupon), details)
    return coupons.use(request.member.member_id, book, use, details)


def _lock_of(request: CouponRequest, lock: CouponLock | None) -> CouponLock:
    """The lock that a use names, if it belongs to the member and the book; raises UnknownCouponLock."""
    member_and_book = request.member.member_id, request.book.coupon_book_id
    if lock is None or (lock.member_id, lock.coupon_book_id) != member_and_book:
        raise UnknownCouponLock(f"The member has no lock {request.command.lock_key} of a coupon of the book.")
    return lock


def _assign(
    coupons: CouponWork, call: Call, request: CouponRequest, book: BookTerms, digest: bytes
) -> list[CouponUsage]:
    """Assign coupons as `_assign_each` does; if the request is refused, nothing has changed."""
    _refuse_past_expiry(call, request.command)
    return coupons.run_or_roll_back(lambda: _assign_each(coupons, request.member, book, request.command, digest))


def _assign_each(
    coupons: CouponWork, member: Member, book: BookTerms, command: CouponCommand, digest: bytes
) -> list[CouponUsage]:
    """Assign the coupons that the command names, or else the next `count` free ones of the book.

    Raises the first refusal if the command `is_strict`, or if nothing could be assigned.
    """
    usages: list[CouponUsage] = []
    refusals: list[Refusal] = []
    for position, find in enumerate(_finders(coupons, book, command)):
        try:
            assignment = Assignment(
                command.amount,
                find(),
                command.expires_at,
                command.coupon_data,
                command.order_total,
                remaining_value=command.remaining_value,
            )
            key = command.keys[position] if command.keys else None
            usages.append(coupons.assign(member.member_id, book, assignment, command.details(key, digest)))
        except (Conflict, NotFound) as refusal:
            if command.is_strict:
                raise
            refusals.append(refusal)
            if not command.codes:
                # Further coupons would be refused for the same reason.
                break
    if not usages:
        raise refusals[0]
    return usages


def look_up_and_reserve(unit: UnitOfWork, keys: Collection[str], count: int) -> tuple[list[CouponUsage], Sequence[int]]:
    """Return the usages with these keys, and `count` reserved ids for new usages; reserve `count` event ids, too."""
    keys_and_ids = usages.find_keys_and_reserve_ids(unit.db, unit.organization_id, keys, count)
    unit.event_allocator.add_reserved(keys_and_ids.event_ids)
    if not keys_and_ids.keys:
        return [], keys_and_ids.usage_ids
    return USAGES.find_all(unit.db, unit.organization_id, system_unique_key=keys_and_ids.keys), keys_and_ids.usage_ids


def as_first_returned(usage: CouponUsage) -> CouponUsage:
    """The usage as first returned, without later changes."""
    return replace(usage, reversal_usage_id=None, updated_at=usage.created_at)


def _named_coupons(coupons: CouponWork, book: BookTerms, command: CouponCommand) -> list[Coupon]:
    """The coupons that the command names by code or id, which are loaded; raises UnknownCoupon."""
    if command.coupon_id is not None:
        return [coupons.loader.state.coupons[command.coupon_id]]
    return [coupons.coupon(book, code) for code in command.codes]


def _finders(coupons: CouponWork, book: BookTerms, command: CouponCommand) -> list[Callable[[], Coupon | None]]:
    """For each coupon to be assigned, a function that returns the coupon, or None for the next coupon of the book.

    An unknown code is refused only when its function is called.
    """
    if command.coupon_id is not None:
        [coupon] = _named_coupons(coupons, book, command)
        return [lambda: coupon]
    if command.codes:
        return [lambda code=code: coupons.coupon(book, code) for code in command.codes]  # type: ignore[misc]
    return [lambda: None] * command.count


def _refuse_ambiguous_price(command: CouponCommand) -> None:
    """Refuse a command with two prices, and a command that captures one pending burn for several usages."""
    faults = []
    if command.pending_burn_id is not None:
        pointer = "/pendingCaptureLedgerTransactionId"
        if command.points_override is not None:
            faults.append(
                FieldFault(
                    "pendingCaptureLedgerTransactionId replaces pointsOverride: send only one of them",
                    pointer=pointer,
                )
            )
        if command.count > 1:
            faults.append(
                FieldFault(f"pendingCaptureLedgerTransactionId pays for one code, not {command.count}", pointer=pointer)
            )
    if faults:
        raise InvalidRequest(faults)


def _refuse_past_expiry(call: Call, command: CouponCommand) -> None:
    """Refuse an expiry in the past.

    Checked after the keys, so that a repeated request gets its response even if its expiry has passed meanwhile.
    """
    if command.expires_at is not None and command.expires_at <= call.now:
        name = "expiredAt" if call.surface == ADMINISTRATION else "expiresAt"
        raise InvalidRequest([FieldFault(f"{name} is not in the future", pointer=f"/{name}")])
