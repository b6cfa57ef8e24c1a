"""Mints, burns, transfers and expiries: their entries, lots, limits and refusals, one movement at a time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.extensions import Extension
from domain.ledger.lots import LotUse, MoveLots, NewLot, TakeLots
from domain.ledger.postings import Details, Fiat, Holding
from domain.ledger.records import BURN, MINT, PENDING, SETTLED, TRANSFER
from domain.ledger.refusals import (
    BalanceLimitReached,
    CaptureNotSupported,
    FiatNotAllowed,
    InsufficientBalance,
    OverdraftLimitExceeded,
    PointsNotTracked,
)
from domain.ledger.session import LedgerSession, overdraft_of
from domain.problems import InvalidRequest
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import stored_transaction

ANA, BEN = 1, 2
KEY = Details("key")
DAY = timedelta(days=1)
POINTS, TRACKED = account(), account(point_tracking_enabled=True)
# Points expire a month after the last activity.
ACTIVE = account(
    point_tracking_enabled=True,
    expiration_policies=(
        {"expirationType": "inactivity", "period": 1, "rounding": "none", "activities": ["earn", "spend"]},
    ),
)


def session(of=POINTS, **wallets):
    """A session at NOON with one account; the wallets `ana` and `ben` have these amounts."""
    holdings = {
        (wallet, 1): Holding(**{name: Decimal(value) for name, value in wallets[name_of].items()})
        for wallet, name_of in ((ANA, "ana"), (BEN, "ben"))
        if name_of in wallets
    }
    return LedgerSession({1: of}, holdings, {}, NOON)


def entries(step):
    """Each entry as its wallet (None: the issuance), the amount, and the balance after it."""
    return [(entry.wallet_id, entry.amount, entry.updated_balance) for entry in step.entries]


def balance(ledger, wallet=ANA):
    """The current balance of a wallet, by default of Ana's."""
    return ledger.holding(wallet, 1).current


def test_a_mint_moves_points_into_the_wallet():
    ledger = session(ana={"current": 5})
    step = ledger.mint(POINTS, ANA, Decimal(10), KEY)
    assert entries(step) == [(ANA, 10, 5 + 10), (None, -10, None)]
    assert (step.minted, step.burned, step.lot_moves) == (10, 0, ())
    assert balance(ledger) == 5 + 10
    assert not any((step.is_expiry, step.is_extension, step.ends_hold, step.is_partial))


def test_a_burn_moves_points_out_of_the_wallet():
    ledger = session(TRACKED, ana={"current": 15})
    step = ledger.burn(TRACKED, ANA, Decimal(10), KEY)
    assert entries(step) == [(ANA, -10, 5), (None, 10, None)]
    assert (step.minted, step.burned, step.lot_moves) == (0, 10, (TakeLots(ANA, 1, Decimal(10)),))
    assert balance(ledger) == 5


def test_a_burn_takes_at_most_the_balance_by_default():
    overdraft_account = account(overdraft_limit=Decimal(50))
    ledger = session(overdraft_account, ana={"current": 10})
    with pytest.raises(InsufficientBalance, match=r"The amount 11 is more than the available balance of 10\."):
        ledger.burn(overdraft_account, ANA, Decimal(11), KEY)
    ledger.burn(overdraft_account, ANA, Decimal(10), KEY)
    assert (balance(ledger), ledger.holding(ANA, 1).overdraft) == (0, 0)


@pytest.mark.parametrize(
    ("limit", "is_revolving", "max_debt"), [(None, True, 0), (-5, True, 0), (0, True, 0), (5, True, 5), (5, False, 0)]
)
def test_only_a_revolving_account_with_a_limit_has_an_overdraft(limit, is_revolving, max_debt):
    ledger_account = account(overdraft_limit=None if limit is None else Decimal(limit), is_revolving=is_revolving)
    assert overdraft_of(ledger_account) == max_debt


