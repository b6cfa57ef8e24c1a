"""Coupons in a unit of work: assigned, used and reverted by campaign effects, rewards and requests alike."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from domain.campaigns.context import EventFacts, ExecutorResult, balances_by_name
from domain.campaigns.outcomes import BadParameter, NothingToDo
from domain.coupons.books import CODELESS, BookTerms, Coupon
from domain.coupons.charges import PointsCharge, UsageDetails
from domain.coupons.commands import Assignment, Lock, Use
from domain.coupons.conditions import condition_may_read_orders, context_of
from domain.coupons.eligibility import MemberFacts
from domain.coupons.locks import CouponLock
from domain.coupons.service import CouponService
from domain.coupons.usages import CouponUsage
from domain.currencies import round_money
from domain.event_types import BENEFIT_USED, COUPON_ASSIGNED, COUPON_USED
from domain.events import UnknownMember
from domain.hours import Occasion
from domain.members import Member
from domain.orders import NO_ORDERS
from domain.problems import Refusal
from domain.reversals import ReversedPart
from handlers.messages.derived_events import coupon_payload, moved_coupon
from handlers.messages.reversals import reversed_coupon
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.facts import orders_before, present_tiers, tier_keys_of
from handlers.services.unit_of_work.participants.coupon_loader import CouponLoader
from handlers.services.unit_of_work.reversals import Reversal
from persistence import posting
from persistence.coupons.usages import USAGES

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork

# The maximum amounts of an effect; a use creates one usage for each coupon.
_MAX_USED_AT_ONCE, _MAX_ASSIGNED_AT_ONCE = Decimal(100), Decimal(1_000_000)

T = TypeVar("T")


class CouponWork:
    """Coupons in a unit of work: usages that may be reversed are loaded at once, books when they are first used."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self.loader = CouponLoader(unit)
        # `unit` is a weak reference; its bound method would be a strong one, so the lambda looks the method up.
        self._charge = PointsCharge(
            unit.ledger, unit.configuration.accounts_by_key, lambda number: unit.transaction_id(number)
        )
        self._service = CouponService(
            self.loader.state, self._charge, partial(_facts_of, unit), unit.new_key, self.loader.usage_ids.take
        )
        self._reported_count = 0
        if unit.reversals:
            event_ids = unit.reversals.event_ids
            active_usages = USAGES.find_all(
                unit.db, unit.organization_id, loyalty_event_id=event_ids, reversal_usage_id=None
            )
            self.loader.load_revertible(active_usages)

    # -- changes by requests, effects and rewards ---------------------------------------------------------------------

    def assign(self, member_id: int, book: BookTerms, command: Assignment, details: UsageDetails) -> CouponUsage:
        """Assign a coupon of a loaded book; if it is refused, nothing has changed."""
        self._load_transactions([details.pending_burn_id])
        return self._service.assign(self._member(member_id), self.loader.lock_stock(book), command, details)

    def use(self, member_id: int, book: BookTerms, command: Use, details: UsageDetails) -> list[CouponUsage]:
        """Use coupons of a loaded book; if it is refused, nothing has changed."""
        self._load_transactions([details.pending_burn_id])
        if command.auto_assign:
            book = self.loader.lock_stock(book)
        return self.run_or_roll_back(partial(self._service.use, self._member(member_id), book, command, details))

    def lock(self, member_id: int, book: BookTerms, command: Lock) -> CouponLock:
        """Lock a coupon of a loaded book; if it is refused, nothing has changed."""
        if command.auto_assign:
            book = self.loader.lock_stock(book)
        key = self._unit.new_key()
        lock_id = self.loader.lock_ids.take()
        return self.run_or_roll_back(partial(self._service.lock, self._member(member_id), book, command, key, lock_id))

    def use_locked(self, lock: CouponLock, command: Use, details: UsageDetails) -> list[CouponUsage]:
        """End a lock by using its coupon; if it is refused, nothing has changed."""
        book = self.loader.find_book(coupon_book_id=lock.coupon_book_id)

        def end_and_use() -> list[CouponUsage]:
            ended_lock = self._service.end_lock(lock)
            # A lock that reserves stock has assigned no coupon yet, so the use assigns one first.
            use = replace(command, auto_assign=lock.reserves_stock, from_stock=lock.reserves_stock)
            usages = self.use(lock.member_id, book, use, details)
            self.loader.state.link_lock(ended_lock, usages[0].coupon_usage_id)
            return usages

        return self.run_or_roll_back(end_and_use)

    def release(self, lock: CouponLock) -> CouponLock:
        """Release a lock, and return it as ended; raises CouponLockEnded."""
        book = self.loader.find_book(coupon_book_id=lock.coupon_book_id)
        self.loader.load_by_code(book, codes=(), coupon_ids=[lock.coupon_id])
        return self._service.end_lock(lock)

    def revert(self, usage: CouponUsage, details: UsageDetails, *, force: bool = False) -> CouponUsage:
        """Reverse a loaded usage; if it is refused, nothing has changed.

        With `force`, also an assignment whose coupons the member has used in part.
        """
        self._load_transactions([usage.ledger_transaction_id])
        return self._service.revert(usage.coupon_usage_id, details, force=force)

    def assign_reward(
        self,
        member_id: int,
        coupon_book_key: str,
        amount: Decimal = Decimal(1),
        *,
        loyalty_event_id: int | None = None,
        external_event_date: datetime | None = None,
        description: str | None = None,
        occasion: Occasion | None = None,
    ) -> CouponUsage:
        """Assign `amount` of a coupon of the book as a reward of an event or, without `occasion`, of a request.

        Raises UnknownCouponBook, or the refusal of the assignment.
        """
        details = UsageDetails(
            loyalty_event_id=loyalty_event_id, external_event_date=external_event_date, description=description
        )
        return self.assign(
            member_id, self.loader.find_book(key=coupon_book_key), Assignment(amount, occasion=occasion), details
        )

    def find_largest_part(self, amount: int, assign: Callable[[Decimal], CouponUsage]) -> int:
        """Find the largest part of a refused amount that `assign` does not refuse; undo all assignments.

        Returns 0 if `assign` refuses every part.
        """

        def is_refused(part: int) -> bool:
            try:
                self.run_and_undo(lambda: assign(Decimal(part)))
            except Refusal:
                return True
            return False

        # The part 1 has the index 0, so the index of the first refused part is the largest part that is not refused.
        return bisect_left(range(1, amount), True, key=is_refused)

    def coupon(self, book: BookTerms, code: str) -> Coupon:
        """The book's coupon with this code, if it is loaded; raises UnknownCoupon."""
        return self.loader.state.coupon_by_code(book, code)

    def facts(self, member: Member, books: Sequence[BookTerms]) -> list[MemberFacts]:
        """The facts of a member that decide about loaded books, except how many unused coupons the member has."""
        facts = _facts_of(self._unit, member, *books)
        return [self._with_amounts(facts, member, book) for book in books]

    def _with_amounts(self, facts: MemberFacts, member: Member, book: BookTerms) -> MemberFacts:
        """The facts with the amounts of one book."""
        totals = self.loader.state.totals(member.member_id, book.coupon_book_id)
        locks = self.loader.state.locks_of(member.member_id, book.coupon_book_id)
        account = self._charge.account_of(book)
        points = Decimal(0)
        if account is not None:
            points = self._unit.ledger.holding(member.wallet_id, account.ledger_account_id).available
        return replace(
            facts,
            stock_left=self.loader.state.stock_left(book),
            assigned=totals.assigned + sum(lock.reserves_stock for lock in locks),
            has_locks=bool(locks),
            used_in_period=totals.used + len(locks),
            discounted_in_period=totals.discounted,
            points=points,
        )

    def try_use(self, member_id: int, book: BookTerms, command: Use) -> Refusal | None:
        """Try a use and undo it; return its refusal, None if the use is possible."""
        try:
            self.run_and_undo(lambda: self.use(member_id, book, command, UsageDetails()))
        except Refusal as refusal:
            return refusal
        return None

    def run_and_undo(self, act: Callable[[], T]) -> T:
        """Run `act` and undo its changes of coupons and points, also if it raises; return its result."""
        state, ledger = self.loader.state.savepoint(), self._unit.ledger.savepoint()
        try:
            return act()
        finally:
            self.loader.state.rollback_to(state)
            self._unit.ledger.rollback_to(ledger)

    def run_or_roll_back(self, act: Callable[[], T]) -> T:
        """Run `act` as a whole: if it raises a Refusal, its changes are rolled back."""
        state, ledger = self.loader.state.savepoint(), self._unit.ledger.savepoint()
        try:
            return act()
        except Refusal:
            self.loader.state.rollback_to(state)
            self._unit.ledger.rollback_to(ledger)
            raise

    def prepare_reverts(self, usages_to_revert: Collection[CouponUsage]) -> None:
        """Load usages to be reverted, with their transactions, in a fixed number of statements."""
        self.loader.load_revertible(usages_to_revert)
        self._load_transactions([usage.ledger_transaction_id for usage in usages_to_revert])

    # -- methods of a participant -------------------------------------------------------------------------------------

    def take_derived(self) -> Sequence[DerivedEvent]:
        """Return the events of assignments and uses since the last call; uses of codeless books are `benefit-used`."""
        usages = self.loader.state.new_usages[self._reported_count :]
        self._reported_count += len(usages)
        return [self._event_of(usage) for usage in usages if usage.reverted_usage_id is None]

    def reverse(self, event_id: int, reversal: Reversal) -> Sequence[ReversedPart]:
        """Reverse the assignments and uses of an event, newest first, except the used part of an assignment.

        Uses of a book without `restore_on_cancel` are not reversed. For that reason `persistence.reversals` leaves out
        the points that such uses burned.
        """
        details = UsageDetails(
            description=reversal.description,
            loyalty_event_id=reversal.loyalty_event_id,
            external_event_date=reversal.external_event_date,
        )
        by_id = self.loader.state.usages
        event_usage_ids = [usage.coupon_usage_id for usage in by_id.values() if usage.loyalty_event_id == event_id]
        parts = []
        for usage_id in sorted(event_usage_ids, reverse=True):
            usage = by_id[usage_id]
            is_restored = not usage.is_use or self.loader.state.books[usage.coupon_book_id].restore_on_cancel
            if is_restored and self._service.is_active(usage_id):
                parts.append(reversed_coupon(usage, self._service.reverse_unused_part(usage_id, details)))
        return parts

    def flush(self) -> None:
        """Store the changes since the last flush."""
        self.loader.flush()
        self._reported_count = 0

    # -- effects ------------------------------------------------------------------------------------------------------

    def assign_by_effect(self, event: EventFacts, params: Mapping[str, Any]) -> ExecutorResult:
        """Execute the effect `assign-coupon`."""
        amount = _whole_amount(params["amount"], _MAX_ASSIGNED_AT_ONCE)
        book = self.loader.find_book(key=params["couponBookKey"])
        command = Assignment(amount, occasion=event.occasion)
        usage = self.assign(event.member_id, book, command, _details_of(event))
        worth = None if book.face_value is None else round_money(amount * book.face_value, event.home_currency)
        return ExecutorResult(amount, _moved_coupons([usage]), worth)

    def use_by_effect(self, event: EventFacts, params: Mapping[str, Any]) -> ExecutorResult:
        """Execute the effect `use-coupon`."""
        amount = _whole_amount(params["amount"], _MAX_USED_AT_ONCE)
        book = self.loader.find_book(key=params["couponBookKey"])
        # The coupon is used for the event's order, so the order's total decides; an assigned coupon is for a later one.
        command = Use(amount, order_total=event.spend, occasion=event.occasion)
        return ExecutorResult(amount, _moved_coupons(self.use(event.member_id, book, command, _details_of(event))))

    # -- details ------------------------------------------------------------------------------------------------------

    def _event_of(self, usage: CouponUsage) -> DerivedEvent:
        """The derived event that reports a usage."""
        book = self.loader.state.books[usage.coupon_book_id]
        event_type = COUPON_ASSIGNED
        if usage.is_use:
            event_type = BENEFIT_USED if book.type == CODELESS else COUPON_USED
        return DerivedEvent(usage.member_id, event_type, coupon_payload(usage, book))

    def _member(self, member_id: int) -> Member:
        member = self._unit.members.get(member_id)
        if member is None:
            raise UnknownMember(f"There is no member {member_id}.")
        return member

    def _load_transactions(self, ids: Iterable[int | None]) -> None:
        """Load transactions that are to be captured or reverted; the id None means no transaction."""
        transactions = self._charge.stored_transactions
        missing_ids = {transaction_id for transaction_id in ids if transaction_id is not None} - transactions.keys()
        if missing_ids:
            transactions.update(posting.find_stored(self._unit.db, self._unit.organization_id, missing_ids))


