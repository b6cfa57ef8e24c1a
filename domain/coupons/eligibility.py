"""Eligibility of a member for coupons of a book: a list of rules, each with its own refusal.

A rule returns the reason for its refusal, or None. An assignment or a use raises the first refusal; a dry run lists
all of them. A book is in a member's list if the member could use it now, with a coupon that the member has or that the
same call would assign.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any

from domain.calendar import day_of_week, instant_text
from domain.coupons.books import ARCHIVED, LIST, PUBLISHED, BookArchived, BookTerms
from domain.coupons.conditions import holds
from domain.coupons.locks import CouponLocked
from domain.coupons.lots import zone_of
from domain.coupons.refusals import (
    AudienceNotEligible,
    BookClosed,
    BookExpired,
    BookNotPublished,
    BookNotToday,
    BookNotYetValid,
    ConditionNotMet,
    DiscountLimitReached,
    DiscountTooHigh,
    OrderTotalTooLow,
    OutOfStock,
    QuotaReached,
    TierNotEligible,
    UsageLimitReached,
)
from domain.coupons.state import PERSONAL_TYPES
from domain.currencies import EXACT
from domain.expressions import Deadline
from domain.hours import Occasion, hours_of, local_clock
from domain.ledger.refusals import InsufficientBalance
from domain.members import MemberInactive
from domain.problems import Conflict

ZERO, ONE = Decimal(0), Decimal(1)

ASSIGN, USE = frozenset({"assign"}), frozenset({"use"})
ASSIGN_AND_USE = ASSIGN | USE

PERIOD_LIMITS: frozenset[type[Conflict]] = frozenset({UsageLimitReached, DiscountLimitReached})
"""The rules that `bypassUsageRestrictions` disables, in addition to the expiry of the coupon."""


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Facts about a member and a book at the moment `at`.

    `assigned` is what the member was assigned of the book (less reversals), `unused` what the member can still use,
    without the amounts that locks reserve. `has_locks` is true if the member has active locks of the book; they count
    as used, and locks of the stock as assigned, too. `stock_left` is None for unlimited stock; `points` is the balance
    of the account that pays the book's points; `context` has the variables of conditions. `zone` is the organization's,
    for books without a time zone of their own.
    """

    at: datetime
    zone: tzinfo = UTC
    is_active: bool = True
    tier_keys: Collection[str] = frozenset()
    audience_keys: Collection[str] = frozenset()
    context: Mapping[str, Any] = field(default_factory=dict)
    stock_left: Decimal | None = None
    assigned: Decimal = ZERO
    unused: Decimal = ZERO
    has_locks: bool = False
    used_in_period: Decimal = ZERO
    discounted_in_period: Decimal = ZERO
    points: Decimal = ZERO


@dataclass(frozen=True, slots=True)
class Attempt:
    """A requested operation: an assignment of `amount`, a use with or without a discount, or both.

    `order_total` is the total of the order that the coupon is for, None if it is not known. `occasion` is when the
    event happened that causes the operation, None for a request: it decides about days and hours. `deadline` limits the
    evaluation of the book's condition.
    """

    purpose: frozenset[str]
    amount: Decimal = ONE
    amount_discounted: Decimal | None = None
    order_total: Decimal | None = None
    occasion: Occasion | None = None
    deadline: Deadline | None = None


def exclusions(
    book: BookTerms, facts: MemberFacts, attempt: Attempt, unchecked_refusals: Collection[type[Conflict]] = ()
) -> Iterator[Conflict]:
    """All refusals, in the order of the rules; rules whose refusal is in `unchecked_refusals` are not checked.

    Raises TimeExceeded if the deadline of the attempt passes before the book's condition is evaluated.
    """
    for purposes, refusal, rule in _RULES:
        if purposes & attempt.purpose and refusal not in unchecked_refusals:
            why = rule(book, facts, attempt)
            if why is not None:
                yield refusal(why)


def refuse_excluded(
    book: BookTerms, facts: MemberFacts, attempt: Attempt, unchecked_refusals: Collection[type[Conflict]] = ()
) -> None:
    """Raise the first of the refusals, if there is one."""
    for refusal in exclusions(book, facts, attempt, unchecked_refusals):
        raise refusal


