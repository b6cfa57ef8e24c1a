"""The coupons of a simulation: the codes that the customer presents, and the books that the member could redeem."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from domain.coupons.books import LIST, BookTerms, Coupon, UnknownCoupon
from domain.coupons.commands import Use
from domain.coupons.conditions import holds
from domain.coupons.discounts import discount_of
from domain.coupons.eligibility import (
    ASSIGN_AND_USE,
    USE,
    Attempt,
    MemberFacts,
    exclusions,
    exclusions_from_list,
    is_usable,
    points_needed,
)
from domain.coupons.lots import LotRange
from domain.coupons.refusals import ConditionNotMet, OrderTotalTooLow
from domain.expressions import Deadline, TimeExceeded
from domain.ledger.refusals import InsufficientBalance
from domain.problems import DeadlineExceeded, Refusal
from handlers.services.simulations.dry_run import DryRun
from handlers.services.simulations.results import Exclusion, PresentedCode, Redemption
from handlers.services.unit_of_work.deadlines import event_deadline
from persistence.coupons import member_books
from persistence.coupons.codes import COUPONS
from persistence.coupons.member_books import Amounts

MAX_REDEMPTIONS = 50
"""The maximum number of books that a simulation returns."""

MAX_OFFERS = 1000
"""The maximum number of books that a simulation considers."""

ONE, _ZERO = Decimal(1), Decimal(0)


@dataclass(frozen=True, slots=True)
class Offer:
    """A book that is offered to the member, before the event."""

    book: BookTerms
    facts: MemberFacts
    order_total: Decimal | None
    currency: str | None

    def exclusions(self, deadline: Deadline) -> Sequence[Refusal]:
        """The refusals that keep the member from redeeming the book now; raises TimeExceeded."""
        return exclusions_from_list(self.book, self.facts, self.order_total, deadline=deadline)

    def is_usable(self, deadline: Deadline) -> bool:
        """True if nothing keeps the member from redeeming the book now; raises TimeExceeded."""
        return is_usable(self.book, self.facts, self.order_total, deadline=deadline)

    def meets_condition(self, deadline: Deadline) -> bool:
        """True if the condition of the book holds; raises TimeExceeded."""
        return holds(self.book.condition, self.facts.context, deadline)

    @property
    def cost(self) -> Decimal | None:
        """The points that a use costs, together with an assignment if no unused coupon is left; None for no points."""
        return points_needed(self.book, USE if self.facts.unused >= ONE else ASSIGN_AND_USE) or None

    @property
    def missing_points(self) -> Decimal | None:
        """The points that the member lacks for the cost, if that is the only exclusion; None if it is not.

        The condition of the book, which takes longest, is not checked: `meets_condition` does so.
        """
        reasons = exclusions_from_list(self.book, self.facts, self.order_total, unchecked_refusals={ConditionNotMet})
        cost = self.cost
        if cost is None or not _is_only_reason(reasons, InsufficientBalance):
            return None
        return cost - self.facts.points


def _is_only_reason(reasons: Sequence[Refusal], kind: type[Refusal]) -> bool:
    """True if `reasons` are one refusal, and it is of this kind."""
    return len(reasons) == 1 and type(reasons[0]) is kind


def offers_of(run: DryRun) -> tuple[list[Offer], bool]:
    """The published books within their dates, by `rankingIndex`, with the facts of the member at this point of the run.

    At most MAX_OFFERS; also returns True if these are all.
    """
    unit, member = run.unit, run.member
    ids = member_books.find_offered_books(unit.db, unit.organization_id, unit.now, MAX_OFFERS + 1)
    if not ids:
        return [], True
    has_all = len(ids) <= MAX_OFFERS
    ids = ids[:MAX_OFFERS]
    coupons = unit.coupons
    coupons.loader.load(sorted(set(ids) - coupons.loader.state.books.keys()))
    amounts = member_books.find_amounts(unit.db, member, ids, unit.now)
    books = [coupons.loader.state.books[book_id] for book_id in ids if book_id in coupons.loader.state.books]
    list_ids = [book.coupon_book_id for book in books if book.type == LIST]
    books_with_free_codes: Collection[int] = ()
    if list_ids:
        books_with_free_codes = member_books.find_books_with_free_codes(
            unit.db, unit.organization_id, list_ids, unit.now
        )
    offers = []
    for book, facts in zip(books, coupons.facts(member, books), strict=True):
        # `facts` knows neither the unused coupons of the member nor the free codes of a list; both are read above.
        locks = coupons.loader.state.locks_of(member.member_id, book.coupon_book_id)
        # Locks of the stock reserve no coupon of the member.
        locked_count = sum(not lock.reserves_stock for lock in locks)
        unused_amount = amounts.get(book.coupon_book_id, Amounts()).unused - locked_count
        stock = facts.stock_left
        if book.type == LIST:
            stock = Decimal(book.coupon_book_id in books_with_free_codes)
        complete_facts = replace(facts, unused=unused_amount, stock_left=stock)
        offers.append(Offer(book, complete_facts, run.scenario.total, run.currency))
    return offers, has_all


def offers_after(run: DryRun, offers: Sequence[Offer]) -> list[Offer]:
    """The offers at this later point of the run, with the coupons that it has assigned since."""
    later_offers: list[Offer] = []
    if not offers:
        return later_offers
    books = [run.unit.coupons.loader.state.books[offer.book.coupon_book_id] for offer in offers]
    for offer, book, facts in zip(offers, books, run.unit.coupons.facts(run.member, books), strict=True):
        before = offer.facts
        unused = before.unused + facts.assigned - before.assigned
        # The free codes of a list are not counted again.
        stock = before.stock_left if book.type == LIST else facts.stock_left
        later_offers.append(replace(offer, book=book, facts=replace(facts, unused=unused, stock_left=stock)))
    return later_offers


def redemptions(
    before: Sequence[Offer], after: Sequence[Offer], *, has_all_offers: bool
) -> tuple[list[Redemption], bool]:
    """The offers before the event as redemptions, usable ones first; the points after it decide what is affordable.

    An offer is left out if its condition cannot be evaluated within the time for the expressions of one event. Also
    returns True if these are the first MAX_REDEMPTIONS of all offers, False if some may have been left out.
    """
    deadline = event_deadline()
    is_complete = True
    usable_redemptions: list[Redemption] = []
    unusable_redemptions: list[Redemption] = []
    for offer, later_offer in zip(before, after, strict=True):
        try:
            if len(unusable_redemptions) < MAX_REDEMPTIONS:
                reasons = offer.exclusions(deadline)
                redemptions_of_kind = unusable_redemptions if reasons else usable_redemptions
                redemptions_of_kind.append(_redemption(offer, reasons, later_offer.facts.points))
            elif offer.is_usable(deadline):
                usable_redemptions.append(_redemption(offer, reasons=(), points_after=later_offer.facts.points))
        except TimeExceeded:
            is_complete = False
        if len(usable_redemptions) == MAX_REDEMPTIONS:
            break
    else:
        # All of `before` was checked, so that only offers that were not read can be missing.
        is_complete = is_complete and has_all_offers
    return [*usable_redemptions, *unusable_redemptions][:MAX_REDEMPTIONS], is_complete


def presented_codes(run: DryRun, codes: Sequence[str]) -> list[PresentedCode]:
    """Find for each code whether and how it could be used for the order, before the event has any effect.

    A code is not usable if loading its books and evaluating their conditions takes longer than the expressions of one
    event may take.
    """
    deadline = event_deadline()
    coupons = COUPONS.find_all(run.unit.db, run.unit.organization_id, code=set(codes)) if codes else []
    by_code: dict[str, list[Coupon]] = {}
    for coupon in sorted(coupons, key=lambda coupon: coupon.coupon_id):
        by_code.setdefault(coupon.code or "", []).append(coupon)
    loader = run.unit.coupons.loader
    for book_id in sorted({coupon.coupon_book_id for coupon in coupons}):
        if deadline.has_passed():
            # `_presented_code` then reports every code that a coupon has as not usable.
            break
        coupon_ids = [coupon.coupon_id for coupon in coupons if coupon.coupon_book_id == book_id]
        loader.load_by_code(loader.find_book(coupon_book_id=book_id), codes=(), coupon_ids=coupon_ids)
    return [_presented_code(run, code, by_code.get(code, ()), deadline) for code in codes]


def _presented_code(run: DryRun, code: str, coupons: Sequence[Coupon], deadline: Deadline) -> PresentedCode:
    """The first usable coupon with the code, which several books may have; the first one if none is usable."""
    first_coupon: PresentedCode | None = None
    try:
        for coupon in coupons:
            if deadline.has_passed():
                raise TimeExceeded
            presented_coupon = _presented_coupon(run, code, coupon, deadline)
            if presented_coupon.usable:
                return presented_coupon
            first_coupon = first_coupon or presented_coupon
    except TimeExceeded:
        detail = "The coupon books of the codes take too much time. Present fewer codes."
        return _code_without_book(code, DeadlineExceeded(detail))
    return first_coupon or _code_without_book(code, UnknownCoupon(f"There is no coupon with the code {code}."))


def _code_without_book(code: str, reason: Refusal) -> PresentedCode:
    """A code that is not usable, for a reason that is not about a coupon book."""
    return PresentedCode(
        code=code,
        coupon_book_key=None,
        usable=False,
        discount=None,
        exclusion_reasons=_exclusions([reason]),
        missing_total=None,
    )


def _presented_coupon(run: DryRun, code: str, coupon: Coupon, deadline: Deadline) -> PresentedCode:
    """The code with the discount of its coupon, and the exclusions of a use by the member; raises TimeExceeded."""
    work, member, total = run.unit.coupons, run.member, run.scenario.total
    book = work.loader.state.books[coupon.coupon_book_id]
    unexpired_lots = LotRange(book.coupon_book_id, coupon.coupon_id, with_expired=False)
    lot = work.loader.state.next_lot(member.member_id, unexpired_lots, 1)
    discount = discount_of(book, total, run.currency, None if lot is None else lot.remaining_value)
    purpose = ASSIGN_AND_USE if lot is None else USE
    attempt = Attempt(purpose, amount_discounted=discount, order_total=total, deadline=deadline)
    [facts] = work.facts(member, [book])
    reasons: list[Refusal] = list(exclusions(book, facts, attempt))
    # `exclusions` checks neither who has the code nor whether it has expired: trying the use does.
    command = Use(coupon=coupon, amount_discounted=discount, auto_assign=True)
    refusal = work.try_use(member.member_id, book, command)
    if refusal is not None and refusal.slug not in {reason.slug for reason in reasons}:
        reasons.append(refusal)
    missing_total = None
    if total is not None and book.min_order_total is not None and _is_only_reason(reasons, OrderTotalTooLow):
        missing_total = book.min_order_total - total
    return PresentedCode(code, book.coupon_book_key, not reasons, discount, _exclusions(reasons), missing_total)


def _redemption(offer: Offer, reasons: Sequence[Refusal], points_after: Decimal) -> Redemption:
    """The offer with its cost, its discount, and the reasons why the member cannot redeem it."""
    cost, book = offer.cost, offer.book
    # The remaining value of a value coupon that the member already has is not loaded: report no discount.
    is_value_unknown = book.is_value_coupon and offer.facts.unused > 0
    return Redemption(
        coupon_book_key=book.coupon_book_key,
        name=book.name,
        usable=not reasons,
        cost=cost,
        missing_points=None if cost is None else max(_ZERO, cost - offer.facts.points),
        affordable_after_order=cost is None or cost <= points_after,
        discount=None if is_value_unknown else discount_of(book, offer.order_total, offer.currency),
        exclusion_reasons=_exclusions(reasons),
    )


def _exclusions(reasons: Iterable[Refusal]) -> list[Exclusion]:
    """The refusals in the form of the response."""
    return [Exclusion(reason.slug, reason.detail) for reason in reasons]