def _facts_of(unit: UnitOfWork, member: Member, *books: BookTerms) -> MemberFacts:
    """The facts of a member that decide about books, except those about coupons; looks up only what the books need."""
    conditions = [book.condition for book in books if book.condition]
    tiers = audiences = frozenset[str]()
    if conditions or any(book.tier_keys for book in books):
        tiers = tier_keys_of(unit, present_tiers(unit, member))
    if conditions or any(book.audience_keys for book in books):
        audiences = frozenset(audience.audience_key for audience in unit.audiences[member.member_id])
    return MemberFacts(
        at=unit.now,
        zone=unit.coupons.loader.state.zone,
        is_active=member.active,
        tier_keys=tiers,
        audience_keys=audiences,
        context=_context(unit, member, conditions, tiers, audiences) if conditions else {},
    )


def _context(
    unit: UnitOfWork,
    member: Member,
    conditions: Iterable[Mapping[str, Any]],
    tiers: frozenset[str],
    audiences: frozenset[str],
) -> Mapping[str, Any]:
    """The variables of the conditions of books."""
    reads_orders = any(map(condition_may_read_orders, conditions))
    return context_of(
        member,
        balances=balances_by_name(unit.ledger, member.wallet_id, unit.configuration.accounts.values()),
        badges=unit.badges.balances_by_key(member.member_id) if unit.configuration.badges else {},
        audience_keys=audiences,
        tier_keys=tiers,
        now=unit.now,
        orders=orders_before(unit, member, unit.now) if reads_orders else NO_ORDERS,
    )


def _moved_coupons(usages: Collection[CouponUsage]) -> Mapping[str, Any]:
    """The coupons in the outcome of an effect."""
    return {"coupons": [moved_coupon(usage) for usage in usages]}


def _details_of(event: EventFacts) -> UsageDetails:
    return UsageDetails(loyalty_event_id=event.loyalty_event_id, external_event_date=event.external_event_date)


def _whole_amount(amount: Decimal, maximum: Decimal) -> Decimal:
    """The amount of an effect, rounded down to whole coupons; raises BadParameter or NothingToDo."""
    if amount > maximum:
        raise BadParameter(f"amount evaluated to {amount}, more than {maximum}.")
    whole_amount = amount.to_integral_value(ROUND_FLOOR)
    if not whole_amount:
        raise NothingToDo("The amount of coupons is zero.")
    return whole_amount
