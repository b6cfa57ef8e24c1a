"""The extent to which an event is reversed, the reversed counts of limits, and events that cannot be cancelled."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.campaigns.counters import Count, CounterKey
from domain.events import LoyaltyEvent
from domain.ledger.postings import Entry
from domain.ledger.records import REVERTED, SETTLED
from domain.reversals import (
    WHOLE,
    EventCancelled,
    EventNotCancellable,
    Extent,
    RevertedEvent,
    RevertedTransaction,
    amount_to_reverse,
    counter_key,
    negated_counts,
    refuse_uncancellable,
)
from tests.builders.campaigns import account

AMOUNTS = st.decimals(0, 10**13, places=6)


@pytest.mark.parametrize(
    ("amount", "part", "whole", "decimals", "reversed_amount"),
    [
        ("10", "0", "10", 0, "0"),
        # Two thirds of 10 are 6.67, of which 6 are not reversed.
        ("10", "1", "3", 0, "4"),
        ("10", "2", "3", 0, "7"),
        ("10", "1", "3", 2, "3.34"),
        ("10", "5", "3", 0, "10"),
        ("10", "0", "0", 0, "0"),
        ("0", "1", "3", 0, "0"),
        ("18446744073709", "1", "18446744073709", 6, "1"),
    ],
)
def test_the_part_that_is_not_reversed_is_rounded_down(amount, part, whole, decimals, reversed_amount):
    assert Extent.part(Decimal(part), Decimal(whole)).of_points(Decimal(amount), decimals) == Decimal(reversed_amount)


@given(amount=AMOUNTS, parts=st.lists(st.decimals(0, 1000, places=2), min_size=1, max_size=6), extra=st.integers(0, 9))
def test_the_reversed_amount_only_grows_up_to_the_whole(amount, parts, extra):
    whole, returned_part, previous_amount = sum(parts) + extra, Decimal(0), Decimal(0)
    for part in parts:
        returned_part += part
        reversed_amount = Extent.part(returned_part, whole).of_points(amount, decimals=6)
        assert previous_amount <= reversed_amount <= amount
        previous_amount = reversed_amount
    assert WHOLE.of_points(amount, decimals=6) == amount


def test_only_the_part_of_a_count_that_was_not_reversed_before_is_reversed():
    points = {"type": "points", "amount": 10}
    third = Extent.part(Decimal(1), Decimal(3))
    # Two thirds of 10 are 6.67, of which 6 are not reversed.
    assert amount_to_reverse(points, third, decimals=0) == 10 - 6
    assert amount_to_reverse({**points, "givenBack": 4}, third, decimals=0) == 0
    assert amount_to_reverse({**points, "givenBack": 4}, WHOLE, decimals=0) == 10 - 4
    # Transactions and coupons count as a whole: only a cancellation reverses them, not a return of all items.
    all_items = Extent.part(Decimal(3), Decimal(3))
    for limit_type in ("transactions", "coupons"):
        assert amount_to_reverse({"type": limit_type, "amount": 1}, all_items, decimals=0) == 0
        assert amount_to_reverse({"type": limit_type, "amount": 1}, WHOLE, decimals=0) == 1


@pytest.mark.parametrize(
    ("amount", "currency", "returned_thirds", "reversed_amount"),
    [
        # Two thirds of 10.00 are not reversed: 6.67 euros, or 7 yen.
        ("10.00", "EUR", 1, "3.33"),
        ("10", "JPY", 1, "3"),
        ("10", None, 1, "3.33"),
        ("10.00", "EUR", 0, "0"),
        ("10.00", "EUR", 3, "10.00"),
        # The unreversed part is never more than the amount.
        ("0.006", "EUR", 0, "0"),
    ],
)
def test_the_unreversed_part_of_counted_money_is_rounded_to_its_currency(
    amount, currency, returned_thirds, reversed_amount
):
    count = {"type": "money", "amount": amount, "currency": currency}
    extent = Extent.part(Decimal(returned_thirds), Decimal(3))
    assert amount_to_reverse(count, extent, decimals=0) == Decimal(reversed_amount)
    assert amount_to_reverse({**count, "givenBack": reversed_amount}, extent, decimals=0) == 0


EVENT = LoyaltyEvent(
    **{
        **dict.fromkeys(LoyaltyEvent.__slots__),
        "loyalty_event_key": "e-1",
        "status": "success",
        "event_type": "till-opened",
    }
)


def test_an_event_that_succeeded_can_be_cancelled():
    refuse_uncancellable(EVENT)
    with pytest.raises(EventCancelled, match=r"The event e-1 has already been cancelled\."):
        refuse_uncancellable(replace(EVENT, reversal_loyalty_event_id=9))


@pytest.mark.parametrize("status", ["failed", "pending", "running"])
def test_an_event_that_was_not_evaluated_cannot_be_cancelled(status):
    with pytest.raises(EventNotCancellable, match=f"The event e-1 has the status {status}, so it cannot be cancelled"):
        refuse_uncancellable(replace(EVENT, status=status))


@pytest.mark.parametrize(
    "changes",
    [
        {"reverted_loyalty_event_id": 3},
        {"event_type": "member-purchase-order-cancelled"},
        {"event_type": "member-purchase-order-partially-returned"},
    ],
)
def test_an_event_that_undoes_something_cannot_be_cancelled(changes):
    with pytest.raises(EventNotCancellable, match="undoes an order or another event"):
        refuse_uncancellable(replace(EVENT, **changes))
    refuse_uncancellable(replace(EVENT, event_type="member-purchase-order-confirmed"))


DAILY_POINTS = {
    "campaignId": 3,
    "scope": "member",
    "ledgerAccountId": None,
    "type": "points",
    "period": "daily",
    "periodStart": "2026-03-04",
}


def test_a_count_belongs_to_a_member_and_an_account_or_to_all():
    period = ("points", "daily", date(2026, 3, 4))
    # The id 0 means all members, or all accounts.
    assert counter_key(DAILY_POINTS, member_id=7) == CounterKey(3, 7, 0, *period)
    points_of_campaign = {**DAILY_POINTS, "scope": "campaign", "ledgerAccountId": 5}
    assert counter_key(points_of_campaign, member_id=7) == CounterKey(3, 0, 5, *period)


def test_a_reversal_negates_the_counts_of_limits():
    key = counter_key(DAILY_POINTS, member_id=7)
    counts = (Count(key, Decimal(4), campaign_id=3), Count(key, Decimal(1), campaign_id=3, currency="EUR"))
    assert negated_counts([RevertedEvent(EVENT, (), counts)]) == [
        Count(key, Decimal(-4), campaign_id=3),
        Count(key, Decimal(-1), campaign_id=3, currency="EUR"),
    ]


def reverted_transaction(amount, *entries, due="10", status=SETTLED, is_partial=False):
    """A transaction of which `amount` was reverted, out of the `due` amount."""
    posting = SimpleNamespace(
        account=account(), amount=Decimal(amount), entries=entries, status=status, is_partial=is_partial
    )
    return RevertedTransaction.of(None, posting, Decimal(due))


def test_a_reverted_transaction_has_its_debt_and_its_shortfall():
    debt = Entry(1, Decimal(-4), is_overdraft=True)
    reversal = reverted_transaction("10", Entry(1, Decimal(-6)), debt, Entry(None, Decimal(10)))
    assert (reversal.amount, reversal.overdraft, reversal.missing) == (10, 4, 0)
    assert (reversal.is_partial, reversal.is_release) == (False, False)
    assert reverted_transaction("4", due="10").missing == 10 - 4
    release = reverted_transaction("7", status=REVERTED, is_partial=True)
    assert (release.missing, release.is_release, release.is_partial, release.overdraft) == (0, True, True, 0)
