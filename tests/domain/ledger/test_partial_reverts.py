"""Partial reverts of mints: what they revert in total, what they lower, and what counts as earned after them.

Stored mints have 10 points and the id `STORED_ID` unless a test names others. `reverse_part` gets the total
to revert: it returns None if as much is reverted already.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.availability import Availability
from domain.ledger.postings import Details
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED, TRANSFER
from domain.ledger.refusals import SupplyExceeded
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import (
    ANA,
    KEY,
    POINTS,
    STORED_ID,
    amounts,
    current_debit_credit,
    entries,
    session,
    stored_transaction,
)

DAY = timedelta(days=1)


def test_a_mint_is_reverted_in_part_up_to_the_given_total():
    ledger = session(ana=amounts(current=30, earned=30))
    part = ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(4), KEY)
    assert (part.amount, part.is_partial) == (4, True)
    assert entries(part) == [(ANA, -4), (None, 4)]
    # 26 is the current balance; nothing is pending.
    assert current_debit_credit(ledger) == (30 - 4, 0, 0)
    # Of the total of 7 points, 4 are reverted already.
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(7), KEY).amount == 3
    assert ledger.reverted_amount_of(stored_transaction(MINT)) == 7
    assert ledger.unearned_amounts == {STORED_ID: 7}
    assert ledger.holding(ANA, 1).earned == 30 - 7
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(7), KEY) is None
    # A revert of the whole takes the rest.
    assert ledger.revert(stored_transaction(MINT), POINTS, KEY).amount == 3


def test_the_part_that_was_spent_is_recorded_as_a_shortfall():
    ledger = session(ana=amounts(current=3))
    part = ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(5), KEY)
    assert part.amount == 3
    shortfall = ledger.missing_amounts[STORED_ID]
    assert (shortfall.amount, shortfall.posting) == (2, part)
    # No points have arrived since: the same total takes nothing, and a higher total only adds to the shortfall.
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(5), KEY) is None
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(6), KEY).amount == 0
    assert ledger.missing_amounts[STORED_ID].amount == 3


def test_expired_points_of_a_mint_are_unearned_though_nothing_is_taken():
    ledger = session(ana=amounts(current=30, earned=30))
    part = ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(0), KEY, unearned=Decimal(6))
    assert part.amount == 0
    assert current_debit_credit(ledger) == (30, 0, 0)
    assert ledger.holding(ANA, 1).earned == 30 - 6
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(0), KEY, unearned=Decimal(6)) is None


def test_a_partial_revert_of_a_pending_mint_lowers_its_amount():
    ledger, mint = session(ana=amounts(pending_credit=10)), stored_transaction(MINT, PENDING, amount=10)
    part = ledger.reverse_part(mint, POINTS, Decimal(4), KEY)
    # A pending mint has added nothing to the balance, so the entry is 0: only the pending credit falls, to 6.
    assert (part.amount, part.status, part.is_partial, entries(part)) == (4, REVERTED, True, [(ANA, 0)])
    assert ledger.released_amounts == {STORED_ID: 4}
    assert (ledger.amount_of(mint), ledger.original_amount_of(mint)) == (6, 10)
    assert current_debit_credit(ledger) == (0, 0, 6)


def test_partial_reverts_of_a_pending_mint_add_up_to_the_given_total():
    ledger, mint = session(ana=amounts(pending_credit=10)), stored_transaction(MINT, PENDING, amount=10)
    assert ledger.reverse_part(mint, POINTS, Decimal(4), KEY).amount == 4
    assert ledger.reverse_part(mint, POINTS, Decimal(4), KEY) is None
    # All 10 in total: the remaining 6, and with them the mint is reverted.
    revert_of_rest = ledger.reverse_part(mint, POINTS, Decimal(10), KEY)
    assert (revert_of_rest.amount, revert_of_rest.is_partial) == (10 - 4, False)
    assert current_debit_credit(ledger) == (0, 0, 0)


@pytest.mark.parametrize(
    "transaction",
    [
        stored_transaction(BURN),
        stored_transaction(TRANSFER),
        stored_transaction(MINT, REVERTED),
        stored_transaction(REVERT, from_wallet_id=None, to_wallet_id=ANA),
    ],
    ids=str,
)
def test_only_a_mint_that_is_not_reverted_is_reverted_in_part(transaction):
    ledger = session(ana=amounts(current=30))
    assert ledger.reverse_part(transaction, POINTS, Decimal(4), KEY) is None
    assert ledger.steps == []
    assert not ledger.has_changed_transactions


@pytest.mark.parametrize("status", [SETTLED, PENDING])
def test_the_part_may_be_a_single_point(status):
    ledger = session(ana=amounts(current=30, pending_credit=30))
    assert ledger.reverse_part(stored_transaction(MINT, status), POINTS, Decimal(1), KEY).amount == 1
    assert current_debit_credit(ledger) == ((29, 0, 30) if status == SETTLED else (30, 0, 29))


@pytest.mark.parametrize("status", [SETTLED, PENDING])
def test_a_partial_revert_to_a_smaller_total_than_before_moves_nothing(status):
    ledger = session(ana=amounts(current=30, pending_credit=10))
    assert ledger.reverse_part(stored_transaction(MINT, status), POINTS, Decimal(7), KEY).amount == 7
    amounts_before = current_debit_credit(ledger)
    assert ledger.reverse_part(stored_transaction(MINT, status), POINTS, Decimal(5), KEY) is None
    assert current_debit_credit(ledger) == amounts_before


def test_a_revert_takes_the_points_of_a_mint_that_partial_reverts_have_left():
    ledger = session(ana=amounts(current=30))
    # A mint of 10 points, of which 4 were reverted while it was pending.
    mint = stored_transaction(MINT, amount=6, released=Decimal(4))
    assert ledger.revert(mint, POINTS, KEY).amount == 6
    assert current_debit_credit(ledger) == (30 - 6, 0, 0)


def test_a_repeated_partial_revert_takes_points_that_the_member_received_in_between():
    ledger = session(ana=amounts(current=3))
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(5), KEY).amount == 3
    ledger.mint(POINTS, ANA, Decimal(9), KEY)
    # 2 of the 5 points were missing.
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(5), KEY).amount == 5 - 3
    assert ledger.missing_amounts[STORED_ID].amount == 0
    assert current_debit_credit(ledger) == (3 - 3 + 9 - 2, 0, 0)


def test_unearned_points_are_recorded_though_no_point_can_be_taken():
    ledger = session(ana=amounts(earned=30))
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(5), KEY, unearned=Decimal(6)).amount == 0
    part = ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(5), KEY, unearned=Decimal(7))
    assert part.amount == 0
    assert ledger.unearned_amounts == {STORED_ID: 7}
    assert ledger.holding(ANA, 1).earned == 30 - 7
    assert ledger.reverse_part(stored_transaction(MINT), POINTS, Decimal(5), KEY, unearned=Decimal(7)) is None


def test_a_part_that_exceeds_a_pending_mint_reverts_it():
    ledger = session(ana=amounts(pending_credit=10))
    part = ledger.reverse_part(stored_transaction(MINT, PENDING), POINTS, Decimal(12), KEY)
    assert (part.amount, part.is_partial) == (10, False)
    assert current_debit_credit(ledger) == (0, 0, 0)
    assert ledger.status_of(stored_transaction(MINT, PENDING)) == REVERTED


@pytest.mark.parametrize(("is_waiting", "lowered_supply"), [(True, -4), (False, 0)])
def test_only_a_mint_that_waits_was_issued_before_it_is_settled(is_waiting, lowered_supply):
    pending_mint = stored_transaction(MINT, PENDING, amount=10, available_at=NOON + DAY if is_waiting else None)
    ledger = session(ana=amounts(pending_credit=10))
    assert ledger.reverse_part(pending_mint, POINTS, Decimal(4), KEY).minted == lowered_supply
    revert_of_rest = ledger.revert(pending_mint, POINTS, KEY)
    assert revert_of_rest.amount == 10 - 4
    assert revert_of_rest.minted == (-6 if is_waiting else 0)
    assert current_debit_credit(ledger) == (0, 0, 0)


def test_a_lowered_waiting_mint_frees_supply():
    limited_account = account(max_supply=Decimal(10))
    ledger = session(limited_account)
    wait = Availability(at=NOON + DAY)
    waiting_mint = ledger.mint(limited_account, ANA, Decimal(10), KEY, availability=wait)
    with pytest.raises(SupplyExceeded):
        ledger.mint(limited_account, ANA, Decimal(1), KEY)
    stored_mint = stored_transaction(MINT, PENDING, amount=10, available_at=waiting_mint.wait.available_at)
    # Each revert frees as many points as are minted after it.
    ledger.reverse_part(stored_mint, limited_account, Decimal(4), KEY)
    ledger.mint(limited_account, ANA, Decimal(4), KEY)
    ledger.revert(stored_mint, limited_account, KEY)
    ledger.mint(limited_account, ANA, Decimal(6), KEY)
    assert current_debit_credit(ledger) == (4 + 6, 0, 0)


def test_a_mint_that_was_lowered_earlier_keeps_its_first_amount():
    lowered_mint = stored_transaction(MINT, PENDING, amount=6, released=Decimal(4))
    ledger = session(ana=amounts(pending_credit=6))
    assert (ledger.amount_of(lowered_mint), ledger.original_amount_of(lowered_mint)) == (6, 10)
    part = ledger.reverse_part(lowered_mint, POINTS, Decimal(6), KEY)
    # 6 in total: 2 more than the 4 that were released earlier.
    assert part.amount == 2
    assert (ledger.amount_of(lowered_mint), ledger.original_amount_of(lowered_mint)) == (6 - 2, 10)
    assert ledger.released_amounts == {STORED_ID: 6}
    assert ledger.released_of(lowered_mint) == 6
    assert current_debit_credit(ledger) == (0, 0, 4)


@pytest.mark.parametrize(
    ("qualifying", "unearned"),
    [
        # Of 10 points 4 were released while they were pending, and never counted: 3 of the other 6 count no more.
        (None, 3),
        # A mint with its own qualifying points loses as many of them as points are reverted.
        (Decimal(20), 7),
    ],
)
def test_points_released_before_the_capture_never_counted_as_earned(qualifying, unearned):
    settled_mint = stored_transaction(MINT, amount=6, released=Decimal(4), qualifying=qualifying)
    ledger = session(ana=amounts(current=30, earned=30))
    part = ledger.reverse_part(settled_mint, POINTS, Decimal(7), KEY)
    assert part.amount == 3
    assert ledger.unearned_amounts == {STORED_ID: unearned}
    assert ledger.holding(ANA, 1).earned == 30 - unearned


def test_a_capture_after_a_partial_revert_earns_the_share_of_the_captured_points():
    """Of 10 points that qualify with 20, 4 are released and 3 captured: 7 qualify with 14, of which the 3 earn 6."""
    pending = stored_transaction(MINT, PENDING, amount=6, released=Decimal(4), qualifying=Decimal(20))
    ledger = session(ana=amounts(pending_credit=6))
    step = ledger.capture(pending, POINTS, Decimal(3))
    assert (step.amount, step.qualifying) == (3, 14)
    assert ledger.holding(ANA, 1).earned == 6
    assert ledger.unearned_amounts == {STORED_ID: 8}


def test_a_capture_of_a_part_of_a_mint_earns_its_share_of_the_qualifying_points():
    """Of 10 points that qualify with 20, 4 are captured and earn 8.

    Nothing was reverted, so nothing is recorded as unearned.
    """
    ledger = session(ana=amounts(pending_credit=10))
    ledger.capture(stored_transaction(MINT, PENDING, qualifying=Decimal(20)), POINTS, Decimal(4))
    assert ledger.unearned_amounts == {}
    assert ledger.holding(ANA, 1).earned == 8


@pytest.mark.parametrize(
    ("transaction", "total_to_revert", "unearned"),
    [
        # A pending mint is lowered.
        (stored_transaction(MINT, PENDING), 4, 0),
        # The points of a settled mint were spent: its missing amount is recorded.
        (stored_transaction(MINT), 4, 0),
        # The points have expired: they are recorded as unearned.
        (stored_transaction(MINT), 0, 4),
    ],
)
def test_a_partial_revert_changes_the_stored_mint(transaction, total_to_revert, unearned):
    ledger = session(ana=amounts(pending_credit=10))
    assert not ledger.has_changed_transactions
    ledger.reverse_part(transaction, POINTS, Decimal(total_to_revert), Details("part"), unearned=Decimal(unearned))
    assert ledger.has_changed_transactions
