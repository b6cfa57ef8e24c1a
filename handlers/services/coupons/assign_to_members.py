"""Assigns a coupon to each of many members, independently of each other."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from domain.coupons.books import BookTerms
from domain.coupons.commands import Assignment
from domain.coupons.usages import CouponUsage
from domain.idempotency import ResultsByKey
from domain.members import Member, refuse_erased
from domain.problems import Refusal
from handlers.call import Call
from handlers.services.coupons.assign_and_use import ASSIGN_REASON, CouponCommand, look_up_and_reserve
from handlers.services.references import unknown_member
from handlers.services.unit_of_work.evaluation import evaluate_changes
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.members import MEMBERS


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A member to whom a batch assigns, by one of the two ids or by both."""

    member_id: int | None = None
    loyalty_member_id: str | None = None
    system_unique_key: str | None = None


@dataclass(frozen=True, slots=True)
class AssignmentOutcome:
    """The outcome of one item of a batch: the usage, or the refusal.

    For an unknown member, `member_id` is the id in the request, None if the request has only a `loyalty_member_id`.
    """

    member_id: int | None
    system_unique_key: str | None
    usage: CouponUsage | None = None
    refusal: Refusal | None = None


def assign_to_members(
    call: Call, book: BookTerms, items: Sequence[BatchItem], points_override: Decimal | None
) -> list[AssignmentOutcome]:
    """Assign a coupon to each of many members independently, in a fixed number of statements."""
    members_of_items = _members_of(call, items)
    command = CouponCommand(points_override=points_override)
    unit = UnitOfWork(call)
    unit.lock(member_ids={member.member_id for member in members_of_items.values()})
    with open_unit(unit, ASSIGN_REASON):
        return _Batch(unit, book, command).run(items, members_of_items)


class _Batch:
    """One call that assigns to many members."""

    def __init__(self, unit: UnitOfWork, book: BookTerms, command: CouponCommand) -> None:
        self._unit = unit
        self._coupons = unit.coupons
        # Read again: locked by the unit, and with the coupons of its members.
        self._book = unit.coupons.loader.find_book(coupon_book_id=book.coupon_book_id)
        self._command = command

    def run(self, items: Sequence[BatchItem], members_of_items: Mapping[Any, Member]) -> list[AssignmentOutcome]:
        """Assign a coupon to the member of each item, in order; return the outcome of each item."""
        keys = [item.system_unique_key for item in items if item.system_unique_key is not None]
        stored_usages, usage_ids = look_up_and_reserve(self._unit, keys, len(items))
        self._usages = ResultsByKey((usage.system_unique_key, usage.request_digest, usage) for usage in stored_usages)
        # Reserve the ids of all usages and codes together.
        self._coupons.loader.expect_usages(len(items), {self._book.coupon_book_id: len(items)}, usage_ids)
        self._unit.expect_events(len(items))
        outcomes = []
        for item in items:
            outcomes.append(self._assign_item(item, _member_of(item, members_of_items)))
            # The next item may need the points or the tier that this one earns.
            evaluate_changes(self._unit, ASSIGN_REASON)
        return outcomes

    def _assign_item(self, item: BatchItem, member: Member | None) -> AssignmentOutcome:
        """Assign a coupon to the member of an item, unless the key of the item was used before; return the outcome."""
        key = item.system_unique_key
        try:
            if member is None:
                ids = (item.member_id, item.loyalty_member_id)
                raise unknown_member(" and ".join(str(member_id) for member_id in ids if member_id is not None))
            refuse_erased(self._unit.members[member.member_id])
            digest = self._command.digest("batch-assign", member.member_id, self._book)
            usage = self._usages.find(key, digest)
            if usage is None:
                details = self._command.details(key, digest)
                usage = self._coupons.assign(member.member_id, self._book, Assignment(), details)
                self._usages.add(usage.system_unique_key, digest, usage)
            return AssignmentOutcome(member.member_id, usage.system_unique_key, usage)
        except Refusal as refusal:
            return AssignmentOutcome(item.member_id if member is None else member.member_id, key, refusal=refusal)


def _members_of(call: Call, items: Collection[BatchItem]) -> dict[Any, Member]:
    """The members of a batch, by `memberId` and by `loyaltyMemberId`."""
    organization_id = call.organization.organization_id
    ids = {item.member_id for item in items if item.member_id is not None}
    loyalty_ids = {item.loyalty_member_id for item in items if item.loyalty_member_id is not None}
    existing_members = MEMBERS.find_all(call.db, organization_id, member_id=ids) if ids else []
    if loyalty_ids:
        existing_members += MEMBERS.find_all(call.db, organization_id, loyalty_member_id=loyalty_ids)
    return {name: member for member in existing_members for name in (member.member_id, member.loyalty_member_id)}


def _member_of(item: BatchItem, members_of_items: Mapping[Any, Member]) -> Member | None:
    """The member of an item; None if its two ids belong to different members, or to none."""
    candidates = [
        members_of_items.get(member_id)
        for member_id in (item.member_id, item.loyalty_member_id)
        if member_id is not None
    ]
    first_member = candidates[0]
    return first_member if all(member == first_member for member in candidates) else None