def exclusions_from_list(
    book: BookTerms,
    facts: MemberFacts,
    order_total: Decimal | None = None,
    *,
    deadline: Deadline | None = None,
    unchecked_refusals: Collection[type[Conflict]] = (),
) -> list[Conflict]:
    """All refusals that keep a book out of the list of books that a member can use now.

    `order_total` is the total of the order, None if it is not known. If the member has no unused coupon, the rules of
    an assignment apply, too; but while the member has a lock of a book whose coupon members share, no further one is
    assigned. The stock must be enough in any case, if it is known. Rules whose refusal is in `unchecked_refusals` are
    not checked. Raises TimeExceeded if the deadline passes before the condition is evaluated.
    """
    purpose = USE if facts.unused >= ONE else ASSIGN_AND_USE
    attempt = Attempt(purpose, order_total=order_total, deadline=deadline)
    reasons = list(exclusions(book, facts, attempt, {OutOfStock, *unchecked_refusals}))
    if facts.has_locks and facts.unused < ONE and book.type not in PERSONAL_TYPES:
        reasons.append(CouponLocked(f"The coupon of the coupon book {book.name} is locked."))
    shortage = _out_of_stock(book, facts, attempt)
    return reasons if shortage is None else [*reasons, OutOfStock(shortage)]


def is_usable(
    book: BookTerms, facts: MemberFacts, order_total: Decimal | None = None, *, deadline: Deadline | None = None
) -> bool:
    """True if `exclusions_from_list` has no refusals; evaluates the condition only if all other rules permit a use.

    Raises TimeExceeded if the deadline passes before the condition is evaluated.
    """
    return not exclusions_from_list(book, facts, order_total, unchecked_refusals={ConditionNotMet}) and holds(
        book.condition, facts.context, deadline
    )


_Rule = Callable[[BookTerms, MemberFacts, Attempt], str | None]
"""A rule is named after its refusal. It returns the text of the refusal, None if it allows the attempt."""


