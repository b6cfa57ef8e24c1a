"""Missing amounts: points of reverted mints that were spent, and that the reversal of an earlier debit pays."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.lots import LotUse, TakeLots
from domain.ledger.postings import Details
from domain.ledger.records import BURN, MINT, PENDING, REVERTED
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import ANA, BEN, KEY, POINTS, TRACKED, amounts, entries, held, session, stored

DAY = timedelta(days=1)


def test_what_is_available_of_a_spent_mint_is_taken_and_the_rest_recorded():
    opened = session(ana=amounts(current=4))
    step = opened.revert(stored(MINT), POINTS, KEY, burn_available=True)
    assert (step.amount, held(opened)) == (4, (0, 0, 0))
    assert opened.missing_amounts == {8: (6, step)}


def test_the_missing_part_is_taken_when_an_earlier_debit_is_reverted():
    opened = session(ana=amounts(current=6))
    mint = stored(MINT, number=9)
    opened.revert(mint, POINTS, KEY, burn_available=True)
    burn = opened.revert(stored(BURN, amount=10), POINTS, Details("back", description="Why", loyalty_event_id=3))
    [part] = opened.parts_of(burn)
    assert (part.amount, part.is_partial, part.reverts) == (4, True, mint)
    assert (part.details.description, part.details.loyalty_event_id) == ("Why", 3)
    assert part.details.system_unique_key.startswith("missing-9-after-8-")
    assert (opened.missing_amounts[9].amount, held(opened)) == (0, (6, 0, 0))


def test_the_missing_part_is_taken_when_a_hold_is_captured_in_part():
    mint = stored(MINT, status=REVERTED, number=9, missing=Decimal(4))
    opened = session(ana=amounts(current=10, pending_debit=10))
    capture = opened.capture(stored(status=PENDING, mints_to_repay=(mint,)), POINTS, Decimal(7))
    [part] = opened.parts_of(capture)
    assert (part.amount, part.details.description, part.details.loyalty_event_id) == (3, None, None)
    assert (opened.missing_of(mint), opened.reverted_amount_of(mint), held(opened)) == (1, 3, (0, 0, 0))


def test_the_oldest_mint_gets_what_comes_back_first():
    old, young = (
        stored(MINT, REVERTED, number=number, missing=Decimal(missing)) for number, missing in ((6, 3), (7, 8))
    )
    opened = session()
    opened.revert(stored(mints_to_repay=(young, old)), POINTS, KEY)
    # Of 10 points the old one takes 3, which leaves 7 of 8 for the young one.
    assert (opened.missing_of(old), opened.missing_of(young)) == (0, 1)
    assert [part.amount for part in opened.parts_of(opened.steps[0])] == [3, 7]


def test_what_repaid_debt_becomes_debt_again():
    indebted = account(overdraft_limit=Decimal(50))
    mint = stored(MINT, REVERTED, number=7, missing=Decimal(8))
    opened = session(indebted, ana=amounts(overdraft=6))
    opened.revert(stored(mints_to_repay=(mint,)), indebted, KEY)
    holding = opened.holding(ANA, 1)
    # Of 10 points 6 repaid debt and 4 arrived; the mint takes these 4, and 4 of the repaid ones.
    assert (opened.missing_of(mint), holding.current, holding.overdraft) == (0, 0, 4)
    [part] = opened.parts_of(opened.steps[0])
    assert (part.amount, entries(part)) == (8, [(ANA, -4), (ANA, -4), (None, 8)])


def test_a_missing_amount_is_taken_from_lots_of_the_mint_first_and_then_from_those_that_came_back():
    mint = stored(MINT, REVERTED, number=7, missing=Decimal(4))
    uses = (LotUse(1, Decimal(3), NOON), LotUse(2, Decimal(7), NOON + DAY))
    opened = session(TRACKED)
    opened.revert(stored(uses=uses, mints_to_repay=(mint,)), TRACKED, KEY)
    _, expired, part = opened.steps
    assert (expired.amount, expired.is_expiry) == (3, True)
    assert part.lot_moves == (TakeLots(ANA, 1, Decimal(4), first_of=7, preferred=frozenset({2})),)
    assert held(opened) == (3, 0, 0)


def test_the_expired_part_of_a_mint_itself_is_missing_no_more():
    mint = stored(MINT, REVERTED, number=7, missing=Decimal(8), lots=(1,))
    uses = (LotUse(1, Decimal(3), NOON), LotUse(2, Decimal(7), NOON + DAY))
    opened = session(TRACKED)
    opened.revert(stored(uses=uses, mints_to_repay=(mint,)), TRACKED, KEY)
    # 3 of the 8 points are gone, and 5 are taken of the 7 that arrive.
    assert (opened.missing_of(mint), opened.reverted_amount_of(mint), held(opened)) == (0, 5, (2, 0, 0))


@pytest.mark.parametrize(("short", "other"), [(ANA, BEN), (BEN, ANA)])
def test_points_that_come_back_to_a_wallet_do_not_pay_for_a_mint_of_another(short, other):
    opened = session(**{"ana" if short == ANA else "ben": amounts(current=6)})
    mint = stored(MINT, to_wallet_id=short)
    opened.revert(mint, POINTS, KEY, burn_available=True)
    opened.revert(stored(BURN, number=5, from_wallet_id=other), POINTS, KEY)
    assert (opened.missing_of(mint), held(opened, other)) == (4, (10, 0, 0))


def test_what_a_spent_mint_lacks_becomes_debt_where_that_is_allowed_and_is_missing_elsewhere():
    indebted = account(overdraft_limit=Decimal(50))
    for of, left, debt, missing in ((indebted, 0, 4, 0), (POINTS, 0, 0, 4)):
        opened = session(of, ana=amounts(current=6))
        opened.revert(stored(MINT), of, KEY, allow_overdraft=True, burn_available=True)
        holding = opened.holding(ANA, 1)
        assert (holding.current, holding.overdraft, opened.missing_of(stored(MINT))) == (left, debt, missing)
    opened = session(indebted, ana=amounts(current=6))
    opened.revert(stored(MINT), indebted, KEY, burn_available=True)
    assert (opened.holding(ANA, 1).overdraft, opened.missing_of(stored(MINT))) == (0, 4)


def test_each_point_that_repaid_debt_is_taken_once():
    """Of 10 points 6 repay debt and 4 arrive: the old mint takes these 4 and 2 of the 6, the young one 4 of its 5."""
    indebted = account(overdraft_limit=Decimal(50))
    old, young = (
        stored(MINT, REVERTED, number=number, missing=Decimal(missing)) for number, missing in ((6, 6), (7, 5))
    )
    opened = session(indebted, ana=amounts(overdraft=6))
    opened.revert(stored(mints_to_repay=(old, young)), indebted, KEY)
    assert (opened.missing_of(old), opened.missing_of(young), opened.holding(ANA, 1).overdraft) == (0, 1, 6)


def test_points_that_the_wallet_had_before_do_not_pay_for_a_mint():
    mint = stored(MINT, REVERTED, number=7, missing=Decimal(18))
    opened = session(ana=amounts(current=5))
    opened.revert(stored(mints_to_repay=(mint,)), POINTS, KEY)
    assert (opened.missing_of(mint), held(opened)) == (8, (5, 0, 0))
