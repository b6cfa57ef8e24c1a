"""Lots: the soonest to expire are spent first, and what they give adds up.

An allocator applies moves of lots, each with the id of its transaction.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ledger.allocation import FIRST_NEW_LOT, Allocator, LotsMissing
from domain.ledger.expiry import ExpiryCalendar
from domain.ledger.extensions import ExtendLots, Extension
from domain.ledger.lots import (
    ArrivedMint,
    ChangedUse,
    Lot,
    LotUse,
    MoveLots,
    NewLot,
    RestoreLots,
    SettleLots,
    TakeLots,
    split_uses,
)

DAY = datetime(2026, 3, 1, tzinfo=UTC)
WALLET, OTHER_WALLET = 1, 2
ACCOUNT, OTHER_ACCOUNT = 1, 2


def lot(lot_id, remaining, expires_in_days=None, wallet=WALLET, transaction=1, account=ACCOUNT):
    """A lot that expires so many days after DAY, or never."""
    return Lot(
        ledger_lot_id=lot_id,
        wallet_id=wallet,
        ledger_account_id=account,
        ledger_transaction_id=transaction,
        expires_at=None if expires_in_days is None else DAY + timedelta(days=expires_in_days),
        amount=Decimal(100),
        remaining=Decimal(remaining),
    )


def remaining_by_lot(allocator):
    """The remaining amounts of the stored lots that have changed, by id."""
    return {lot_id: stored_lot.remaining for lot_id, stored_lot in allocator.allocation.changed.items()}


def uses_of(allocator, transaction_id):
    """The lots that a transaction has taken from, each with the amount."""
    return [
        (lot_id, amount) for (used_by, lot_id), amount in allocator.allocation.uses.items() if used_by == transaction_id
    ]


lots = st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(0, 5)), max_size=12)


@given(lots, st.integers(0, 100))
def test_lots_that_expire_soonest_are_spent_first(descriptions, amount):
    stock = [
        lot(i, remaining=remaining, expires_in_days=expires) for i, (remaining, expires) in enumerate(descriptions, 1)
    ]
    total = sum(stored_lot.remaining for stored_lot in stock)
    allocator = Allocator(reversed(stock))
    if amount > total:
        with pytest.raises(LotsMissing):
            allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(amount)))
        return
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(amount)))
    order = sorted(
        (stored_lot for stored_lot in stock if stored_lot.remaining),
        key=lambda stored_lot: (stored_lot.expires_at or datetime.max.replace(tzinfo=UTC), stored_lot.ledger_lot_id),
    )
    expected_uses, remaining_amount = [], Decimal(amount)
    for stored_lot in order:
        part = min(remaining_amount, stored_lot.remaining)
        if part:
            expected_uses.append((stored_lot.ledger_lot_id, part))
        remaining_amount -= part
    assert uses_of(allocator, 9) == expected_uses
    for stored_lot in stock:
        used_amount = dict(expected_uses).get(stored_lot.ledger_lot_id, 0)
        lot_after_use = allocator.allocation.changed.get(stored_lot.ledger_lot_id, stored_lot)
        assert lot_after_use.remaining == stored_lot.remaining - used_amount


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 60))
def test_uses_are_split_without_loss(amounts, amount):
    uses = [LotUse(i, Decimal(used_amount)) for i, used_amount in enumerate(amounts)]
    first_uses, other_uses = split_uses(uses, Decimal(amount))
    assert sum(use.amount for use in first_uses) == min(amount, sum(amounts))
    amount_of_lot: dict = {}
    for use in (*first_uses, *other_uses):
        assert use.amount > 0
        amount_of_lot[use.ledger_lot_id] = amount_of_lot.get(use.ledger_lot_id, 0) + use.amount
    assert amount_of_lot == {i: used_amount for i, used_amount in enumerate(amounts) if used_amount}


def test_lots_of_other_wallets_and_accounts_are_not_spent():
    allocator = Allocator(
        [lot(1, remaining=5, wallet=OTHER_WALLET), lot(2, remaining=5, account=OTHER_ACCOUNT), lot(3, remaining=5)]
    )
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(5)))
    assert uses_of(allocator, 9) == [(3, 5)]
    with pytest.raises(LotsMissing):
        allocator.apply(10, TakeLots(WALLET, ACCOUNT, Decimal(1)))


def test_a_new_lot_can_be_spent_at_once_after_older_ones():
    allocator = Allocator([lot(1, remaining=5, expires_in_days=3)])
    allocator.apply(8, NewLot(WALLET, ACCOUNT, Decimal(7), expires_at=DAY + timedelta(days=3)))
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(6)))
    assert uses_of(allocator, 9) == [(1, 5), (FIRST_NEW_LOT, 1)]
    new_lot = allocator.allocation.new[FIRST_NEW_LOT]
    assert (new_lot.amount, new_lot.remaining) == (7, 7 - 1)
    assert new_lot.ledger_transaction_id == 8
    assert remaining_by_lot(allocator) == {1: 0}


def test_the_newest_lot_can_be_taken_before_all_others():
    allocator = Allocator([lot(1, remaining=5, expires_in_days=0)])
    allocator.apply(8, NewLot(WALLET, ACCOUNT, Decimal(7), expires_at=None))
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(7), from_newest_lot=True))
    assert uses_of(allocator, 9) == [(FIRST_NEW_LOT, 7)]
    assert remaining_by_lot(allocator) == {}


def test_the_lots_of_a_transaction_can_be_taken_before_all_others():
    allocator = Allocator(
        [
            lot(1, remaining=5, expires_in_days=0),
            lot(2, remaining=5, expires_in_days=9, transaction=4),
            lot(3, remaining=5, expires_in_days=1),
        ]
    )
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(12), first_transaction_id=4))
    assert uses_of(allocator, 9) == [(2, 5), (1, 5), (3, 2)]


def test_preferred_lots_are_taken_after_the_lots_of_the_transaction_and_before_all_others():
    allocator = Allocator(
        [
            lot(1, remaining=5, expires_in_days=0),
            lot(2, remaining=5, expires_in_days=9, transaction=4),
            lot(3, remaining=5),
            lot(4, remaining=5, expires_in_days=1),
        ]
    )
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(17), first_transaction_id=4, preferred_lot_ids=frozenset({3})))
    assert uses_of(allocator, 9) == [(2, 5), (3, 5), (1, 5), (4, 2)]


@pytest.mark.parametrize(("is_expiry", "expired_amount"), [(True, 3), (False, 0)])
def test_a_lot_records_its_expired_amount_until_the_expiry_is_reverted(is_expiry, expired_amount):
    allocator = Allocator([lot(1, remaining=5, expires_in_days=0)])
    uses = (LotUse(1, Decimal(3)),)
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(3), exact_uses=uses, is_expiry=is_expiry))
    changed_lots = allocator.allocation.changed
    assert (changed_lots[1].remaining, changed_lots[1].expired) == (2, expired_amount)
    allocator.apply(10, RestoreLots(WALLET, ACCOUNT, uses, reverts_expiry=is_expiry))
    assert (changed_lots[1].remaining, changed_lots[1].expired) == (5, 0)


def test_points_that_repay_debt_do_not_count_as_expired():
    allocator = Allocator([lot(1, remaining=5, expires_in_days=0)])
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(5), is_expiry=True))
    allocator.apply(
        10,
        RestoreLots(
            WALLET, ACCOUNT, (LotUse(1, Decimal(2)),), spent_uses=(LotUse(1, Decimal(3)),), reverts_expiry=True
        ),
    )
    assert (allocator.allocation.changed[1].remaining, allocator.allocation.changed[1].expired) == (2, 0)


def test_spent_and_moved_points_of_a_lot_do_not_count_as_expired():
    allocator = Allocator([lot(1, remaining=5, expires_in_days=0)])
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(3)))
    allocator.apply(10, MoveLots(WALLET, OTHER_WALLET, ACCOUNT, amount=Decimal(1), to_lots=Decimal(1)))
    assert (allocator.allocation.changed[1].remaining, allocator.allocation.changed[1].expired) == (1, 0)


def test_an_extension_changes_only_the_earlier_expiring_lots_of_a_balance():
    allocator = Allocator(
        [
            lot(1, remaining=5, expires_in_days=1),
            lot(2, remaining=5, expires_in_days=9),
            lot(3, remaining=5, expires_in_days=2),
            lot(4, remaining=5, expires_in_days=1, wallet=OTHER_WALLET),
            lot(5, remaining=5, expires_in_days=1, account=OTHER_ACCOUNT),
        ]
    )
    in_a_week = DAY + timedelta(days=7)
    allocator.apply(9, ExtendLots(WALLET, ACCOUNT, Extension(until=in_a_week), ExpiryCalendar(), end=None, at=DAY))
    extended_lots = allocator.allocation.extended
    assert [(extended_lot.ledger_lot_id, extended_lot.expires_at) for extended_lot in extended_lots[9]] == [
        (1, in_a_week),
        (3, in_a_week),
    ]
    assert sorted(allocator.allocation.changed) == [1, 3]


@pytest.mark.parametrize(
    ("expires_at", "debt", "added_amount"),
    [
        (None, 0, 10),
        (None, 4, 6),
        (None, 10, 0),
        (None, 14, 0),
        (DAY + timedelta(microseconds=1), 4, 6),
        (DAY, 0, 0),
        (DAY - timedelta(days=1), 4, 0),
    ],
)
def test_a_mint_that_has_become_available_repays_debt_first_unless_it_has_expired(expires_at, debt, added_amount):
    arrived_mint = ArrivedMint(
        available_at=DAY - timedelta(days=2), amount=Decimal(10), expires_at=expires_at, earned=Decimal(10)
    )
    assert arrived_mint.amount_after_debt(Decimal(debt), now=DAY) == added_amount


def test_a_move_can_name_the_lots_and_the_amounts_that_it_takes():
    allocator = Allocator([lot(1, remaining=5, expires_in_days=0), lot(2, remaining=5, expires_in_days=9)])
    allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(3), exact_uses=(LotUse(2, Decimal(3)),)))
    assert uses_of(allocator, 9) == [(2, 3)]
    # The amounts of the lots have to add up to the amount of the move.
    for amount in (2, 4):
        with pytest.raises(LotsMissing):
            allocator.apply(9, TakeLots(WALLET, ACCOUNT, Decimal(3), exact_uses=(LotUse(2, Decimal(amount)),)))


def test_transferred_points_keep_their_expiry():
    allocator = Allocator([lot(1, remaining=5, expires_in_days=1), lot(2, remaining=5)])
    allocator.apply(
        9,
        MoveLots(
            from_wallet_id=WALLET,
            to_wallet_id=OTHER_WALLET,
            ledger_account_id=ACCOUNT,
            amount=Decimal(8),
            to_lots=Decimal(8),
        ),
    )
    assert uses_of(allocator, 9) == [(1, 5), (2, 3)]
    new_lots = [
        (new_lot.wallet_id, new_lot.remaining, new_lot.expires_at) for new_lot in allocator.allocation.new.values()
    ]
    assert new_lots == [(OTHER_WALLET, 5, DAY + timedelta(days=1)), (OTHER_WALLET, 3, None)]


def test_moved_points_that_expire_soonest_repay_the_debt_of_the_receiver():
    allocator = Allocator([lot(1, remaining=5, expires_in_days=1), lot(2, remaining=5)])
    # 8 points are moved, of which 6 repay debt.
    allocator.apply(
        9,
        MoveLots(
            from_wallet_id=WALLET,
            to_wallet_id=OTHER_WALLET,
            ledger_account_id=ACCOUNT,
            amount=Decimal(8),
            to_lots=Decimal(2),
        ),
    )
    assert [(new_lot.remaining, new_lot.expires_at) for new_lot in allocator.allocation.new.values()] == [(2, None)]


def test_restored_points_return_to_their_lots_and_extra_points_to_a_new_lot():
    allocator = Allocator([lot(1, remaining=0, expires_in_days=1), lot(2, remaining=3, expires_in_days=2)])
    returned_uses = (LotUse(1, Decimal(5)), LotUse(2, Decimal(2)))
    allocator.apply(
        9, RestoreLots(WALLET, ACCOUNT, returned_uses, spent_uses=(LotUse(1, Decimal(1)),), new_lot_amount=Decimal(4))
    )
    assert remaining_by_lot(allocator) == {1: 5, 2: 5}
    # The point of lot 1 that repays debt is used by the revert.
    assert uses_of(allocator, 9) == [(1, 1)]
    assert [new_lot.remaining for new_lot in allocator.allocation.new.values()] == [4]


def test_a_captured_transfer_keeps_the_lots_of_its_part_and_releases_the_rest():
    allocator = Allocator([lot(1, remaining=0, expires_in_days=1), lot(2, remaining=1, expires_in_days=2)])
    kept_uses, released_uses = split_uses([LotUse(1, Decimal(5)), LotUse(2, Decimal(4))], Decimal(6))
    changed_uses = (ChangedUse(ledger_transaction_id=7, ledger_lot_id=2, amount=Decimal(1)),)
    captured_uses = SettleLots(
        7, WALLET, ACCOUNT, kept_uses, released_uses, changed_uses, to_wallet_id=OTHER_WALLET, to_lots=Decimal(6)
    )
    allocator.apply(7, captured_uses)
    assert remaining_by_lot(allocator) == {2: 4}
    assert allocator.allocation.changed_uses == {(7, 2): 1}
    assert [(new_lot.wallet_id, new_lot.remaining) for new_lot in allocator.allocation.new.values()] == [
        (OTHER_WALLET, 5),
        (OTHER_WALLET, 1),
    ]