def test_the_overdraft_limit_includes_the_present_debt():
    overdraft_account = account(overdraft_limit=Decimal(10))
    ledger = session(overdraft_account, ana={"overdraft": 4})
    with pytest.raises(OverdraftLimitExceeded, match=r"The debt would be 12, its limit is 10\."):
        ledger.burn(overdraft_account, ANA, Decimal(8), KEY, allow_overdraft=True)
    ledger.burn(overdraft_account, ANA, Decimal(6), KEY, allow_overdraft=True)
    assert ledger.holding(ANA, 1).overdraft == 10


@pytest.mark.parametrize(("pending", "expected_suffix"), [(0, ""), (7, "; 7 more wait")])
def test_the_refusal_of_a_burn_names_points_that_are_not_available_yet(pending, expected_suffix):
    ledger = session(ana={"current": 10, "pending_credit": pending})
    # The unit of work replaces this function by one that reads when the waiting points become available.
    ledger.waiting_text = lambda wallet_id, account_id: "; 7 more wait" if (wallet_id, account_id) == (ANA, 1) else "?"
    with pytest.raises(InsufficientBalance) as refusal:
        ledger.burn(POINTS, ANA, Decimal(11), KEY)
    assert str(refusal.value) == f"The amount 11 is more than the available balance of 10{expected_suffix}."


def test_lots_give_the_part_of_a_burn_that_does_not_become_debt():
    overdraft_account = account(overdraft_limit=Decimal(50), point_tracking_enabled=True)
    ledger = session(overdraft_account, ana={"current": 10})
    step = ledger.burn(overdraft_account, ANA, Decimal(12), KEY, allow_overdraft=True)
    assert step.lot_moves == (TakeLots(ANA, 1, Decimal(10)),)
    assert entries(step) == [(ANA, -10, 0), (ANA, -2, 0), (None, 12, None)]


@pytest.mark.parametrize(("source", "target"), [(ANA, BEN), (BEN, ANA)])
def test_a_transfer_moves_points_between_two_wallets(source, target):
    ledger = session(ana={"current": 15}, ben={"current": 15})
    step = ledger.transfer(POINTS, source, target, Decimal(10), KEY)
    assert entries(step) == [(source, -10, 15 - 10), (target, 10, 15 + 10)]
    assert (step.minted, step.burned) == (0, 0)


@pytest.mark.parametrize(
    ("of", "amount", "moves"),
    [
        (TRACKED, 10, (MoveLots(ANA, BEN, 1, amount=Decimal(10), to_lots=Decimal(7)),)),
        (TRACKED, 0, ()),
        (POINTS, 10, ()),
    ],
)
def test_a_transfer_moves_lots_of_the_points_that_do_not_repay_debt(of, amount, moves):
    ledger = session(of, ana={"current": 15}, ben={"overdraft": 3})
    assert ledger.transfer(of, ANA, BEN, Decimal(amount), KEY).lot_moves == moves


def test_a_transfer_takes_at_most_the_balance_of_its_sender():
    ledger = session(ana={"current": 15})
    with pytest.raises(InsufficientBalance):
        ledger.transfer(POINTS, ANA, BEN, Decimal(16), KEY)
    ledger.transfer(POINTS, ANA, BEN, Decimal(15), KEY)
    assert (balance(ledger), balance(ledger, BEN)) == (0, 15)


def test_both_wallets_of_a_transfer_get_its_date():
    ledger = session(ana={"current": 15})
    ledger.transfer(POINTS, ANA, BEN, Decimal(1), KEY)
    assert [(pair, holding.last_transaction_date) for pair, holding in ledger.changed_holdings()] == [
        ((ANA, 1), NOON),
        ((BEN, 1), NOON),
    ]


def test_a_transfer_from_a_wallet_to_itself_is_refused():
    with pytest.raises(InvalidRequest) as refusal:
        session(ana={"current": 15}).transfer(POINTS, ANA, ANA, Decimal(10), KEY)
    assert [fault.pointer for fault in refusal.value.faults] == ["/toWalletId"]


