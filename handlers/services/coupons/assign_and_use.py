"""Assigning and using coupons by request: each key has one result, and each request one unit of work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.coupons.books import CouponBook
from domain.coupons.charges import UsageDetails
from domain.coupons.codes import Coupon
from domain.coupons.service import Assignment, Use
from domain.coupons.usages import CouponUsage
from domain.idempotency import refuse_other_request
from domain.members import Member
from domain.problems import Conflict, FieldFault, InvalidRequest, NotFound, Refusal
from handlers.call import ADMINISTRATION, Call
from handlers.services.idempotency import digest_of
from handlers.services.references import unknown_member
from handlers.services.unit_of_work.participants.coupons import CouponWork
from handlers.services.unit_of_work.unit import unit_of_work
from persistence import members
from persistence.coupons import usages

ASSIGNED, USED = "A coupon was assigned by request.", "A coupon was used by request."


@dataclass(frozen=True, slots=True)
class CouponCommand:
    """The command of a request on either surface; fields that a surface does not offer keep their defaults."""

    codes: tuple[str, ...] = ()
    coupon_id: int | None = None
    amount: Decimal = Decimal(1)
    keys: tuple[str, ...] = ()
    count: int = 1
    is_strict: bool = True
    expires_at: datetime | None = None
    coupon_data: Mapping[str, Any] | None = None
    custom_attributes: Mapping[str, Any] | None = None
    external_id: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    points_override: Decimal | None = None
    pending: int | None = None
    amount_discounted: Decimal | None = None
    bypass: bool = False
    auto_assign: bool = False

    def digest(self, kind: str, member_id: int, book: CouponBook) -> bytes:
        """The digest by which two requests are the same: all fields, except the keys of a batch's other items."""
        details = [getattr(self, name) for name in self.__slots__]
        return digest_of([kind, member_id, book.coupon_book_id, *details])

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
            pending=self.pending,
        )


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A member to whom a batch assigns, by either id or both."""

    member_id: int | None = None
    loyalty_member_id: str | None = None
    system_unique_key: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one item of a batch."""

    member_id: int | None
    system_unique_key: str | None
    usage: CouponUsage | None = None
    refusal: Refusal | None = None


def use_coupon(call: Call, member: Member, book: CouponBook, command: CouponCommand) -> CouponUsage:
    """Use one coupon; the same key with the same request returns the same usage."""
    _refuse_twofold_price(command)
    digest = command.digest("use", member.member_id, book)
    with unit_of_work(call, [member.member_id], command.description or USED) as unit:
        done = _done_before(call, command, digest)
        if done:
            return done[0]
        loaded = unit.coupons.loader.book(coupon_book_id=book.coupon_book_id)
        named = _named(unit.coupons, loaded, command)
        use = Use(
            coupon=named[0] if named else None,
            amount_discounted=command.amount_discounted,
            bypass=command.bypass,
            auto_assign=command.auto_assign,
        )
        return unit.coupons.use(member.member_id, loaded, use, command.details(_first(command.keys), digest))[0]


def assign_coupons(call: Call, member: Member, book: CouponBook, command: CouponCommand) -> list[CouponUsage]:
    """Assign coupons to one member: those named by code, or the next ones; all or none if it `is_strict`.

    Otherwise as many as possible, but at least one. The same keys with the same request return the same usages.
    """
    _refuse_twofold_price(command)
    digest = command.digest("assign", member.member_id, book)
    with unit_of_work(call, [member.member_id], command.description or ASSIGNED) as unit:
        done = _done_before(call, command, digest)
        if done:
            return done
        _refuse_past_expiry(call, command)
        loaded = unit.coupons.loader.book(coupon_book_id=book.coupon_book_id)
        unit.coupons.loader.expect(command.count, loaded)
        return _assign_each(unit.coupons, member, loaded, command, digest)


def _assign_each(
    coupons: CouponWork, member: Member, book: CouponBook, command: CouponCommand, digest: bytes
) -> list[CouponUsage]:
    """Assign the named coupons, or the number asked for.

    Raises the first refusal if it `is_strict`, or if nothing could be assigned.
    """
    made: list[CouponUsage] = []
    refused: list[Refusal] = []
    for position, find in enumerate(_finders(coupons, book, command)):
        try:
            assignment = Assignment(command.amount, find(), command.expires_at, command.coupon_data)
            key = command.keys[position] if command.keys else None
            made.append(coupons.assign(member.member_id, book, assignment, command.details(key, digest)))
        except (Conflict, NotFound) as refusal:
            if command.is_strict:
                raise
            refused.append(refusal)
            if not command.codes and position == len(made):
                # Further coupons would be refused for the same reason.
                break
    if not made:
        raise refused[0]
    return made


def assign_to_members(
    call: Call, book: CouponBook, items: Sequence[BatchItem], points_override: Decimal | None
) -> list[Outcome]:
    """Assign a coupon to each of many members independently, in a fixed number of statements."""
    members_of_items = _members_of(call, items)
    command = CouponCommand(points_override=points_override)
    member_ids = {member.member_id for member in members_of_items.values()}
    with unit_of_work(call, member_ids, ASSIGNED) as unit:
        return _Batch(call, unit.coupons, book, command).run(items, members_of_items)