def _member_inactive(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    return None if facts.is_active else "The member is not active."


def _book_archived(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    return f"The coupon book {book.name} is archived." if book.publishing_status == ARCHIVED else None


def _not_published(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    if book.publishing_status in (PUBLISHED, ARCHIVED):
        return None
    return f"The coupon book is {book.publishing_status}."


def _not_yet_valid(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    start = book.valid_from_date
    if start is None or facts.at >= start:
        return None
    return f"The coupon book is not valid before {instant_text(start)}."


def _no_longer_valid(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    end = book.valid_to_date
    return f"The coupon book was valid until {instant_text(end)}." if end is not None and facts.at > end else None


def _clock(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> tuple[datetime, tzinfo]:
    """The moment of the attempt, and the zone of the book's days and hours."""
    at, zone = attempt.occasion or Occasion(facts.at)
    return at, zone or zone_of(book, facts.zone)


def _not_today(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    """The detail of the refusal on a day of the week that the book does not name; None if it is allowed."""
    if not book.days_of_week:
        return None
    today = day_of_week(*_clock(book, facts, attempt))
    if today in book.days_of_week:
        return None
    days = ", ".join(map(str, sorted(book.days_of_week)))
    return f"The coupon book is for the days {days} of the week, and this is day {today}."


def _closed_now(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    """The reason why a book is closed at the time of an attempt; None if it is open."""
    if book.day_of_week_schedule is None:
        return None
    at, zone = _clock(book, facts, attempt)
    if hours_of(book.day_of_week_schedule).is_open(at, zone):
        return None
    clock = local_clock(at, zone)
    return (
        f"The coupon book is closed at {clock['localTime']} on day {clock['day']} of the week"
        f" (time zone {clock['timezone']})."
    )


def _tier_not_eligible(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    if not book.tier_keys or any(key in facts.tier_keys for key in book.tier_keys):
        return None
    return "The member is in none of the coupon book's tiers."


def _audience_not_eligible(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    if not book.audience_keys or any(key in facts.audience_keys for key in book.audience_keys):
        return None
    return "The member is in none of the coupon book's audiences."


def _condition_not_met(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    is_met = holds(book.condition, facts.context, attempt.deadline)
    return None if is_met else "The condition of the coupon book does not hold."


def _order_total_too_low(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    minimum, total = book.min_order_total, attempt.order_total
    if minimum is None or total is None or total >= minimum:
        return None
    return f"The coupon book needs an order of at least {_plain(minimum)}, and this one has a total of {_plain(total)}."


def _out_of_stock(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    """The detail of the refusal if fewer coupons are left than requested; None if enough are left."""
    stock = facts.stock_left
    # Assigning any amount of a code of a list uses up the code.
    requested_amount = ONE if book.type == LIST else attempt.amount
    if stock is None or stock >= requested_amount:
        return None
    requested = "1 coupon was" if requested_amount == ONE else f"{_plain(requested_amount)} coupons were"
    return f"{requested} requested, {_plain(max(stock, ZERO))} are left."


def _quota_reached(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    maximum = book.max_assigned_per_member
    if maximum is None or facts.assigned + attempt.amount <= maximum:
        return None
    return f"A member may have {maximum} of the coupon book, and this one has had {_plain(facts.assigned)}."


def _usage_limit_reached(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    maximum = book.max_usages_per_period
    if maximum is None or facts.used_in_period + ONE <= maximum:
        return None
    return f"The coupon book may be used {maximum} times {book.usage_period_type}."


def _discount_limit_reached(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    """The reason why a discount would exceed the maximum of the period; None if it would not."""
    maximum = book.max_discount_per_period
    if maximum is None:
        return None
    discounted, discount = facts.discounted_in_period, attempt.amount_discounted
    # A use without a discount does not count against the limit, and a book that allows one is listed.
    if not discount or EXACT.add(discounted, discount) <= maximum:
        return None
    limit = f"{_plain(maximum)} {book.discount_period_type}"
    return f"The discount is limited to {limit}, of which {_plain(discounted)} was used."


def _discount_too_high(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    """The detail of the refusal of a discount above the maximum of one use; None if the use is allowed."""
    maximum, discount = book.max_discount_per_use, attempt.amount_discounted
    if maximum is None or discount is None or discount <= maximum:
        return None
    return f"One use may give a discount of at most {_plain(maximum)}, not {_plain(discount)}."


def _too_few_points(book: BookTerms, facts: MemberFacts, attempt: Attempt) -> str | None:
    """The detail of the refusal if the member has too few points; None if the points suffice."""
    price = points_needed(book, attempt.purpose)
    if price <= facts.points:
        return None
    return f"{_plain(price)} points are needed, and the member has {_plain(facts.points)}."


def points_needed(book: BookTerms, purpose: frozenset[str]) -> Decimal:
    """The points that the book requires for an assignment, a use, or both."""
    assignment = (book.assignment_required_points or ZERO) if ASSIGN & purpose else ZERO
    usage = (book.usage_required_points or ZERO) if USE & purpose else ZERO
    return assignment + usage


def _plain(number: Decimal) -> str:
    """The number without an exponent."""
    return f"{number:f}"


_RULES: tuple[tuple[frozenset[str], type[Conflict], _Rule], ...] = (
    (ASSIGN_AND_USE, MemberInactive, _member_inactive),
    (ASSIGN_AND_USE, BookArchived, _book_archived),
    (ASSIGN_AND_USE, BookNotPublished, _not_published),
    (ASSIGN_AND_USE, BookNotYetValid, _not_yet_valid),
    (ASSIGN_AND_USE, BookExpired, _no_longer_valid),
    (ASSIGN_AND_USE, BookNotToday, _not_today),
    (ASSIGN_AND_USE, BookClosed, _closed_now),
    (ASSIGN_AND_USE, TierNotEligible, _tier_not_eligible),
    (ASSIGN_AND_USE, AudienceNotEligible, _audience_not_eligible),
    (ASSIGN_AND_USE, ConditionNotMet, _condition_not_met),
    (ASSIGN_AND_USE, OrderTotalTooLow, _order_total_too_low),
    (ASSIGN, OutOfStock, _out_of_stock),
    (ASSIGN, QuotaReached, _quota_reached),
    (USE, UsageLimitReached, _usage_limit_reached),
    (USE, DiscountTooHigh, _discount_too_high),
    (USE, DiscountLimitReached, _discount_limit_reached),
    (ASSIGN_AND_USE, InsufficientBalance, _too_few_points),
)
"""The audience is checked before the stock, so that refusals reveal the stock only to members of the audience."""

EXCLUSIONS: tuple[type[Conflict], ...] = tuple(refusal for _, refusal, _ in _RULES)
"""The refusals of all rules of exclusion, in the order in which the rules are checked."""
