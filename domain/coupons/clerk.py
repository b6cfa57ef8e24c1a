"""Assigning, using and reverting coupons: the rules, on a shelf and a till (integration 4.2, semantics of usages)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.coupons.books import CouponBook
from domain.coupons.codes import Coupon
from domain.coupons.eligibility import ASSIGN, PERIOD_LIMITS, USE, Attempt, MemberFacts, refuse_excluded
from domain.coupons.shelf import ZERO, Shelf
from domain.coupons.till import Said, Till
from domain.coupons.usages import (
    AssignmentUsed,
    CouponExpired,
    CouponNotAssigned,
    CouponUsage,
    MemberCoupon,
    UsageNotRevertible,
    UsageReverted,
)
from domain.ledger.refusals import InsufficientBalance
from domain.members import Member
from domain.problems import Conflict, Refusal

ONE = Decimal(1)

# Whether the points suffice is for the ledger to say, which knows what is asked for beside the book's points.
_LEDGER_SAYS: frozenset[type[Conflict]] = frozenset({InsufficientBalance})


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be assigned: `amount` of the coupon named, or of the next one of the book.

    `expires_at` and `coupon_data` replace what the member's coupon has of them; None leaves that, but for an expiry
    that has passed of a coupon that is used up.
    """

    amount: Decimal = ONE
    coupon: Coupon | None = None
    expires_at: datetime | None = None
    coupon_data: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What is to be used: `amount` of the coupon named, or of those of the book that expire soonest.

    `bypass` leaves out the coupon's expiry and the period limits. `auto_assign` assigns first what is not there.
    """

    amount: Decimal = ONE
    coupon: Coupon | None = None
    amount_discounted: Decimal | None = None
    bypass: bool = False
    auto_assign: bool = False


@dataclass(frozen=True, slots=True)
class _Amounts:
    """What a usage moves, and how it stands to others."""

    assigned: Decimal = ZERO
    used: Decimal = ZERO
    discounted: Decimal | None = None
    reverted: int | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)


class Clerk:
    """Serves the members of a unit of work. `facts` tells of a member what eligibility goes by, but for the coupons."""

    def __init__(
        self,
        shelf: Shelf,
        till: Till,
        facts: Callable[[Member, CouponBook], MemberFacts],
        new_key: Callable[[], str],
        new_id: Callable[[], int],
    ) -> None:
        self._shelf = shelf
        self._till = till
        self._facts = facts
        self._new_key = new_key
        self._new_id = new_id

    def assign(self, member: Member, book: CouponBook, asked: Assignment, said: Said) -> CouponUsage:
        """Assign a coupon; raises the first thing that stands in the way and has then changed nothing."""
        book = self._shelf.books[book.coupon_book_id]
        had = self._shelf.had(member.member_id, book.coupon_book_id)
        facts = replace(self._facts(member, book), assigned=had.assigned, stock_left=self._shelf.stock_left(book))
        refuse_excluded(book, facts, Attempt(ASSIGN, asked.amount), _LEDGER_SAYS)
        mark, key = self._shelf.mark(), self._new_key()
        try:
            coupon = self._shelf.to_assign(member.member_id, book, self._current(asked.coupon), asked.amount)
            price = (book.assignment_required_points or ZERO) * asked.amount
            transaction_id = self._till.pay(member.wallet_id, book, price, said, key)
        except Refusal:
            self._shelf.undo(mark)
            raise
        changes: dict[str, Any] = {}
        if asked.expires_at is not None or self._is_over(member.member_id, coupon):
            changes["expired_at"] = asked.expires_at
        if asked.coupon_data is not None:
            changes["custom_attributes"] = asked.coupon_data
        held = self._shelf.hold(member.member_id, coupon, asked.amount, ZERO, **changes)
        amounts = _Amounts(assigned=asked.amount, custom_attributes=said.custom_attributes)
        return self._record(book, held, amounts, said, key, transaction_id)

    def use(self, member: Member, book: CouponBook, asked: Use, said: Said) -> list[CouponUsage]:
        """Use coupons, with a usage for each; a key is for one alone.

        Raises the first thing that stands in the way; what was done until then is the caller's to take back.
        """
        usages: list[CouponUsage] = []
        for _ in range(int(asked.amount)):
            book = self._shelf.books[book.coupon_book_id]
            had = self._shelf.had(member.member_id, book.coupon_book_id)
            facts = replace(self._facts(member, book), used_in_period=had.used, discounted_in_period=had.discounted)
            without = _LEDGER_SAYS | (PERIOD_LIMITS if asked.bypass else frozenset())
            refuse_excluded(book, facts, Attempt(USE, amount_discounted=asked.amount_discounted), without)
            held = self._to_use(member, book, asked, said)
            usages.append(self._use(member, book, held, asked.amount_discounted, said))
        return usages

    def _use(
        self,
        member: Member,
        book: CouponBook,
        held: MemberCoupon,
        discounted: Decimal | None,
        said: Said,
    ) -> CouponUsage:
        key = self._new_key()
        transaction_id = self._till.pay(member.wallet_id, book, book.usage_required_points or ZERO, said, key)
        held = self._shelf.hold(member.member_id, self._shelf.coupons[held.coupon_id], ZERO, ONE)
        self._shelf.count_use(member.member_id, book, ONE, discounted or ZERO, self._shelf.at)
        amounts = _Amounts(used=ONE, discounted=discounted, custom_attributes=said.custom_attributes)
        return self._record(book, held, amounts, said, key, transaction_id)

    def _to_use(self, member: Member, book: CouponBook, asked: Use, said: Said) -> MemberCoupon:
        """What is used next: of what has not expired, that which expires soonest, of equals the oldest."""
        usable = self._usable(member, book, asked)
        if not usable and asked.auto_assign:
            # What is said of points stands for all of the call, so the use alone goes by it.
            own = Said(
                description=said.description,
                tags=said.tags,
                loyalty_event_id=said.loyalty_event_id,
                points_override=ZERO if said.sets_price else None,
            )
            self.assign(member, book, Assignment(coupon=asked.coupon), own)
            usable = self._usable(member, book, asked)
        if usable:
            return min(usable, key=self._order_of_use)
        if self._left(member, book, asked):
            raise CouponExpired("The coupon has expired.")
        raise CouponNotAssigned("The member has no such coupon left to use.")

    def _usable(self, member: Member, book: CouponBook, asked: Use) -> list[MemberCoupon]:
        return [each for each in self._left(member, book, asked) if asked.bypass or not self._has_expired(each)]

    def _left(self, member: Member, book: CouponBook, asked: Use) -> list[MemberCoupon]:
        held = self._shelf.held_of_book(member.member_id, book.coupon_book_id)
        wanted = None if asked.coupon is None else asked.coupon.coupon_id
        return [each for each in held if each.left >= ONE and wanted in (None, each.coupon_id)]

    def _is_over(self, member_id: int, coupon: Coupon) -> bool:
        """True if all that the member had of the coupon is used, and expired: what comes now is not for that time."""
        held = self._shelf.held.get((member_id, coupon.coupon_id))
        return held is not None and held.left <= 0 and self._has_expired(held)

    def _has_expired(self, held: MemberCoupon) -> bool:
        expiry = self._shelf.expiry(held)
        return expiry is not None and expiry <= self._shelf.at

    def _order_of_use(self, held: MemberCoupon) -> tuple[Any, ...]:
        expiry = self._shelf.expiry(held)
        return expiry is None, expiry or held.created_at, held.created_at, held.coupon_id

    def revert(self, usage_id: int, said: Said, *, force: bool = False) -> CouponUsage:
        """Take back an assignment or a use, with its points; answers the reversal.

        Raises UsageReverted, UsageNotRevertible, AssignmentUsed unless `force`, or what the ledger refuses.
        """
        usage = self._standing(usage_id)
        held = self._shelf.held[usage.member_id, usage.coupon_id]
        if usage.amount_assigned > 0 and held.amount_assigned - usage.amount_assigned < held.amount_used and not force:
            raise AssignmentUsed(f"Of {held.amount_assigned} assigned, {held.amount_used} are used.")
        key = self._new_key()
        transaction_id = None
        if usage.ledger_transaction_id is not None:
            transaction_id = self._till.give_back(usage.ledger_transaction_id, said, key)
        return self._take_back(usage, usage.amount_assigned, said, key, transaction_id)

    def undo(self, usage_id: int, said: Said) -> CouponUsage | None:
        """Take back what an event did, as far as it is not used; points are not touched. None where all is used."""
        usage = self._standing(usage_id)
        held = self._shelf.held[usage.member_id, usage.coupon_id]
        assigned = min(usage.amount_assigned, max(ZERO, held.left))
        if not usage.is_use and assigned == 0:
            return None
        return self._take_back(usage, assigned, said, self._new_key(), None)

    def stands(self, usage_id: int) -> bool:
        """Whether a usage can still be reverted."""
        usage = self._shelf.found.get(usage_id)
        return usage is not None and usage.reversal_usage_id is None and usage.reverted_usage_id is None

    def _standing(self, usage_id: int) -> CouponUsage:
        usage = self._shelf.found[usage_id]
        if usage.reverted_usage_id is not None:
            raise UsageNotRevertible(f"The usage {usage.coupon_usage_key} is a reversal.")
        if usage.reversal_usage_id is not None:
            raise UsageReverted(f"The usage {usage.coupon_usage_key} is reverted already.")
        return usage

    def _take_back(
        self, usage: CouponUsage, assigned: Decimal, said: Said, key: str, transaction_id: int | None
    ) -> CouponUsage:
        book, coupon = self._shelf.books[usage.coupon_book_id], self._shelf.coupons[usage.coupon_id]
        before = self._shelf.held[usage.member_id, usage.coupon_id]
        changes: dict[str, Any] = {}
        if assigned and before.amount_assigned == assigned:
            # Nothing is left of the coupon, so the next to have it begins afresh.
            changes = {"expired_at": None, "custom_attributes": {}}
        held = self._shelf.hold(usage.member_id, coupon, -assigned, -usage.amount_used, **changes)
        if usage.is_use:
            discounted = usage.amount_discounted or ZERO
            self._shelf.count_use(usage.member_id, book, -usage.amount_used, -discounted, usage.created_at)
        amounts = _Amounts(
            assigned=-assigned,
            used=-usage.amount_used,
            discounted=None if usage.amount_discounted is None else -usage.amount_discounted,
            reverted=usage.coupon_usage_id,
            custom_attributes=usage.custom_attributes,
        )
        reversal = self._record(book, held, amounts, said, key, transaction_id)
        self._shelf.link(usage, reversal.coupon_usage_id)
        return reversal

    def _current(self, coupon: Coupon | None) -> Coupon | None:
        """The coupon as the work has left it."""
        return None if coupon is None else self._shelf.coupons[coupon.coupon_id]

    def _record(
        self,
        book: CouponBook,
        held: MemberCoupon,
        amounts: _Amounts,
        said: Said,
        key: str,
        transaction_id: int | None,
    ) -> CouponUsage:
        return self._shelf.keep(
            CouponUsage(
                organization_id=book.organization_id,
                coupon_usage_id=self._new_id(),
                coupon_usage_key=key,
                coupon_id=held.coupon_id,
                coupon_book_id=book.coupon_book_id,
                coupon_book_version_id=book.current_version_id,
                member_id=held.member_id,
                system_unique_key=said.system_unique_key or self._new_key(),
                request_digest=said.request_digest,
                custom_attributes=amounts.custom_attributes,
                amount_used=amounts.used,
                amount_assigned=amounts.assigned,
                updated_total_usages=held.amount_used,
                updated_total_assigned=held.amount_assigned,
                reversal_usage_id=None,
                reverted_usage_id=amounts.reverted,
                amount_discounted=amounts.discounted,
                ledger_transaction_id=transaction_id,
                external_id=said.external_id,
                description=said.description,
                tags=list(said.tags),
                loyalty_event_id=said.loyalty_event_id,
                created_at=self._shelf.at,
                updated_at=self._shelf.at,
            )
        )
