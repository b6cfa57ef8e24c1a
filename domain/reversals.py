"""Reversals of events: entirely when one is cancelled, in proportion when items of an order are returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from domain.campaigns.counters import ALL_ACCOUNTS, ALL_CAMPAIGNS, ALL_MEMBERS, Count, CounterKey, location_key
from domain.campaigns.limits import LOCATION, MEMBER, MONEY, POINTS
from domain.currencies import round_money
from domain.events import LoyaltyEvent
from domain.ledger.postings import ZERO, Posting, StoredTransaction
from domain.ledger.records import REVERTED, LedgerAccount
from domain.orders import UNDOING_EVENTS
from domain.problems import Conflict

CANCELLED = "cancelled"


class EventCancelled(Conflict, title="The event has already been cancelled"):
    """The event was reversed before: it was cancelled, or its order was returned, cancelled or rejected."""


class EventNotCancellable(Conflict, title="The event cannot be cancelled"):
    """The event failed, is not evaluated yet, or undoes an order or another event."""


@dataclass(frozen=True, slots=True)
class RevertedTransaction:
    """The reversed `amount` of one transaction of an event, of which `overdraft` went into debt.

    `missing` could not be reverted, since it was spent. `is_release`: the transaction was pending, so only its
    reservation ended.
    """

    stored: StoredTransaction
    account: LedgerAccount
    amount: Decimal
    overdraft: Decimal
    missing: Decimal
    is_partial: bool
    is_release: bool

    @classmethod
    def of(cls, transaction: StoredTransaction, posting: Posting, due_amount: Decimal) -> RevertedTransaction:
        """The part of `transaction` that `posting` reverted, out of the `due_amount`."""
        overdraft = -sum((entry.amount for entry in posting.entries if entry.is_overdraft), ZERO)
        is_release = posting.status == REVERTED
        shortfall = ZERO if is_release else due_amount - posting.amount
        return cls(transaction, posting.account, posting.amount, overdraft, shortfall, posting.is_partial, is_release)


class ReversedPart(NamedTuple):
    """A reversed part of an event other than points and limits: its `kind`, such as "badges", and a JSON record."""

    kind: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RevertedEvent:
    """The reversed parts of one event."""

    event: LoyaltyEvent
    transactions: tuple[RevertedTransaction, ...]
    limits: tuple[Count, ...]
    others: tuple[ReversedPart, ...] = ()


def refuse_uncancellable(event: LoyaltyEvent) -> None:
    """Raise EventCancelled or EventNotCancellable if an event cannot be cancelled."""
    if event.reversal_loyalty_event_id is not None:
        raise EventCancelled(f"The event {event.loyalty_event_key} has already been cancelled.")
    if event.status != "success":
        raise EventNotCancellable(
            f"The event {event.loyalty_event_key} has the status {event.status}, so it cannot be cancelled."
        )
    if event.reverted_loyalty_event_id is not None or event.event_type in UNDOING_EVENTS:
        raise EventNotCancellable(
            f"The event {event.loyalty_event_key} undoes an order or another event, so it cannot be cancelled."
        )


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a reversal: which `share` of an event's points; `is_whole` if the event itself is reversed."""

    share: Fraction
    is_whole: bool = False

    @classmethod
    def part(cls, part: Decimal, whole: Decimal) -> Extent:
        """`part` of `whole` as a share of at most 1; zero of zero is zero."""
        return cls(min(Fraction(1), Fraction(part) / Fraction(whole)) if whole else Fraction(0))

    def of_points(self, amount: Decimal, decimals: int) -> Decimal:
        """The reversed part of an amount of points: the rest is rounded down to the `decimals` of its account."""
        remaining = Fraction(amount) * (1 - self.share) * 10**decimals
        return amount - Decimal(remaining.numerator // remaining.denominator).scaleb(-decimals)

    def of_money(self, amount: Decimal, currency: str | None) -> Decimal:
        """The reversed part of an amount of money: the rest is rounded to the digits of its currency."""
        remaining = Fraction(amount) * (1 - self.share)
        return amount - min(amount, round_money(Decimal(remaining.numerator) / remaining.denominator, currency))


WHOLE = Extent(Fraction(1), is_whole=True)


def counter_key(limit_count: Mapping[str, Any], member_id: int) -> CounterKey:
    """The key of the counter that `limit_count`, one of an event's `limit_counters`, has increased."""
    shared_key, scope = limit_count.get("sharedKey", ""), limit_count["scope"]
    return CounterKey(
        campaign_id=ALL_CAMPAIGNS if shared_key else limit_count["campaignId"],
        member_id=member_id if scope == MEMBER else ALL_MEMBERS,
        ledger_account_id=limit_count["ledgerAccountId"] or ALL_ACCOUNTS,
        type=limit_count["type"],
        period=limit_count["period"],
        period_start=date.fromisoformat(limit_count["periodStart"]),
        shared_key=shared_key,
        location=location_key(limit_count["location"]) if scope == LOCATION else "",
    )


def amount_to_reverse(limit_count: Mapping[str, Any], extent: Extent, decimals: int) -> Decimal:
    """The part of a limit's count that is still to be subtracted.

    Points and money are subtracted in proportion, transactions and coupons only with the whole event.
    """
    amount, reversed_amount = Decimal(limit_count["amount"]), Decimal(limit_count.get("givenBack", 0))
    if extent.is_whole:
        return amount - reversed_amount
    if limit_count["type"] == MONEY:
        return extent.of_money(amount, limit_count.get("currency")) - reversed_amount
    return extent.of_points(amount, decimals) - reversed_amount if limit_count["type"] == POINTS else ZERO


def negated_counts(events: Sequence[RevertedEvent]) -> list[Count]:
    """The counts that a reversal adds to limits: the negative of the reversed counts."""
    return [count._replace(amount=-count.amount) for reverted_event in events for count in reverted_event.limits]