def test_the_current_and_pending_points_of_a_wallet_are_at_most_the_maximum_balance():
    limited_account = account(max_balance=Decimal(20))
    ledger = session(limited_account, ana={"current": 5, "pending_credit": 5}, ben={"current": 30})
    with pytest.raises(BalanceLimitReached) as refusal:
        ledger.mint(limited_account, ANA, Decimal(11), KEY)
    assert refusal.value.extension_fields["available"] == 20 - 5 - 5
    assert "A wallet may hold at most 20; this one holds 10, including pending points." in str(refusal.value)
    with pytest.raises(BalanceLimitReached):
        ledger.transfer(limited_account, BEN, ANA, Decimal(11), KEY)
    ledger.mint(limited_account, ANA, Decimal(4), KEY)
    ledger.mint(limited_account, ANA, Decimal(6), KEY)
    assert balance(ledger) == 5 + 4 + 6
    with pytest.raises(BalanceLimitReached):
        ledger.mint(limited_account, ANA, Decimal(1), KEY)
    # This mint is exempt from the maximum.
    ledger.mint(limited_account, ANA, Decimal(1), KEY, checks_max_balance=False)
    assert balance(ledger) == 15 + 1


def test_a_wallet_holds_any_balance_if_its_account_has_no_maximum():
    ledger = session()
    ledger.mint(POINTS, ANA, Decimal(10**12), KEY)
    assert balance(ledger) == 10**12


def test_repaid_debt_does_not_count_against_the_maximum_balance():
    limited_account = account(max_balance=Decimal(20), overdraft_limit=Decimal(50))
    ledger = session(limited_account, ana={"overdraft": 5})
    ledger.mint(limited_account, ANA, Decimal(25), KEY)
    assert balance(ledger) == 25 - 5
    assert ledger.holding(ANA, 1).overdraft == 0


@pytest.mark.parametrize(
    ("amount", "manual", "is_allowed"), [(10, True, True), (0, False, True), (10, False, True), (0, True, False)]
)
def test_any_mint_may_have_qualifying_points_except_a_pending_mint_of_0_points(amount, manual, is_allowed):
    ledger = session()
    if is_allowed:
        step = ledger.mint(POINTS, ANA, Decimal(amount), KEY, manual=manual, qualifying=Decimal(7))
        assert (step.qualifying, step.status) == (7, PENDING if manual else SETTLED)
        assert ledger.holding(ANA, 1).earned == (0 if manual else 7)
        return
    with pytest.raises(InvalidRequest) as refusal:
        ledger.mint(POINTS, ANA, Decimal(amount), KEY, manual=manual, qualifying=Decimal(7))
    assert [(fault.detail, fault.pointer) for fault in refusal.value.faults] == [
        ("qualifyingAmount needs a positive amount where the mint is pending.", "/qualifyingAmount")
    ]


def test_a_mint_of_0_points_without_qualifying_points_can_be_pending():
    posting = session().mint(POINTS, ANA, Decimal(0), KEY, manual=True)
    assert (posting.status, posting.details.external_event_date) == (PENDING, NOON)


def test_a_pending_mint_changes_no_balance_before_its_capture():
    ledger = session(ana={"current": 15})
    step = ledger.mint(POINTS, ANA, Decimal(10), KEY, manual=True)
    assert (step.status, step.amount, step.minted, step.burned) == (PENDING, 10, 0, 0)
    assert entries(step) == [(ANA, 0, 15)]
    holding = ledger.holding(ANA, 1)
    assert (holding.current, holding.pending_debit, holding.pending_credit) == (15, 0, 10)


def test_a_hold_takes_from_the_available_points():
    ledger = session(TRACKED, ana={"current": 15})
    step = ledger.burn(TRACKED, ANA, Decimal(10), KEY, manual=True, held_until=NOON + DAY)
    assert (step.status, step.amount, step.held_until) == (PENDING, 10, NOON + DAY)
    assert step.lot_moves == (TakeLots(ANA, 1, Decimal(10)),)
    # The current balance does not change before the capture.
    assert entries(step) == [(ANA, 0, 15)]
    assert (step.minted, step.burned) == (0, 0)
    holding = ledger.holding(ANA, 1)
    assert (holding.current, holding.pending_debit, holding.pending_credit) == (15, 10, 0)
    assert holding.available == 15 - 10
    with pytest.raises(InsufficientBalance):
        ledger.burn(TRACKED, ANA, Decimal(6), KEY, manual=True)


