"""The rules of assigning, using and reverting loaded coupons; a PointsCharge moves their points (integration 4.2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from domain.coupons.books import BookTerms
from domain.coupons.charges import PointsCharge, UsageDetails
from domain.coupons.commands import ONE, Assignment, Lock, Use
from domain.coupons.eligibility import ASSIGN, PERIOD_LIMITS, USE, Attempt, MemberFacts, refuse_excluded
from domain.coupons.locks import CouponLock, CouponLocked, refuse_ended
from domain.coupons.lots import CouponLot, LotRange, total_value
from domain.coupons.state import PERSONAL_TYPES, ZERO, CouponState
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

# The ledger itself checks whether the points suffice: it knows the actual price, which may differ from the book's.
_CHECKED_BY_LEDGER: frozenset[type[Conflict]] = frozenset({InsufficientBalance})


@dataclass(frozen=True, slots=True)
class _Amounts:
    """The amounts of a usage, the lot `lot_id` that they belong to, and the usage that it reverts, if any."""

    lot_id: int | None = None
    assigned: Decimal = ZERO
    used: Decimal = ZERO
    discounted: Decimal | None = None
    remaining_value: Decimal | None = None
    reverted_usage_id: int | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)


class CouponService:
    """Coupon operations for the members of a unit of work.

    `facts` returns the facts about a member that eligibility depends on, apart from coupons.
    """

    def __init__(
        self,
        state: CouponState,
        charge: PointsCharge,
        facts: Callable[[Member, BookTerms], MemberFacts],
        new_key: Callable[[], str],
        new_usage_id: Callable[[], int],
    ) -> None:
        self._state = state
        self._charge = charge
        self._facts = facts
        self._new_key = new_key
        self._new_usage_id = new_usage_id

    def assign(self, member: Member, book: BookTerms, command: Assignment, details: UsageDetails) -> CouponUsage:
        """Assign a coupon; raises the first refusal, and has then changed nothing."""
        book = self._state.books[book.coupon_book_id]
        attempt = Attempt(ASSIGN, command.amount, order_total=command.order_total, occasion=command.occasion)
        self._refuse_assignment(member, book, attempt)
        savepoint, key = self._state.savepoint(), self._new_key()
        try:
            coupon = self._state.coupon_to_assign(member.member_id, book, command.coupon, command.amount)
            price = (book.assignment_required_points or ZERO) * command.amount
            transaction_id = self._charge.pay(member.wallet_id, book, price, details, key)
        except Refusal:
            self._state.rollback_to(savepoint)
            raise
        value = book.face_value if book.is_value_coupon else None
        lot = CouponLot(
            organization_id=book.organization_id,
            coupon_lot_id=self._new_usage_id(),
            member_id=member.member_id,
            coupon_id=coupon.coupon_id,
            coupon_book_id=book.coupon_book_id,
            amount=command.amount,
            amount_used=ZERO,
            amount_owed=ZERO,
            value=value,
            remaining_value=command.remaining_value or total_value(command.amount, value),
            custom_attributes=command.coupon_data or {},
            expired_at=command.expires_at,
            created_at=self._state.at,
            updated_at=self._state.at,
        )
        member_coupon = self._state.add_amounts(member.member_id, coupon, command.amount, used_amount=ZERO, lot=lot)
        amounts = _Amounts(
            lot.coupon_lot_id,
            assigned=command.amount,
            remaining_value=lot.remaining_value,
            custom_attributes=details.custom_attributes,
        )
        return self._record_usage(book, member_coupon, amounts, details, key, transaction_id)

    def _refuse_assignment(self, member: Member, book: BookTerms, attempt: Attempt) -> None:
        """Raise the first refusal of an assignment by the rules of the book, if there is one."""
        totals, stock = self._state.totals(member.member_id, book.coupon_book_id), self._state.stock_left(book)
        locks = self._state.locks_of(member.member_id, book.coupon_book_id)
        reservations = [lock for lock in locks if lock.reserves_stock]
        facts = replace(self._facts(member, book), assigned=totals.assigned + len(reservations), stock_left=stock)
        refuse_excluded(book, facts, attempt, _CHECKED_BY_LEDGER)

    def _refuse_use(self, member: Member, book: BookTerms, command: Use) -> None:
        """Raise the first refusal of a use by the rules of the book, if there is one."""
        totals = self._state.totals(member.member_id, book.coupon_book_id)
        used_or_locked = totals.used + len(self._state.locks_of(member.member_id, book.coupon_book_id))
        facts = self._facts(member, book)
        facts = replace(facts, used_in_period=used_or_locked, discounted_in_period=totals.discounted)
        unchecked_refusals = _CHECKED_BY_LEDGER | (PERIOD_LIMITS if command.bypass_restrictions else frozenset())
        attempt = Attempt(
            USE,
            amount_discounted=command.amount_discounted,
            order_total=command.order_total,
            occasion=command.occasion,
        )
        refuse_excluded(book, facts, attempt, unchecked_refusals)

    def lock(self, member: Member, book: BookTerms, command: Lock, key: str, lock_id: int) -> CouponLock:
        """Lock a coupon; raises the first refusal, and the caller rolls back."""
        book = self._state.books[book.coupon_book_id]
        use = Use(coupon=command.coupon, auto_assign=command.auto_assign)
        self._refuse_use(member, book, use)
        lot = self._find_lot(member, book, use, 1)
        if lot is not None:
            coupon = self._state.coupons[lot.coupon_id]
        elif command.auto_assign:
            self._refuse_assignment(member, book, Attempt(ASSIGN))
            coupon = self._state.coupon_to_assign(member.member_id, book, command.coupon, ONE)
        else:
            raise self._nothing_to_use(member, book, use)
        lock = CouponLock(
            organization_id=book.organization_id,
            coupon_lock_id=lock_id,
            coupon_lock_key=key,
            member_id=member.member_id,
            coupon_book_id=book.coupon_book_id,
            coupon_id=coupon.coupon_id,
            coupon_lot_id=None if lot is None else lot.coupon_lot_id,
            coupon_usage_id=None,
            system_unique_key=command.system_unique_key,
            request_digest=command.request_digest,
            expires_at=command.expires_at,
            ended_at=None,
            created_at=self._state.at,
            updated_at=self._state.at,
        )
        self._state.store_lock(lock)
        return lock

    def end_lock(self, lock: CouponLock) -> CouponLock:
        """End an active lock, by its use or its release; raises CouponLockEnded."""
        refuse_ended(self._state.locks.get(lock.coupon_lock_id, lock), self._state.at)
        ended_lock = replace(lock, ended_at=self._state.at, updated_at=self._state.at)
        self._state.store_lock(ended_lock)
        return ended_lock

    def use(self, member: Member, book: BookTerms, command: Use, details: UsageDetails) -> list[CouponUsage]:
        """Use coupons; return a usage for each. Only the details of a single use may have a key.

        Raises the first refusal; the caller rolls back the uses made before it.
        """
        if book.is_value_coupon:
            command.refuse_without_value()
        usages: list[CouponUsage] = []
        for remaining_uses in range(int(command.amount), 0, -1):
            book = self._state.books[book.coupon_book_id]
            self._refuse_use(member, book, command)
            lot = self._find_or_assign_lot(member, book, command, details, remaining_uses)
            usages.append(self._use_lot(member, book, lot, command.amount_discounted, details))
        return usages

    def _use_lot(
        self,
        member: Member,
        book: BookTerms,
        lot: CouponLot,
        discounted: Decimal | None,
        details: UsageDetails,
    ) -> CouponUsage:
        """Use one coupon of a lot, with its price in points; raises ValueExceeded, or a refusal of the ledger."""
        if lot.remaining_value is not None:
            lot.refuse_over_value(discounted)
        key = self._new_key()
        transaction_id = self._charge.pay(member.wallet_id, book, book.usage_required_points or ZERO, details, key)
        coupon, lot_after = self._state.coupons[lot.coupon_id], lot.after_use(ONE, self._state.at, discounted)
        # A use that leaves a part of the value of a coupon uses up no coupon: 0.
        used_amount = lot_after.amount_used - lot.amount_used
        member_coupon = self._state.add_amounts(member.member_id, coupon, ZERO, used_amount, lot=lot_after)
        self._state.count_use(member.member_id, book, ONE, discounted or ZERO, self._state.at)
        amounts = _Amounts(
            lot.coupon_lot_id,
            used=used_amount,
            discounted=discounted,
            remaining_value=lot_after.remaining_value,
            custom_attributes=details.custom_attributes,
        )
        return self._record_usage(book, member_coupon, amounts, details, key, transaction_id)

    def _find_or_assign_lot(
        self, member: Member, book: BookTerms, command: Use, details: UsageDetails, count: int
    ) -> CouponLot:
        """Find the lot to be used next; assign one if the use is of the stock, or allows it and the member has none.

        It is the unexpired lot that expires soonest, of equal ones the oldest. `count` is the number of remaining uses,
        including this one.
        """
        lot = None if command.from_stock else self._find_lot(member, book, command, count)
        if lot is None and command.auto_assign:
            # Points in the details are for the whole call, and only the use charges them.
            assignment_details = UsageDetails(
                description=details.description,
                tags=details.tags,
                loyalty_event_id=details.loyalty_event_id,
                points_override=None if details.points_override is None and details.pending_burn_id is None else ZERO,
            )
            assignment = Assignment(coupon=command.coupon, occasion=command.occasion)
            usage = self.assign(member, book, assignment, assignment_details)
            # It is the lot of this assignment, even if the member has others.
            lot = self._lot_of(usage)
        if lot is None:
            raise self._nothing_to_use(member, book, command)
        return lot

    def _find_lot(self, member: Member, book: BookTerms, command: Use, count: int) -> CouponLot | None:
        """The lot to be used next, None if the member has none; raises CouponLocked if only locked uses are left."""
        coupon = None if command.coupon is None else self._state.coupons[command.coupon.coupon_id]
        coupon_id = None if coupon is None else coupon.coupon_id
        lot_range = LotRange(book.coupon_book_id, coupon_id, with_expired=command.bypass_restrictions)
        lot = self._state.next_lot(member.member_id, lot_range, count)
        if lot is not None:
            return lot
        is_locked = bool(self._state.locks_of(member.member_id, book.coupon_book_id, coupon_id))
        # If each code of the book belongs to one member, another code can be assigned.
        can_assign = command.auto_assign and coupon is None and book.type in PERSONAL_TYPES
        if (is_locked and not can_assign) or (coupon is not None and coupon.is_locked(self._state.at)):
            fact = f"The coupon of the coupon book {book.name} is locked."
            raise CouponLocked(f"{fact} Use the key of its lock, or wait until the lock ends.")
        return None

    def _nothing_to_use(self, member: Member, book: BookTerms, command: Use) -> Conflict:
        """The refusal of a use of coupons that the member does not have, or that have expired."""
        if not command.bypass_restrictions:
            coupon_id = None if command.coupon is None else command.coupon.coupon_id
            range_with_expired = LotRange(book.coupon_book_id, coupon_id, with_expired=True)
            if self._state.next_lot(member.member_id, range_with_expired, 1) is not None:
                return CouponExpired(f"The coupon of the coupon book {book.name} has expired.")
        return CouponNotAssigned(f"The member has no coupon of the coupon book {book.name} left to use.")

    def revert(self, usage_id: int, details: UsageDetails, *, force: bool = False) -> CouponUsage:
        """Revert an assignment or a use, with its points; return the reversal.

        Raises UsageReverted, UsageNotRevertible, AssignmentUsed unless `force`, or a refusal of the ledger.
        """
        usage = self._revertible_usage(usage_id)
        lot = self._lot_of(usage)
        if not usage.is_use and lot is not None and lot.has_uses and not force:
            detail = f"{lot.amount_used} of the {lot.amount} assigned coupons are used"
            value_note = "" if lot.remaining_value is None else f", and a value of {lot.remaining_value} is left"
            raise AssignmentUsed(f"{detail}{value_note}.")
        key = self._new_key()
        transaction_id = None
        if usage.ledger_transaction_id is not None:
            transaction_id = self._charge.reverse(usage.ledger_transaction_id, details, key)
        if usage.is_use or lot is None:
            return self._revert_use(usage, lot, details, key, transaction_id)
        lot_after = lot.after_reverted_assignment(lot.amount, self._state.at)
        return self._record_reversal(usage, lot.amount, lot_after, details, key, transaction_id)

    def reverse_unused_part(self, usage_id: int, details: UsageDetails) -> CouponUsage | None:
        """Reverse the unused part of a usage of an event, without its points; return None if everything is used.

        The used part of an assignment is taken when its use is reverted.
        """
        usage = self._revertible_usage(usage_id)
        lot = self._lot_of(usage)
        if usage.is_use or lot is None:
            return self._revert_use(usage, lot, details, self._new_key(), transaction_id=None)
        unused_amount = lot.unused_amount
        lot_after = lot.after_reverted_assignment(unused_amount, self._state.at, owed_amount=lot.amount - unused_amount)
        if unused_amount == 0:
            self._state.store_lot(lot_after)
            return None
        return self._record_reversal(usage, unused_amount, lot_after, details, self._new_key(), transaction_id=None)

    def is_active(self, usage_id: int) -> bool:
        """True if a usage can still be reverted."""
        usage = self._state.usages.get(usage_id)
        return usage is not None and usage.reversal_usage_id is None and usage.reverted_usage_id is None

    def _revertible_usage(self, usage_id: int) -> CouponUsage:
        """The loaded usage with this id; raises UsageNotRevertible or UsageReverted."""
        usage = self._state.usages[usage_id]
        if usage.reverted_usage_id is not None:
            raise UsageNotRevertible(f"The usage {usage.coupon_usage_key} is a reversal.")
        if usage.reversal_usage_id is not None:
            raise UsageReverted(f"The usage {usage.coupon_usage_key} has already been reverted.")
        return usage

    def _lot_of(self, usage: CouponUsage) -> CouponLot | None:
        """The lot of the usage; None for a use whose assignment was reversed by force."""
        return None if usage.coupon_lot_id is None else self._state.lots[usage.coupon_lot_id]

    def _revert_use(
        self, usage: CouponUsage, lot: CouponLot | None, details: UsageDetails, key: str, transaction_id: int | None
    ) -> CouponUsage:
        """Return the used amount to the lot, and take the part of it that an earlier reversal could not take."""
        lot_after, taken_debt, used_amount = None, ZERO, usage.amount_used
        if lot is not None:
            lot_after = lot.after_reverted_use(usage.amount_used, self._state.at, usage.amount_discounted)
            taken_debt = lot.amount_owed - lot_after.amount_owed
            used_amount = lot.amount_used - lot_after.amount_used
        reversal = self._record_reversal(usage, taken_debt, lot_after, details, key, transaction_id, used_amount)
        # If the whole assignment was used when it was reversed, it got no reversal at that time. As soon as the lot has
        # no amount any more, the reversal of the use is also the reversal of the assignment.
        assignment = None if lot_after is None or lot_after.amount else self._state.usages.get(lot_after.coupon_lot_id)
        if assignment is not None and assignment.reversal_usage_id is None:
            self._state.link(assignment, reversal.coupon_usage_id)
        return reversal

    def _record_reversal(
        self,
        usage: CouponUsage,
        assigned_amount: Decimal,
        lot_after: CouponLot | None,
        details: UsageDetails,
        key: str,
        transaction_id: int | None,
        used_amount: Decimal = ZERO,
    ) -> CouponUsage:
        """Record a reversal, which subtracts both amounts from the member's sums; `lot_after` is the lot after it."""
        book, coupon = self._state.books[usage.coupon_book_id], self._state.coupons[usage.coupon_id]
        member_coupon = self._state.add_amounts(usage.member_id, coupon, -assigned_amount, -used_amount, lot_after)
        if usage.is_use:
            self._state.count_use(usage.member_id, book, -ONE, usage.negated_discount or ZERO, usage.created_at)
        amounts = _Amounts(
            usage.coupon_lot_id,
            assigned=-assigned_amount,
            used=-used_amount,
            remaining_value=None if lot_after is None else lot_after.remaining_value,
            discounted=usage.negated_discount,
            reverted_usage_id=usage.coupon_usage_id,
            custom_attributes=usage.custom_attributes,
        )
        reversal = self._record_usage(book, member_coupon, amounts, details, key, transaction_id)
        self._state.link(usage, reversal.coupon_usage_id)
        return reversal

    def _record_usage(
        self,
        book: BookTerms,
        member_coupon: MemberCoupon,
        amounts: _Amounts,
        details: UsageDetails,
        key: str,
        transaction_id: int | None,
    ) -> CouponUsage:
        """Add a usage that changes the member's sums of a coupon by `amounts`; return it."""
        # The lot of an assignment has the same id.
        usage_id = amounts.lot_id if amounts.assigned > 0 else None
        return self._state.add_usage(
            CouponUsage(
                organization_id=book.organization_id,
                coupon_usage_id=self._new_usage_id() if usage_id is None else usage_id,
                coupon_usage_key=key,
                coupon_id=member_coupon.coupon_id,
                code=self._state.coupons[member_coupon.coupon_id].code,
                coupon_book_id=book.coupon_book_id,
                coupon_book_key=book.coupon_book_key,
                coupon_book_version_id=book.current_version_id,
                coupon_lot_id=amounts.lot_id,
                member_id=member_coupon.member_id,
                system_unique_key=details.system_unique_key or self._new_key(),
                request_digest=details.request_digest,
                custom_attributes=amounts.custom_attributes,
                amount_used=amounts.used,
                amount_assigned=amounts.assigned,
                updated_total_usages=member_coupon.amount_used,
                updated_total_assigned=member_coupon.amount_assigned,
                reversal_usage_id=None,
                reverted_usage_id=amounts.reverted_usage_id,
                amount_discounted=amounts.discounted,
                remaining_value=amounts.remaining_value,
                ledger_transaction_id=transaction_id,
                external_id=details.external_id,
                description=details.description,
                tags=list(details.tags),
                loyalty_event_id=details.loyalty_event_id,
                created_at=self._state.at,
                updated_at=self._state.at,
            )
        )
