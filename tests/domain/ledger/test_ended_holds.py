"""Holds that end by time: what they held is spendable again from that moment on, unless it has expired."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.lots import LotUse, RestoreLots
from domain.ledger.postings import Details, Fiat, Holding
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED
from domain.ledger.refusals import AlreadyReverted, NotPending
from domain.ledger.session import LedgerSession
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import stored_transaction

WALLET = 7
POINTS = account(1, point_tracking_enabled=True)
IDLE = account(
    1, point_tracking_enabled=True, expiration_policies=({"expirationType": "lastTransaction", "period": 1},)
)
DAY = timedelta(days=1)


def hold(amount=40, uses=(), held_until=NOON, **more):
    """A stored burn of `amount` that is pending until `held_until`, or without an end; it took from the lots `uses`."""
    plain = {"from_wallet_id": WALLET, "entry_count": 1, "uses": tuple(uses), "held_until": held_until}
    return stored_transaction(BURN, PENDING, amount=amount, number=11, **plain | more)


def session(at, ledger_account=POINTS, current=100, pending=40):
    """A session at a moment; the wallet has `current` points, of which `pending` are held."""
    holding = Holding(Decimal(current), pending_debit=Decimal(pending), last_transaction_date=NOON - 2 * DAY)
    return LedgerSession({1: ledger_account}, {(WALLET, 1): holding}, {}, at)


def use(amount, expires_at=None, lot=1):
    """An amount that a hold took from a lot."""
    return LotUse(lot, Decimal(amount), expires_at)


def test_the_end_of_a_hold_releases_all_of_its_points():
    ledger = session(at=NOON + DAY)
    ledger.end_hold(hold(uses=[use(40)]), POINTS)
    holding = ledger.holding(WALLET, 1)
    assert (holding.current, holding.available, holding.pending_debit) == (100, 100, 0)
    [posting] = ledger.steps
    assert (posting.transaction_type, posting.status, posting.amount) == (REVERT, REVERTED, 40)
    assert (posting.details.external_event_date, posting.ends_hold) == (NOON, True)
    assert (posting.details.description, posting.minted, posting.burned) == ("Hold ended", 0, 0)
    assert posting.lot_moves == (RestoreLots(WALLET, 1, (use(40),), expires_at=None),)


def test_waiting_points_are_reverted_if_no_event_confirms_them():
    awaited_event = {"eventTypes": ["till-opened"], "availableAfter": None, "availableRounding": None}
    waiting = replace(hold(), transaction_type=MINT, from_wallet_id=None, to_wallet_id=WALLET, awaited=awaited_event)
    holding = Holding(Decimal(100), pending_credit=Decimal(40), earned=Decimal(5), last_transaction_date=NOON - 2 * DAY)
    ledger = LedgerSession({1: POINTS}, {(WALLET, 1): holding}, {}, NOON + DAY)
    ledger.end_hold(waiting, POINTS)
    assert ledger.holding(WALLET, 1) == replace(holding, pending_credit=Decimal(0))
    [posting] = ledger.steps
    assert (posting.status, posting.amount, posting.minted, posting.entries[0].amount) == (REVERTED, 40, -40, 0)
    assert (posting.details.description, posting.details.external_event_date) == ("not-confirmed", NOON)
    assert [pair for pair, _ in ledger.changed_holdings()] == [(WALLET, 1)]


def test_a_hold_without_an_end_is_ended_at_the_given_moment_or_now():
    ledger = session(at=NOON, pending=80)
    ledger.end_hold(hold(uses=[use(40)], held_until=None), POINTS, ended_at=NOON - DAY)
    ledger.end_hold(replace(hold(uses=[use(40)], held_until=None), ledger_transaction_id=12), POINTS)
    assert [step.details.external_event_date for step in ledger.steps] == [NOON - DAY, NOON]


def test_the_end_of_a_hold_is_no_activity_of_the_member():
    ledger = session(at=NOON + DAY)
    ledger.end_hold(hold(uses=[use(40)]), POINTS)
    assert ledger.holding(WALLET, 1).last_transaction_date == NOON - 2 * DAY
    assert [pair for pair, _ in ledger.changed_holdings()] == [(WALLET, 1)]


def test_a_hold_that_has_ended_is_neither_captured_nor_reverted():
    ledger, stored_hold = session(at=NOON + DAY), hold(uses=[use(40)])
    ledger.end_hold(stored_hold, POINTS)
    with pytest.raises(NotPending):
        ledger.capture(stored_hold, POINTS)
    with pytest.raises(AlreadyReverted):
        ledger.revert(stored_hold, POINTS, Details("k"))


def test_lots_that_expired_while_held_are_burned_when_the_hold_ends():
    """Lots that expired before the end of the hold expire at its end; later ones expire at their own moment."""
    ledger = session(at=NOON + 3 * DAY)
    uses = [
        use(10, expires_at=NOON - DAY, lot=1),
        use(5, expires_at=NOON - DAY / 2, lot=2),
        use(8, expires_at=NOON + DAY, lot=3),
        use(17, expires_at=NOON + 4 * DAY, lot=4),
    ]
    ledger.end_hold(hold(uses=uses), POINTS)
    release, *expiries = ledger.steps
    # 10 and 5 expired before NOON, 8 a day after it, and 17 are still valid.
    assert [(expiry.amount, expiry.details.external_event_date) for expiry in expiries] == [(15, NOON), (8, NOON + DAY)]
    assert all(expiry.is_expiry and expiry.part_of is release for expiry in expiries)
    holding = ledger.holding(WALLET, 1)
    # 15 and 8 of the 100 points have expired.
    assert (holding.current, holding.available) == (100 - 15 - 8, 100 - 15 - 8)


def test_the_held_points_of_an_idle_balance_expire_with_it_or_at_the_later_end_of_the_hold():
    """The balance was idle from two days before NOON, so the month ended at 12:00 on 2 April."""
    last_transaction = NOON - 2 * DAY
    end = last_transaction.replace(month=last_transaction.month + 1)
    ledger = session(at=end + DAY, ledger_account=IDLE)
    ledger.end_hold(hold(uses=[use(40)]), IDLE)
    assert [expiry.details.external_event_date for expiry in ledger.steps[1:]] == [end]
    # Only the 40 points of the hold expire here.
    assert ledger.holding(WALLET, 1).current == 100 - 40
    # A hold that ends after the balance keeps its points until its own end.
    ledger = session(at=end + 3 * DAY, ledger_account=IDLE)
    ledger.end_hold(hold(uses=[use(40)], held_until=end + 2 * DAY), IDLE)
    assert [expiry.details.external_event_date for expiry in ledger.steps[1:]] == [end + 2 * DAY]


def test_a_shortfall_of_a_reverted_mint_is_taken_from_released_points():
    mint = replace(
        hold(30),
        ledger_transaction_id=5,
        transaction_type=MINT,
        status=REVERTED,
        from_wallet_id=None,
        to_wallet_id=WALLET,
        held_until=None,
        missing=Decimal(30),
        clamped_by=12,
    )
    ledger = session(at=NOON, current=40)
    ledger.end_hold(hold(uses=[use(40)], mints_to_repay=(mint,)), POINTS)
    # 40 points are released, and the mint takes the 30 that it lacks.
    assert ledger.holding(WALLET, 1).available == 40 - 30
    assert ledger.missing_of(mint) == 0


def test_a_capture_may_have_a_fiat_value_and_a_date():
    ledger = session(at=NOON - DAY)
    stored_hold = hold(uses=[use(40)])
    capture = ledger.capture(
        stored_hold,
        POINTS,
        amount=Decimal(25),
        fiat=Fiat(Decimal("2.5"), currency="EUR"),
        external_event_date=NOON - 2 * DAY,
    )
    assert (capture.fiat_value, capture.fiat_currency) == (Decimal("2.5"), "EUR")
    assert capture.external_event_date == NOON - 2 * DAY
    holding = ledger.holding(WALLET, 1)
    assert (holding.current, holding.available) == (100 - 25, 100 - 25)
    assert holding.fiat == Decimal("2.5")
    with pytest.raises(NotPending):
        ledger.capture(stored_hold, POINTS)


def test_a_rollback_restores_a_hold_that_has_ended():
    ledger = session(at=NOON + DAY)
    savepoint = ledger.savepoint()
    ledger.end_hold(hold(uses=[use(40, NOON)]), POINTS)
    ledger.rollback_to(savepoint)
    assert ledger.steps == []
    assert ledger.holding(WALLET, 1).pending_debit == 40
    assert ledger.capture(hold(uses=[use(40, NOON)]), POINTS).amount == 40