def test_a_held_transfer_is_pending_in_both_wallets():
    ledger = session(ana={"current": 15})
    step = ledger.transfer(POINTS, ANA, BEN, Decimal(10), KEY, manual=True)
    assert (step.status, step.amount, step.minted, step.burned) == (PENDING, 10, 0, 0)
    assert entries(step) == [(ANA, 0, 15), (BEN, 0, 0)]
    holding_of_ana, holding_of_ben = ledger.holding(ANA, 1), ledger.holding(BEN, 1)
    assert (holding_of_ana.pending_debit, holding_of_ana.pending_credit) == (10, 0)
    assert (holding_of_ben.pending_debit, holding_of_ben.pending_credit) == (0, 10)


@pytest.mark.parametrize("method", [LedgerSession.mint, LedgerSession.burn])
def test_an_account_with_an_overdraft_allows_no_pending_movement(method):
    overdraft_account = account(overdraft_limit=Decimal(1))
    ledger = session(overdraft_account, ana={"current": 15})
    with pytest.raises(CaptureNotSupported):
        method(ledger, overdraft_account, ANA, Decimal(10), KEY, manual=True)


def test_only_burns_have_a_value_in_money():
    details_with_money = Details("key", fiat=Fiat(value=Decimal(3), gross_amount=Decimal(4), currency="EUR"))
    ledger = session(ana={"current": 15})
    with pytest.raises(FiatNotAllowed):
        ledger.mint(POINTS, ANA, Decimal(4), details_with_money)
    with pytest.raises(FiatNotAllowed):
        ledger.transfer(POINTS, ANA, BEN, Decimal(4), details_with_money)
    assert ledger.burn(POINTS, ANA, Decimal(4), details_with_money).fiat_value == 3
    assert ledger.holding(ANA, 1).fiat == 3


@pytest.mark.parametrize(
    ("expires_at", "balance_after"), [(NOON - DAY, 0), (NOON, 0), (NOON + timedelta(microseconds=1), 10), (None, 10)]
)
def test_points_that_expire_by_the_moment_of_their_mint_are_burned_at_once(expires_at, balance_after):
    ledger = session(TRACKED)
    step = ledger.mint(TRACKED, ANA, Decimal(10), KEY, expires_at=expires_at)
    assert balance(ledger) == balance_after
    _, *expiry_steps = ledger.steps
    if balance_after == 10:
        assert expiry_steps == []
        return
    [expiry] = expiry_steps
    assert (expiry.part_of, expiry.burned) == (step, 10)
    assert entries(expiry) == [(ANA, -10, 0), (None, 10, None)]
    assert expiry.lot_moves == (TakeLots(ANA, 1, Decimal(10), from_newest_lot=True, is_expiry=True),)


def test_the_lot_of_a_mint_has_the_expiry_of_the_request():
    [move] = session(TRACKED).mint(TRACKED, ANA, Decimal(10), KEY, expires_at=NOON + DAY).lot_moves
    assert move.expires_at == NOON + DAY


def test_an_account_that_does_not_track_points_has_no_expiry():
    with pytest.raises(PointsNotTracked):
        session().mint(POINTS, ANA, Decimal(10), KEY, expires_at=NOON + DAY)
    with pytest.raises(PointsNotTracked):
        session().extend(POINTS, ANA, Extension(months=1), KEY)