class _Batch:
    """One call that assigns to many members."""

    def __init__(self, call: Call, coupons: CouponWork, book: CouponBook, command: CouponCommand) -> None:
        self._call = call
        self._coupons = coupons
        self._book = coupons.loader.book(coupon_book_id=book.coupon_book_id)
        self._command = command

    def run(self, items: Sequence[BatchItem], members_of_items: Mapping[Any, Member]) -> list[Outcome]:
        """Assign to each item's member, in order; returns an outcome for each."""
        keys = [item.system_unique_key for item in items if item.system_unique_key is not None]
        known = usages.find_by_request_keys(self._call.db, self._call.organization.organization_id, keys)
        self._done = {usage.system_unique_key: usage for usage in known}
        self._coupons.loader.expect(len(items), self._book)
        return [self._one(item, _member_of(item, members_of_items)) for item in items]

    def _one(self, item: BatchItem, member: Member | None) -> Outcome:
        key = item.system_unique_key
        try:
            if member is None:
                raise unknown_member(_named_by(item))
            digest = self._command.digest("batch-assign", member.member_id, self._book)
            usage = self._done.get(key or "")
            if usage is None:
                details = self._command.details(key, digest)
                usage = self._coupons.assign(member.member_id, self._book, Assignment(), details)
                self._done[usage.system_unique_key] = usage
            else:
                refuse_other_request(key, digest, usage.request_digest)
            return Outcome(member.member_id, usage.system_unique_key, usage)
        except Refusal as refusal:
            return Outcome(item.member_id if member is None else member.member_id, key, refusal=refusal)


def _done_before(call: Call, command: CouponCommand, digest: bytes) -> list[CouponUsage]:
    """The usages that the same request made before under its keys, as they were first returned; mostly none.

    Raises KeyReused if another request has used one of the keys.
    """
    known = usages.find_by_request_keys(call.db, call.organization.organization_id, command.keys)
    for usage in known:
        refuse_other_request(usage.system_unique_key, digest, usage.request_digest)
    return [as_answered(usage) for usage in sorted(known, key=lambda usage: usage.coupon_usage_id)]


def as_answered(usage: CouponUsage) -> CouponUsage:
    """A usage as it was first returned, without later changes."""
    return replace(usage, reversal_usage_id=None, updated_at=usage.created_at)


def _named(coupons: CouponWork, book: CouponBook, command: CouponCommand) -> list[Coupon]:
    """The coupons that the command names by code or id; raises UnknownCoupon."""
    if command.coupon_id is not None:
        coupons.loader.named(book, (), [command.coupon_id])
        return [coupons.loader.state.coupons[command.coupon_id]]
    if command.codes:
        coupons.loader.named(book, command.codes)
    return [coupons.coupon(book, code) for code in command.codes]


def _finders(coupons: CouponWork, book: CouponBook, command: CouponCommand) -> list[Callable[[], Coupon | None]]:
    """A function for each coupon to be assigned that finds it; an unknown code is refused when its turn comes."""
    if command.coupon_id is not None:
        [coupon] = _named(coupons, book, command)
        return [lambda: coupon]
    if command.codes:
        coupons.loader.named(book, command.codes)
        return [lambda code=code: coupons.coupon(book, code) for code in command.codes]  # type: ignore[misc]
    return [lambda: None] * command.count


def _refuse_twofold_price(command: CouponCommand) -> None:
    """Refuse a command with several prices, and one that captures a pending burn for more than one usage."""
    faults = []
    if command.pending is not None:
        pointer = "/pendingCaptureLedgerTransactionId"
        if command.points_override is not None:
            faults.append(
                FieldFault(
                    "pendingCaptureLedgerTransactionId is given beside pointsOverride, and stands in its place",
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

    Checked after the keys, so that a repeated request gets its answer even if its expiry has passed meanwhile.
    """
    if command.expires_at is not None and command.expires_at <= call.now:
        name = "expiredAt" if call.surface == ADMINISTRATION else "expiresAt"
        raise InvalidRequest([FieldFault(f"{name} is not in the future", pointer=f"/{name}")])


def _members_of(call: Call, items: Collection[BatchItem]) -> dict[Any, Member]:
    """The members of a batch, by each of their ids."""
    organization_id = call.organization.organization_id
    ids = {item.member_id for item in items if item.member_id is not None}
    loyalty_ids = {item.loyalty_member_id for item in items if item.loyalty_member_id is not None}
    found = members.find_all(call.db, organization_id, ids) if ids else []
    if loyalty_ids:
        found += members.find_all_by_loyalty_member_id(call.db, organization_id, loyalty_ids)
    return {name: member for member in found for name in (member.member_id, member.loyalty_member_id)}


def _member_of(item: BatchItem, found: Mapping[Any, Member]) -> Member | None:
    """The member of an item; None if its two ids belong to different members, or to none."""
    named = [found.get(member_id) for member_id in (item.member_id, item.loyalty_member_id) if member_id is not None]
    return named[0] if all(each is named[0] or each == named[0] for each in named) else None


def _named_by(item: BatchItem) -> str:
    """How an item names its member."""
    return " and ".join(
        str(member_id) for member_id in (item.member_id, item.loyalty_member_id) if member_id is not None
    )


def _first(keys: Sequence[str]) -> str | None:
    return keys[0] if keys else None
