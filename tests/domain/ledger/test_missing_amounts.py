"""Missing amounts: points of reverted mints that were spent, and that the reversal of an earlier debit pays.

Stored transactions have 10 points and the id `STORED_ID` unless a test names others.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.lots import LotUse, TakeLots
from domain.ledger.postings import Details
from domain.ledger.records import BURN, MINT, PENDING, REVERTED
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import (
    ANA,
    BEN,
    KEY,
    POINTS,
    STORED_ID,
    TRACKED,
    amounts,
    current_debit_credit,
    entries,
    session,
    stored_transaction,
)

DAY = timedelta(days=1)


def test_the_available_part_of_a_spent_mint_is_taken_and_the_shortfall_recorded():
    ledger = session(ana=amounts(current=4))
    step = ledger.revert(stored_transaction(MINT), POINTS, KEY, burn_available=True)
    assert step.amount == 4
    assert current_debit_credit(ledger) == (0, 0, 0)
    # Of the 10 points of the mint, 6 are missing.
    assert ledger.missing_amounts == {STORED_ID: (10 - 4, step)}


def test_the_shortfall_is_taken_when_an_earlier_debit_is_reverted():
    ledger = session(ana=amounts(current=6))
    mint = stored_transaction(MINT, number=9)
    ledger.revert(mint, POINTS, KEY, burn_available=True)
    burn = ledger.revert(
        stored_transaction(BURN, amount=10), POINTS, Details("back", description="Why", loyalty_event_id=3)
    )
    [part] = ledger.parts_of(burn)
    # Of the 10 points of the mint, 6 were there at first.
    assert (part.amount, part.is_partial, part.reverts) == (10 - 6, True, mint)
    assert (part.details.description, part.details.loyalty_event_id) == ("Why", 3)
    assert part.details.system_unique_key.startswith("missing-9-after-8-")
    assert ledger.missing_amounts[9].amount == 0
    # The burn returns 10 points, and the mint takes 4 of them.
    assert current_debit_credit(ledger) == (10 - 4, 0, 0)


def test_the_shortfall_is_taken_when_a_hold_is_captured_in_part():
    mint = stored_transaction(MINT, status=REVERTED, number=9, missing=Decimal(4))
    ledger = session(ana=amounts(current=10, pending_debit=10))
    capture = ledger.capture(stored_transaction(status=PENDING, mints_to_repay=(mint,)), POINTS, Decimal(7))
    [part] = ledger.parts_of(capture)
    assert (part.amount, part.details.description, part.details.loyalty_event_id) == (3, None, None)
    # The hold releases 3 of its 10 points, and the mint takes them: 1 of its 4 is still missing.
    assert (ledger.missing_of(mint), ledger.reverted_amount_of(mint)) == (4 - 3, 3)
    assert current_debit_credit(ledger) == (0, 0, 0)


def test_returned_points_pay_for_the_oldest_mint_first():
    old, young = (
        stored_transaction(MINT, REVERTED, number=number, missing=Decimal(shortfall))
        for number, shortfall in ((6, 3), (7, 8))
    )
    ledger = session()
    ledger.revert(stored_transaction(mints_to_repay=(young, old)), POINTS, KEY)
    # Of 10 points the old one takes 3, which leaves 7 of 8 for the young one.
    assert (ledger.missing_of(old), ledger.missing_of(young)) == (0, 1)
    assert [part.amount for part in ledger.parts_of(ledger.steps[0])] == [3, 7]


def test_points_that_repaid_debt_become_debt_again():
    overdraft_account = account(overdraft_limit=Decimal(50))
    mint = stored_transaction(MINT, REVERTED, number=7, missing=Decimal(8))
    ledger = session(overdraft_account, ana=amounts(overdraft=6))
    ledger.revert(stored_transaction(mints_to_repay=(mint,)), overdraft_account, KEY)
    holding = ledger.holding(ANA, 1)
    # Of 10 points 6 repaid debt and 4 arrived; the mint takes these 4, and 4 of the repaid ones.
    assert (ledger.missing_of(mint), holding.current, holding.overdraft) == (0, 0, 4)
    [part] = ledger.parts_of(ledger.steps[0])
    assert (part.amount, entries(part)) == (8, [(ANA, -4), (ANA, -4), (None, 8)])


def test_a_shortfall_is_taken_from_lots_of_the_mint_and_then_from_returned_ones():
    mint = stored_transaction(MINT, REVERTED, number=7, missing=Decimal(4))
    uses = (LotUse(1, Decimal(3), NOON), LotUse(2, Decimal(7), NOON + DAY))
    ledger = session(TRACKED)
    ledger.revert(stored_transaction(uses=uses, mints_to_repay=(mint,)), TRACKED, KEY)
    _, expiry_step, part = ledger.steps
    # The lot of 3 points has expired by NOON; the mint takes 4 of the other 7.
    assert (expiry_step.amount, expiry_step.is_expiry) == (3, True)
    assert part.lot_moves == (TakeLots(ANA, 1, Decimal(4), first_transaction_id=7, preferred_lot_ids=frozenset({2})),)
    assert current_debit_credit(ledger) == (3, 0, 0)


def test_the_expired_part_of_a_mint_is_no_longer_a_shortfall():
    mint = stored_transaction(MINT, REVERTED, number=7, missing=Decimal(8), lot_ids=(1,))
    uses = (LotUse(1, Decimal(3), NOON), LotUse(2, Decimal(7), NOON + DAY))
    ledger = session(TRACKED)
    ledger.revert(stored_transaction(uses=uses, mints_to_repay=(mint,)), TRACKED, KEY)
    # 3 of the 8 points are gone, and 5 are taken of the 7 that arrive.
    assert (ledger.missing_of(mint), ledger.reverted_amount_of(mint)) == (0, 5)
    assert current_debit_credit(ledger) == (7 - 5, 0, 0)


@pytest.mark.parametrize(("short_wallet", "other_wallet"), [(ANA, BEN), (BEN, ANA)])
def test_points_that_return_to_a_wallet_do_not_pay_for_a_mint_of_another_wallet(short_wallet, other_wallet):
    ledger = session(**{"ana" if short_wallet == ANA else "ben": amounts(current=6)})
    mint = stored_transaction(MINT, to_wallet_id=short_wallet)
    ledger.revert(mint, POINTS, KEY, burn_available=True)
    ledger.revert(stored_transaction(BURN, number=5, from_wallet_id=other_wallet), POINTS, KEY)
    assert ledger.missing_of(mint) == 10 - 6
    assert current_debit_credit(ledger, other_wallet) == (10, 0, 0)


@pytest.mark.parametrize(
    ("ledger_account", "debt", "shortfall"),
    [
        pytest.param(account(overdraft_limit=Decimal(50)), 4, 0, id="the account allows debt"),
        pytest.param(account(overdraft_limit=None), 0, 4, id="the account allows no debt"),
    ],
)
def test_the_spent_part_of_a_reverted_mint_is_debt_if_the_account_allows_it_and_a_shortfall_if_not(
    ledger_account, debt, shortfall
):
    # Of the 10 minted points 4 are spent.
    mint, ledger = stored_transaction(MINT, amount=10), session(ledger_account, ana=amounts(current=6))
    ledger.revert(mint, ledger_account, KEY, allow_overdraft=True, burn_available=True)
    holding = ledger.holding(ANA, 1)
    assert (holding.current, holding.overdraft, ledger.missing_of(mint)) == (0, debt, shortfall)


def test_the_spent_part_of_a_reverted_mint_is_a_shortfall_if_only_the_account_allows_debt():
    overdraft_account = account(overdraft_limit=Decimal(50))
    mint, ledger = stored_transaction(MINT, amount=10), session(overdraft_account, ana=amounts(current=6))
    # Without `allow_overdraft`, the reversal makes no debt.
    ledger.revert(mint, overdraft_account, KEY, burn_available=True)
    assert ledger.holding(ANA, 1).overdraft == 0
    assert ledger.missing_of(mint) == 10 - 6


def test_each_point_that_repaid_debt_is_taken_once():
    """Of 10 points 6 repay debt and 4 arrive: the old mint takes these 4 and 2 of the 6, the young one 4 of its 5."""
    overdraft_account = account(overdraft_limit=Decimal(50))
    old, young = (
        stored_transaction(MINT, REVERTED, number=number, missing=Decimal(shortfall))
        for number, shortfall in ((6, 6), (7, 5))
    )
    ledger = session(overdraft_account, ana=amounts(overdraft=6))
    ledger.revert(stored_transaction(mints_to_repay=(old, young)), overdraft_account, KEY)
    assert (ledger.missing_of(old), ledger.missing_of(young)) == (0, 5 - 4)
    # The points that repaid the debt have all been taken again.
    assert ledger.holding(ANA, 1).overdraft == 6


def test_points_that_the_wallet_had_before_do_not_pay_for_a_mint():
    mint = stored_transaction(MINT, REVERTED, number=7, missing=Decimal(18))
    ledger = session(ana=amounts(current=5))
    ledger.revert(stored_transaction(mints_to_repay=(mint,)), POINTS, KEY)
    # The revert returns 10 points.
    assert ledger.missing_of(mint) == 18 - 10
    assert current_debit_credit(ledger) == (5, 0, 0)