def test_expired_lots_are_burned():
    uses = (LotUse(1, Decimal(6), NOON), LotUse(2, Decimal(4), NOON))
    ledger = session(TRACKED, ana={"current": 15})
    ledger.expire(TRACKED, ANA, uses, moment=NOON, key="expiry")
    [step] = ledger.steps
    assert entries(step) == [(ANA, -10, 15 - 10), (None, 10, None)]
    assert (step.burned, step.is_expiry) == (10, True)
    assert step.lot_moves == (TakeLots(ANA, 1, Decimal(10), exact_uses=uses, is_expiry=True),)
    assert (step.details.description, step.details.external_event_date) == ("Expired", NOON)


def test_an_extension_is_a_mint_of_0_points():
    ledger = session(TRACKED, ana={"current": 15})
    step = ledger.extend(TRACKED, ANA, Extension(months=1), KEY)
    assert (step.transaction_type, step.amount, step.is_extension) == (MINT, 0, True)
    assert balance(ledger) == 15
    assert entries(step) == [(ANA, 0, 15), (None, 0, None)]


@pytest.mark.parametrize(
    "move",
    [
        lambda ledger, details: ledger.mint(ACTIVE, ANA, Decimal(1), details),
        lambda ledger, details: ledger.burn(ACTIVE, ANA, Decimal(1), details),
        lambda ledger, details: ledger.transfer(ACTIVE, ANA, BEN, Decimal(1), details),
    ],
)
def test_a_movement_restarts_the_idle_period_of_its_wallet(move):
    details = Details("key", external_event_date=NOON - DAY)
    holding = Holding(current=Decimal(5), last_activity_date=NOON - 9 * DAY, last_transaction_date=NOON - 9 * DAY)
    ledger = LedgerSession({1: ACTIVE}, {(ANA, 1): holding}, {}, NOON)
    move(ledger, details)
    assert ledger.holding(ANA, 1).last_activity_date == NOON - DAY


def test_a_movement_that_does_not_count_as_activity_does_not_restart_the_idle_period():
    holding = Holding(current=Decimal(5), last_activity_date=NOON - 9 * DAY)
    ledger = LedgerSession({1: ACTIVE}, {(ANA, 1): holding}, {}, NOON)
    ledger.mint(ACTIVE, ANA, Decimal(1), Details("key", counts_as_activity=False))
    assert ledger.holding(ANA, 1).last_activity_date == NOON - 9 * DAY


@pytest.mark.parametrize(("days_ago", "balance_after"), [(27, 10), (28, 0), (40, 0)])
def test_points_for_an_event_before_the_idle_period_are_burned_at_once(days_ago, balance_after):
    """A month before NOON, on 4 February, was 28 days ago."""
    ledger = session(ACTIVE)
    ledger.mint(ACTIVE, ANA, Decimal(10), Details("key", external_event_date=NOON - days_ago * DAY))
    assert balance(ledger) == balance_after
    # The second step is the expiry.
    assert len(ledger.steps) == (1 if balance_after == 10 else 2)


LAST_TRANSACTION = account(expiration_policies=({"expirationType": "lastTransaction", "period": 1},))
A_MONTH_AGO = NOON.replace(month=NOON.month - 1)


@pytest.mark.parametrize(
    ("of", "points", "last_activity", "last_transaction", "idle_since"),
    [
        (ACTIVE, 0, A_MONTH_AGO + DAY, NOON - DAY, A_MONTH_AGO + DAY),
        # The idle period of a month has ended, now or before: a new one starts.
        (ACTIVE, 5, A_MONTH_AGO, NOON - DAY, NOON),
        (ACTIVE, 5, A_MONTH_AGO - DAY, NOON - DAY, NOON),
        # Without an activity, the last transaction counts, but only if there are points to expire.
        (ACTIVE, 5, None, NOON - DAY, NOON - DAY),
        (ACTIVE, 0, None, NOON - DAY, NOON),
        (ACTIVE, 5, None, A_MONTH_AGO, NOON),
        (ACTIVE, 0, None, None, NOON),
        (LAST_TRANSACTION, 5, None, A_MONTH_AGO, None),
    ],
)
def test_a_transfer_starts_the_idle_period_of_its_receiver_only_if_none_has_started_or_it_has_ended(
    of, points, last_activity, last_transaction, idle_since
):
    holding = Holding(current=Decimal(points), last_activity_date=last_activity, last_transaction_date=last_transaction)
    ledger = LedgerSession({1: of}, {(ANA, 1): Holding(current=Decimal(5)), (BEN, 1): holding}, {}, NOON)
    ledger.transfer(of, ANA, BEN, Decimal(1), KEY)
    assert ledger.holding(BEN, 1).last_activity_date == idle_since


