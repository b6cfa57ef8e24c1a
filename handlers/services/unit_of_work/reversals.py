"""Reverses the effects of events within an open unit of work.

The cancellation of an event uses this, and so do the events that undo an order, in whole or in part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from domain.campaigns.counters import Count, CounterKey, Counters
from domain.campaigns.point_effects import transaction_number
from domain.campaigns.reevaluation import UNCHANGED, Reevaluation
from domain.events import SUCCESS, LoyaltyEvent
from domain.ledger.postings import Details, Posting
from domain.ledger.records import MINT, REVERTED
from domain.ledger.session import LedgerSession
from domain.problems import Refusal
from domain.retries import StartOver
from domain.reversals import (
    WHOLE,
    Extent,
    ReversedPart,
    RevertedEvent,
    RevertedTransaction,
    amount_to_reverse,
    counter_key,
)
from handlers.messages.json_text import exact_number
from handlers.services.unit_of_work.derived_events import DerivedEvent
from persistence import reversals

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


@dataclass(frozen=True, slots=True)
class Reversal:
    """A reversal of events by the event with the id `loyalty_event_id`.

    The keys of its ledger transactions begin with `transaction_prefix`. `extent` is the share of the effects that is
    reversed. `reevaluations` are by event id: a partial reversal of these events reverses what they define instead.
    """

    loyalty_event_id: int
    transaction_prefix: str
    extent: Extent = WHOLE
    allow_overdraft: bool = False
    description: str | None = None
    external_event_date: datetime | None = None
    reevaluations: Mapping[int, Reevaluation] = field(default_factory=dict)


class Participant(Protocol):
    """The part of a unit of work that is about one subject; by default it reports no events and reverses nothing."""

    def take_derived(self) -> Sequence[DerivedEvent]:
        """Return the derived events of this subject since the last call."""
        return ()

    def reverse(self, event_id: int, reversal: Reversal) -> Sequence[ReversedPart]:
        """Reverse the effects of a stored event on this subject, as far as possible; the ledger reverses points."""
        return ()

    def flush(self) -> None:
        """Store the changes since the last flush."""


class Reversals:
    """The events that may be reversed, and all events that they caused; loaded after their members are locked."""

    def __init__(self, unit: UnitOfWork, event_ids: Collection[int]) -> None:
        """Load the events and their transactions; raises StartOver if they concern a member who is not locked.

        The members are found before they are locked: another transaction may have evaluated an event in between.
        """
        db = self._db = unit.db
        organization_id = self._organization_id = unit.organization_id
        families = reversals.find_families(db, organization_id, event_ids) if event_ids else {}
        # By the id of an event: its own id and the ids of the events that it caused, newest first.
        self._families = {root: [event.loyalty_event_id for event in family] for root, family in families.items()}
        self._events = {event.loyalty_event_id: event for family in families.values() for event in family}
        self._transactions = reversals.find_active_transactions(db, organization_id, self._events) if families else {}
        self._reversed_event_ids: set[int] = set()
        if not (self._member_ids <= unit.members.keys() and self._wallet_ids <= unit.ledger_ids.keys()):
            raise StartOver("Another transaction has evaluated events that concern members who are not locked.")

    def __bool__(self) -> bool:
        return bool(self._families)

    @property
    def event_ids(self) -> frozenset[int]:
        """The ids of all events that may be reversed, and of the events that they caused."""
        return frozenset(self._events)

    @property
    def _member_ids(self) -> set[int]:
        """The members of the events, and the sponsors whom a new evaluation of the events can read."""
        ids = {event.member_id for event in self._events.values()}
        for event in self._events.values():
            if event.grants is not None and event.sponsor_member_id is not None:
                ids.add(event.sponsor_member_id)
        return ids

    @property
    def _wallet_ids(self) -> set[int]:
        """The wallets between which the transactions of the events moved points."""
        wallet_ids: set[int | None] = set()
        for transactions_of_event in self._transactions.values():
            for transaction in transactions_of_event.values():
                wallet_ids |= {transaction.from_wallet_id, transaction.to_wallet_id}
        return {wallet_id for wallet_id in wallet_ids if wallet_id is not None}

    @property
    def counter_keys(self) -> set[CounterKey]:
        """The counters from which reversals subtract."""
        return {
            counter_key(counter, event.member_id) for event in self._events.values() for counter in event.limit_counters
        }

    @property
    def ledger_account_ids(self) -> set[int]:
        """The accounts whose points reversals move."""
        return {
            transaction.ledger_account_id
            for transactions in self._transactions.values()
            for transaction in transactions.values()
        }

    def event(self, event_id: int) -> LoyaltyEvent:
        """An event that may be reversed."""
        return self._events[event_id]

    def is_active(self, event_id: int) -> bool:
        """True if the event may be reversed and is not reversed yet."""
        return event_id in self._families and self._events[event_id].reversal_loyalty_event_id is None

    def reverse(self, event_ids: Sequence[int], reversal: Reversal, unit: UnitOfWork) -> list[RevertedEvent]:
        """Reverse events, each with the events that it caused. Returns the reversed parts of each event.

        `event_ids` are in the order of the reversal, newest first. Events of which nothing was reversed are left out,
        except the last of `event_ids` and the events that it caused. A partial reversal covers only points and their
        counts; if it reverses nothing at all, these are left out, too, and the list is empty. If the ledger refuses,
        for example with AccountInactive, nothing has changed.
        """
        session = unit.ledger
        savepoint = session.savepoint()
        key_numbers = count(1)
        family = [self._events[related_id] for event_id in event_ids for related_id in self._families[event_id]]
        active_events = [
            event for event in family if event.reversal_loyalty_event_id is None and event.status == SUCCESS
        ]
        try:
            with session.net_supply_of_reverts():
                transactions_of_events = [
                    self._revert_points(event, reversal, session, key_numbers) for event in active_events
                ]
        except Refusal:
            session.rollback_to(savepoint)
            raise
        reverted_events = [
            RevertedEvent(
                event,
                transactions,
                self._reverse_counters(event, reversal, session, unit.counters),
                _reverse_other_effects(event, reversal, unit) if reversal.extent.is_whole else (),
            )
            for event, transactions in zip(active_events, transactions_of_events, strict=True)
        ]
        is_reported = reversal.extent.is_whole or any(
            reverted_event.transactions or reverted_event.limits for reverted_event in reverted_events
        )
        always_returned_ids = set(self._families[event_ids[-1]]) if is_reported else set()
        return [
            reverted_event
            for reverted_event in reverted_events
            if reverted_event.event.loyalty_event_id in always_returned_ids or _has_reversed_effects(reverted_event)
        ]

    def _revert_points(
        self, event: LoyaltyEvent, reversal: Reversal, session: LedgerSession, key_numbers: Iterator[int]
    ) -> tuple[RevertedTransaction, ...]:
        """Revert the ledger transactions of an event, or the share of them that the reversal covers.

        `key_numbers` counts the new transactions, to give each its systemUniqueKey.
        """
        reverted_transactions = []
        reevaluation = reversal.reevaluations.get(event.loyalty_event_id, UNCHANGED)
        for key, transaction in self._transactions.get(event.loyalty_event_id, {}).items():
            # Opening the session has reverted points that waited in vain, and released ended holds.
            if session.status_of(transaction) == REVERTED:
                continue
            account = session.accounts[transaction.ledger_account_id]
            number = next(key_numbers)
            details = Details(
                system_unique_key=f"{reversal.transaction_prefix}:undo-{number}",
                description=reversal.description,
                external_event_date=reversal.external_event_date,
                loyalty_event_id=reversal.loyalty_event_id,
            )
            amount_before = session.reverted_amount_of(transaction) + session.released_of(transaction)
            if reversal.extent.is_whole:
                total = session.reversible_of(transaction)
                posting = session.revert(transaction, account, details, reversal.allow_overdraft, burn_available=True)
                reverted_transactions += reverted_by(posting, total - amount_before, session)
            else:
                number_of_transaction = transaction_number(key)
                extent, qualifying_extent = reevaluation.extents_of(number_of_transaction, reversal.extent)
                total = extent.of_points(session.reversible_of(transaction), account.decimals)
                unearned = qualifying_extent.of_points(session.qualifying_of(transaction), account.decimals)
                revert = session.reverse_part(transaction, account, total, details, unearned)
                if revert is not None and (revert.amount or total > amount_before):
                    reverted_transactions.append(RevertedTransaction.of(transaction, revert, total - amount_before))
        return tuple(reverted_transactions)

    def _reverse_counters(
        self, event: LoyaltyEvent, reversal: Reversal, session: LedgerSession, counters: Counters
    ) -> tuple[Count, ...]:
        """Subtract the event's counts from the counters, record that on the event, and return the subtracted counts."""
        counts: list[Count] = []
        # The counts that are stored with the event, with the amounts subtracted so far.
        recorded_counts: list[Mapping[str, Any]] = []
        reevaluation = reversal.reevaluations.get(event.loyalty_event_id, UNCHANGED)
        for position, counter in enumerate(event.limit_counters):
            extent = reevaluation.counts.get(position, reversal.extent)
            amount = amount_to_reverse(counter, extent, self._decimals_of_count(event, counter, session))
            if amount > 0:
                key = counter_key(counter, event.member_id)
                reversed_count = Count(key, amount, counter["campaignId"], counter.get("currency"))
                counters.reverse(reversed_count)
                counts.append(reversed_count)
                total = Decimal(counter.get("givenBack", 0)) + amount
                recorded_counts.append({**counter, "givenBack": exact_number(total)})
            else:
                recorded_counts.append(counter)
        reversal_event_id = None
        if reversal.extent.is_whole:
            reversal_event_id = reversal.loyalty_event_id
            counters.applications.remove(event.loyalty_event_id)
        self._events[event.loyalty_event_id] = replace(
            event, limit_counters=tuple(recorded_counts), reversal_loyalty_event_id=reversal_event_id
        )
        self._reversed_event_ids.add(event.loyalty_event_id)
        return tuple(counts)

    def _decimals_of_count(self, event: LoyaltyEvent, counter: Mapping[str, Any], session: LedgerSession) -> int:
        """How many fraction digits the amount of a count has.

        A count of one account has the digits of this account. A count of all accounts has the digits of the account
        into which the event minted this amount. A mint that was captured in part no longer has the amount: then the
        count has the most digits of any account into which the event minted.
        """
        account_id = counter["ledgerAccountId"]
        amount = Decimal(counter["amount"])
        transactions = self._transactions.get(event.loyalty_event_id, {}).values()
        if account_id is None:
            mints = [transaction for transaction in transactions if transaction.transaction_type == MINT]
            mints_of_amount = [mint for mint in mints if session.original_amount_of(mint) == amount]
            account_ids = [mint.ledger_account_id for mint in mints_of_amount[:1] or mints]
        else:
            account_ids = [account_id]
        return max([session.accounts[id_].decimals for id_ in account_ids if id_ in session.accounts], default=0)

    def flush(self, at: datetime) -> None:
        """Store the reversed events; the unit flushes the ledger and the counters."""
        reversals.write_events(
            self._db, self._organization_id, [self._events[event_id] for event_id in self._reversed_event_ids], at
        )


def reverted_by(revert: Posting, due_amount: Decimal, session: LedgerSession) -> list[RevertedTransaction]:
    """The transaction that `revert` reverted, with the amount due, and the mints that were clawed back with it.

    Points that return to a wallet may be the shortfall of other reverted mints: these are clawed back at once.
    """
    amounts = [(revert, due_amount), *((part, part.amount) for part in session.parts_of(revert))]
    return [
        RevertedTransaction.of(posting.reverts, posting, amount)
        for posting, amount in amounts
        if posting.reverts is not None
    ]


def _has_reversed_effects(reverted_event: RevertedEvent) -> bool:
    """True if any effect of an event was reversed."""
    return bool(reverted_event.transactions or reverted_event.limits or reverted_event.others)


def _reverse_other_effects(event: LoyaltyEvent, reversal: Reversal, unit: UnitOfWork) -> tuple[ReversedPart, ...]:
    """Reverse the effects of one event except points and limits."""
    participants = unit.all_participants()
    return tuple(part for participant in participants for part in participant.reverse(event.loyalty_event_id, reversal))
