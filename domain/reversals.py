"""Reversals: what an event gave is taken back, whole when it is cancelled, in proportion when an order comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from domain.campaigns.limits import ALL_ACCOUNTS, ALL_MEMBERS, CAMPAIGN, POINTS, CounterKey
from domain.events import LoyaltyEvent
from domain.ledger.postings import ZERO, Posting, Stored
from domain.ledger.records import REVERTED, LedgerAccount
from domain.problems import Conflict

CANCELLED = "cancelled"


class EventCancelled(Conflict):
    """What the event gave was taken back before: it was cancelled, or its order was returned, cancelled or rejected."""

    slug = "event-cancelled"
    title = "The event is cancelled already"


class EventNotCancellable(Conflict):
    """The event failed, is not evaluated yet, or took back itself what another gave."""

    slug = "event-not-cancellable"
    title = "The event cannot be cancelled"


@dataclass(frozen=True, slots=True)
class RevertedTransaction:
    """What was taken back of one transaction of an event: `amount` of it, `overdraft` of that by going into debt.

    `missing` is what could not be taken back, since it was spent.
    """

    stored: Stored
    account: LedgerAccount
    amount: Decimal
    overdraft: Decimal
    missing: Decimal
    is_partial: bool
    is_release: bool

    @classmethod
    def of(cls, stored: Stored, posting: Posting, wanted: Decimal) -> RevertedTransaction:
        """What `posting` took back of `stored`, of which it was to take `wanted`."""
        overdraft = -sum((entry.amount for entry in posting.entries if entry.is_overdraft), ZERO)
        is_release = posting.status == REVERTED
        missing = ZERO if is_release else wanted - posting.amount
        return cls(stored, posting.account, posting.amount, overdraft, missing, posting.is_partial, is_release)


class ReversedPart(NamedTuple):
    """What was taken back that is neither points nor limits: its `kind`, such as "badges", and a JSON-able record."""

    kind: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RevertedEvent:
    """What was taken back of one event."""

    event: LoyaltyEvent
    transactions: tuple[RevertedTransaction, ...]
    limits: tuple[tuple[CounterKey, Decimal], ...]
    others: tuple[ReversedPart, ...] = ()


def refuse_uncancellable(event: LoyaltyEvent) -> None:
    """Raise EventCancelled or EventNotCancellable where an event cannot be cancelled."""
    if event.reversal_loyalty_event_id is not None:
        raise EventCancelled(f"The event {event.loyalty_event_key} is cancelled already.")
    if event.reverted_loyalty_event_id is not None:
        raise EventNotCancellable("An event that took back what another gave cannot be cancelled.")
    if event.status != "success":
        raise EventNotCancellable(f"An event whose status is {event.status} cannot be cancelled.")


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of an event is undone: `share` of its points; the event itself only if `is_whole`."""

    share: Fraction
    is_whole: bool = False

    @classmethod
    def part(cls, part: Decimal, whole: Decimal) -> Extent:
        """`part` of `whole`, at most all of it; nothing of nothing is nothing."""
        return cls(min(Fraction(1), Fraction(part) / Fraction(whole)) if whole else Fraction(0))

    def of(self, amount: Decimal, decimals: int) -> Decimal:
        """What of an amount is undone: what stands is rounded down to the digits of its account."""
        standing = Fraction(amount) * (1 - self.share) * 10**decimals
        return amount - Decimal(standing.numerator // standing.denominator).scaleb(-decimals)


WHOLE = Extent(Fraction(1), is_whole=True)


def counter_key(counted: Mapping[str, Any], member_id: int) -> CounterKey:
    """The counter that one of an event's `limit_counters` speaks of."""
    return CounterKey(
        campaign_id=counted["campaignId"],
        member_id=ALL_MEMBERS if counted["scope"] == CAMPAIGN else member_id,
        ledger_account_id=counted["ledgerAccountId"] or ALL_ACCOUNTS,
        type=counted["type"],
        period=counted["period"],
        period_start=date.fromisoformat(counted["periodStart"]),
    )


def amount_to_reverse(counted: Mapping[str, Any], extent: Extent, decimals: int) -> Decimal:
    """What of a count is still to be given back: of points their share, of transactions only with the whole event."""
    amount, given = Decimal(counted["amount"]), Decimal(counted.get("givenBack", 0))
    if extent.is_whole:
        return amount - given
    return extent.of(amount, decimals) - given if counted["type"] == POINTS else ZERO


def counted_back(reverted: Sequence[RevertedEvent]) -> list[tuple[CounterKey, Decimal]]:
    """What undoing counted against limits: the negative of what it gave back."""
    return [(key, -amount) for reverted_event in reverted for key, amount in reverted_event.limits]