@pytest.mark.parametrize(("happened_at", "last_activity"), [(NOON - 2 * DAY, None), (NOON - DAY, None), (NOON, NOON)])
def test_the_first_activity_counts_if_it_is_later_than_the_last_transaction(happened_at, last_activity):
    ledger = LedgerSession({1: ACTIVE}, {(ANA, 1): Holding(last_transaction_date=NOON - DAY)}, {}, NOON)
    ledger.record_activity(ACTIVE, ANA, "earn", happened_at)
    assert ledger.holding(ANA, 1).last_activity_date == last_activity


def test_an_idle_period_begins_when_points_arrive_by_a_transfer():
    ledger = LedgerSession({1: ACTIVE}, {(ANA, 1): Holding(current=Decimal(5))}, {}, NOON)
    ledger.transfer(ACTIVE, ANA, BEN, Decimal(1), KEY)
    assert ledger.holding(BEN, 1).last_activity_date == NOON
    assert ledger.steps[0].lot_moves != ()


def pending(transaction_type, **values):
    """A stored transaction of 10 that is pending since now."""
    sender, receiver = {MINT: (None, ANA), BURN: (ANA, None), TRANSFER: (ANA, BEN)}[transaction_type]
    wallets = {"from_wallet_id": sender, "to_wallet_id": receiver}
    return stored_transaction(transaction_type, PENDING, **wallets | values)


@pytest.mark.parametrize(
    ("transaction_type", "happened_at", "last_activity"),
    [(BURN, NOON - DAY, NOON - DAY), (BURN, None, NOON - 9 * DAY), (TRANSFER, NOON - DAY, NOON - 9 * DAY)],
)
def test_only_a_captured_burn_with_a_date_is_an_activity_of_that_date(transaction_type, happened_at, last_activity):
    holding = Holding(
        current=Decimal(15),
        pending_debit=Decimal(10),
        last_activity_date=NOON - 9 * DAY,
        last_transaction_date=NOON - 9 * DAY,
    )
    holding_of_ben = Holding(pending_credit=Decimal(10))
    ledger = LedgerSession({1: ACTIVE}, {(ANA, 1): holding, (BEN, 1): holding_of_ben}, {}, NOON)
    ledger.capture(pending(transaction_type), ACTIVE, external_event_date=happened_at)
    assert ledger.holding(ANA, 1).last_activity_date == last_activity


@pytest.mark.parametrize(("happened_at", "day_of_april"), [(NOON - 3 * DAY, 1), (None, 4)])
def test_the_months_of_a_captured_mint_count_from_the_date_of_its_event(happened_at, day_of_april):
    """NOON is on 4 March, and points live for a month."""
    monthly = account(point_tracking_enabled=True, expires_in_months=1)
    ledger = session(monthly, ana={"pending_credit": 10})
    step = ledger.capture(pending(MINT, external_event_date=happened_at), monthly)
    assert step.lot_moves == (NewLot(ANA, 1, Decimal(10), NOON.replace(month=4, day=day_of_april)),)


def test_no_lot_is_created_of_points_that_repay_debt():
    overdraft_account = account(overdraft_limit=Decimal(50), point_tracking_enabled=True)
    ledger = session(overdraft_account, ana={"pending_credit": 10, "overdraft": 10})
    assert ledger.capture(pending(MINT), overdraft_account).lot_moves == ()
    assert (balance(ledger), ledger.holding(ANA, 1).overdraft) == (0, 0)
