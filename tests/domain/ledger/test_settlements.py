"""Captures and reverts: what they move, release, refuse and record.

Stored transactions have 10 points and the id `STORED_ID` unless a test names others. Tuples such as (26, 0, 0) are the
current balance, the pending debit and the pending credit of a wallet.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.lots import LotUse, NewLot, RestoreLots, SettleLots, TakeLots
from domain.ledger.postings import Details, Fiat
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED, TRANSFER
from domain.ledger.refusals import (
    AccountInactive,
    AlreadyReverted,
    CaptureExceedsHold,
    FiatExceedsBurn,
    FiatNotAllowed,
    InsufficientBalance,
    NotPending,
    NotRevertible,
    OverdraftLimitExceeded,
    SupplyExceeded,
)
from domain.problems import InvalidRequest
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


# -- captures -------------------------------------------------------------------------------------------------------


def test_a_captured_burn_takes_its_amount_and_releases_the_rest():
    ledger = session(ana=amounts(current=30, pending_debit=10))
    step = ledger.capture(stored_transaction(status=PENDING), POINTS, Decimal(4))
    assert entries(step) == [(ANA, -4), (None, 4)]
    assert (step.minted, step.burned) == (0, 4)
    assert current_debit_credit(ledger) == (30 - 4, 0, 0)


def test_a_capture_takes_the_whole_hold_by_default():
    ledger = session(ana=amounts(current=30, pending_debit=10))
    step = ledger.capture(stored_transaction(status=PENDING), POINTS)
    assert step.amount == 10
    assert current_debit_credit(ledger) == (30 - 10, 0, 0)


def test_a_captured_mint_gives_the_captured_amount():
    ledger = session(ana=amounts(pending_credit=10))
    step = ledger.capture(stored_transaction(MINT, PENDING), POINTS, Decimal(4))
    assert entries(step) == [(ANA, 4), (None, -4)]
    assert (step.minted, step.burned) == (4, 0)
    assert current_debit_credit(ledger) == (4, 0, 0)
    assert ledger.holding(ANA, 1).earned == 4


def test_a_captured_transfer_moves_its_points_between_the_wallets():
    ledger = session(ana=amounts(current=30, pending_debit=10), ben=amounts(pending_credit=10))
    step = ledger.capture(stored_transaction(TRANSFER, PENDING), POINTS)
    assert entries(step) == [(ANA, -10), (BEN, 10)]
    assert (step.minted, step.burned) == (0, 0)
    assert current_debit_credit(ledger) == (20, 0, 0)
    assert current_debit_credit(ledger, BEN) == (10, 0, 0)


def test_a_capture_of_0_points_releases_the_whole_hold():
    ledger = session(ana=amounts(current=30, pending_debit=10))
    step = ledger.capture(stored_transaction(status=PENDING), POINTS, Decimal(0))
    assert step.entries == ()
    assert current_debit_credit(ledger) == (30, 0, 0)
    with pytest.raises(NotPending):
        ledger.capture(stored_transaction(status=PENDING), POINTS)
    with pytest.raises(AlreadyReverted):
        ledger.revert(stored_transaction(status=PENDING), POINTS, KEY)


def test_a_captured_mint_earns_on_the_date_of_its_event():
    ledger = session(ana=amounts(pending_credit=10))
    ledger.capture(stored_transaction(MINT, PENDING, external_event_date=NOON - DAY), POINTS)
    [earning] = ledger.earnings(ANA, 1)
    assert (earning.moment, earning.amount) == (NOON - DAY, 10)


def test_a_captured_mint_earns_the_share_of_its_qualifying_points():
    ledger = session(ana=amounts(pending_credit=10))
    pending_mint = stored_transaction(MINT, PENDING, amount=10, qualifying=Decimal(20), external_event_date=NOON - DAY)
    step = ledger.capture(pending_mint, POINTS, Decimal(4))
    # 4 of 10 points have 8 of 20 qualifying points.
    assert (step.amount, step.qualifying, ledger.holding(ANA, 1).earned) == (4, 8, 8)
    [earning] = ledger.earnings(ANA, 1)
    assert (earning.moment, earning.amount) == (NOON - DAY, 8)


def test_a_captured_burn_has_its_share_of_the_value_in_money():
    ledger = session(ana=amounts(current=30, pending_debit=10))
    pending_burn = stored_transaction(status=PENDING, amount=10, fiat_value=Decimal("5.00"))
    step = ledger.capture(pending_burn, POINTS, Decimal(3))
    assert step.fiat_value == Decimal("1.5")
    assert ledger.holding(ANA, 1).fiat == Decimal("1.5")


def test_a_captured_burn_keeps_the_lots_of_its_amount_and_releases_the_others():
    uses = (LotUse(1, Decimal(6), NOON + DAY), LotUse(2, Decimal(4), NOON + 2 * DAY))
    ledger = session(TRACKED, ana=amounts(current=30, pending_debit=10))
    step = ledger.capture(stored_transaction(status=PENDING, uses=uses), TRACKED, Decimal(6))
    [move] = step.lot_moves
    assert isinstance(move, SettleLots)
    assert (move.kept_uses, move.released_uses) == (uses[:1], uses[1:])


@pytest.mark.parametrize("expired_at", [NOON, NOON - DAY])
def test_points_that_expired_while_pending_are_burned_on_capture(expired_at):
    ledger = session(TRACKED, ana=amounts(pending_credit=10))
    ledger.capture(stored_transaction(MINT, PENDING, pending_expires_at=expired_at), TRACKED)
    capture, expiry_step = ledger.steps
    assert capture.amount == 10
    assert (expiry_step.amount, expiry_step.is_expiry, expiry_step.part_of) == (10, True, capture)
    assert current_debit_credit(ledger) == (0, 0, 0)
    ledger_before_expiry = session(TRACKED, ana=amounts(pending_credit=10))
    ledger_before_expiry.capture(stored_transaction(MINT, PENDING, pending_expires_at=NOON + DAY), TRACKED)
    assert current_debit_credit(ledger_before_expiry) == (10, 0, 0)


def test_released_points_whose_lots_have_expired_are_burned_at_once():
    uses = (LotUse(1, Decimal(6), NOON + DAY), LotUse(2, Decimal(4), NOON))
    ledger = session(TRACKED, ana=amounts(current=30, pending_debit=10))
    ledger.revert(stored_transaction(status=PENDING, uses=uses), TRACKED, KEY)
    release, expiry_step = ledger.steps
    assert release.status == REVERTED
    assert (expiry_step.amount, expiry_step.is_expiry, expiry_step.part_of) == (4, True, release)
    assert current_debit_credit(ledger) == (30 - 4, 0, 0)


def test_a_capture_beyond_the_hold_is_refused():
    ledger = session(ana=amounts(current=30, pending_debit=10))
    with pytest.raises(CaptureExceedsHold, match=r"The amount 11 is more than the 10 that the transaction holds\."):
        ledger.capture(stored_transaction(status=PENDING), POINTS, Decimal(11))
    with pytest.raises(InvalidRequest):
        ledger.capture(stored_transaction(status=PENDING), POINTS, Decimal("0.5"))
    with pytest.raises(NotPending, match=r"Transaction 8 is not pending\."):
        ledger.capture(stored_transaction(), POINTS)
    assert ledger.steps == []


@pytest.mark.parametrize("transaction_type", [BURN, TRANSFER])
def test_only_the_capture_of_a_mint_needs_a_supply(transaction_type):
    exhausted_account = account(max_supply=Decimal(100))
    ledger = session(
        exhausted_account, issued=100, ana=amounts(current=30, pending_debit=10), ben=amounts(pending_credit=10)
    )
    assert ledger.capture(stored_transaction(transaction_type, PENDING), exhausted_account).amount == 10


def test_a_captured_mint_stays_below_the_maximum_supply():
    limited_account = account(max_supply=Decimal(100))
    ledger = session(limited_account, issued=95, ana=amounts(pending_credit=10))
    with pytest.raises(SupplyExceeded):
        ledger.capture(stored_transaction(MINT, PENDING), limited_account)
    assert ledger.capture(stored_transaction(MINT, PENDING), limited_account, Decimal(5)).minted == 5


@pytest.mark.parametrize(("transaction_type", "wallets"), [(MINT, (0, ANA)), (BURN, (ANA, 0)), (TRANSFER, (ANA, BEN))])
def test_the_missing_wallets_of_a_mint_and_of_a_burn_have_the_id_0(transaction_type, wallets):
    transaction = stored_transaction(transaction_type)
    assert (transaction.debited_wallet_id, transaction.credited_wallet_id) == wallets


# -- reverts --------------------------------------------------------------------------------------------------------


def test_a_reverted_burn_returns_its_points():
    ledger = session(ana=amounts(current=30))
    step = ledger.revert(stored_transaction(), POINTS, KEY)
    assert (step.transaction_type, step.status, step.burned, step.minted) == (REVERT, SETTLED, -10, 0)
    assert entries(step) == [(ANA, 10), (None, -10)]
    assert (step.from_wallet_id, step.to_wallet_id, step.reverts) == (None, ANA, stored_transaction())
    assert current_debit_credit(ledger) == (30 + 10, 0, 0)
    assert ledger.has_changed_transactions


def test_a_reverted_mint_takes_its_points_and_its_earned_points():
    ledger = session(ana=amounts(current=30, earned=30))
    step = ledger.revert(stored_transaction(MINT, happened_at=NOON - DAY), POINTS, KEY)
    assert entries(step) == [(ANA, -10), (None, 10)]
    assert (step.minted, step.burned, step.from_wallet_id, step.to_wallet_id) == (-10, 0, ANA, None)
    assert current_debit_credit(ledger) == (30 - 10, 0, 0)
    assert ledger.holding(ANA, 1).earned == 30 - 10
    assert [(earning.moment, earning.amount) for earning in ledger.earnings(ANA, 1)] == [(NOON - DAY, -10)]
    assert ledger.missing_amounts == {}
    # A mint that is reverted as a whole counts as not earned without a record of unearned points.
    assert ledger.unearned_amounts == {}


def test_a_reverted_transfer_returns_to_the_sender():
    ledger = session(ana=amounts(current=30), ben=amounts(current=15))
    step = ledger.revert(stored_transaction(TRANSFER), POINTS, KEY)
    assert entries(step) == [(BEN, -10), (ANA, 10)]
    assert (step.from_wallet_id, step.to_wallet_id) == (BEN, ANA)
    with pytest.raises(InsufficientBalance):
        session(ben=amounts(current=9)).revert(stored_transaction(TRANSFER), POINTS, KEY)


def test_a_mint_that_was_spent_is_not_reverted_by_default():
    ledger = session(ana=amounts(current=6))
    with pytest.raises(InsufficientBalance, match=r"Only 6 of the 10 points to claw back are left\."):
        ledger.revert(stored_transaction(MINT), POINTS, KEY)
    assert session(ana=amounts(current=10)).revert(stored_transaction(MINT), POINTS, KEY).amount == 10
    # Points on hold are not available.
    with pytest.raises(InsufficientBalance):
        session(ana=amounts(current=12, pending_debit=3)).revert(stored_transaction(MINT), POINTS, KEY)


def test_the_revert_of_a_spent_mint_creates_debt_up_to_the_limit_if_the_request_allows_it():
    overdraft_account = account(overdraft_limit=Decimal(5))
    ledger = session(overdraft_account, ana=amounts(current=6))
    step = ledger.revert(stored_transaction(MINT), overdraft_account, KEY, allow_overdraft=True)
    assert [(entry.amount, entry.is_overdraft) for entry in step.entries] == [(-6, False), (-4, True), (10, False)]
    assert (ledger.holding(ANA, 1).current, ledger.holding(ANA, 1).overdraft) == (0, 4)
    with pytest.raises(OverdraftLimitExceeded):
        session(overdraft_account, ana=amounts(current=4)).revert(
            stored_transaction(MINT), overdraft_account, KEY, allow_overdraft=True
        )
    with pytest.raises(InsufficientBalance):
        session(overdraft_account, ana=amounts(current=6)).revert(stored_transaction(MINT), overdraft_account, KEY)


def test_a_revert_does_not_take_the_expired_part_of_a_mint():
    ledger = session(ana=amounts(current=30))
    assert ledger.revert(stored_transaction(MINT, amount=10, expired=Decimal(3)), POINTS, KEY).amount == 10 - 3
    ledger_of_lots = session(TRACKED, ana=amounts(current=30))
    ledger_of_lots.expire(TRACKED, ANA, (LotUse(5, Decimal(4)),), moment=NOON, key="expiry")
    assert ledger_of_lots.revert(stored_transaction(MINT, amount=10, lot_ids=(5,)), TRACKED, KEY).amount == 10 - 4


def test_a_reverted_burn_restores_the_lots_that_expire_last_first():
    uses = (LotUse(1, Decimal(6), NOON + DAY), LotUse(2, Decimal(4), NOON + 2 * DAY))
    ledger = session(account(point_tracking_enabled=True, overdraft_limit=Decimal(9)), ana=amounts(overdraft=5))
    step = ledger.revert(stored_transaction(uses=uses), ledger.accounts[1], KEY)
    [move] = step.lot_moves
    assert isinstance(move, RestoreLots)
    # 5 of the 10 points repay debt, and only the other 5 return to the lots.
    assert [(use.ledger_lot_id, use.amount) for use in move.returned_uses] == [(1, 1), (2, 4)]
    assert move.new_lot_amount == 0


def test_lots_give_the_part_of_a_reverted_mint_that_does_not_become_debt():
    overdraft_account = account(overdraft_limit=Decimal(5), point_tracking_enabled=True)
    step = session(overdraft_account, ana=amounts(current=6)).revert(
        stored_transaction(MINT), overdraft_account, KEY, allow_overdraft=True
    )
    assert step.lot_moves == (TakeLots(ANA, 1, Decimal(6), first_transaction_id=STORED_ID),)


def test_a_reverted_mint_takes_from_its_own_lots_first():
    ledger = session(TRACKED, ana=amounts(current=30))
    [move] = ledger.revert(stored_transaction(MINT), TRACKED, KEY).lot_moves
    assert isinstance(move, TakeLots)
    assert (move.amount, move.first_transaction_id) == (10, STORED_ID)


@pytest.mark.parametrize(
    ("transaction", "reason"),
    [
        (stored_transaction(REVERT, from_wallet_id=ANA), "is a revert"),
        (stored_transaction(BURN, is_expiry=True), "is an expiry"),
        (stored_transaction(BURN, from_wallet_id=None), "records a change of the account"),
    ],
)
def test_a_transaction_that_cannot_be_reverted_is_refused(transaction, reason):
    with pytest.raises(NotRevertible) as caught:
        session(ana=amounts(current=30)).revert(transaction, POINTS, KEY)
    assert str(caught.value) == f"Transaction {STORED_ID} cannot be reverted: it {reason}."


def test_a_transaction_is_reverted_once():
    ledger = session(ana=amounts(current=30))
    ledger.revert(stored_transaction(), POINTS, KEY)
    with pytest.raises(AlreadyReverted):
        ledger.revert(stored_transaction(), POINTS, KEY)
    with pytest.raises(AlreadyReverted):
        session().revert(stored_transaction(status=REVERTED), POINTS, KEY)


def test_points_of_an_inactive_account_do_not_move():
    inactive_account = account(active=False)
    with pytest.raises(AccountInactive):
        session(inactive_account).revert(stored_transaction(), inactive_account, KEY)
    with pytest.raises(AccountInactive):
        session(inactive_account, ana=amounts(current=30)).reverse_part(
            stored_transaction(MINT), inactive_account, Decimal(4), KEY
        )


def test_a_reverted_burn_returns_its_value_in_money_or_a_part_of_it():
    burn = stored_transaction(fiat_value=Decimal(5), fiat_currency="EUR")
    ledger = session(ana=amounts(fiat=5))
    step = ledger.revert(burn, POINTS, KEY)
    assert (step.fiat_value, step.details.fiat) == (5, Fiat(currency="EUR"))
    assert ledger.holding(ANA, 1).fiat == 5 - 5
    ledger = session(ana=amounts(fiat=5))
    assert ledger.revert(burn, POINTS, KEY, partial_fiat=Decimal(2)).fiat_value == 2
    assert ledger.holding(ANA, 1).fiat == 5 - 2
    assert session().revert(burn, POINTS, KEY, partial_fiat=Decimal(5)).fiat_value == 5
    with pytest.raises(FiatExceedsBurn, match=r"partialFiatValue is 6; only 5 of the fiatValue of the burn are left\."):
        session().revert(burn, POINTS, KEY, partial_fiat=Decimal(6))
    with pytest.raises(FiatExceedsBurn):
        session().revert(stored_transaction(), POINTS, KEY, partial_fiat=Decimal(1))


@pytest.mark.parametrize(
    ("transaction_type", "type_name", "partial_fiat"), [(MINT, "mint", Decimal(1)), (TRANSFER, "transfer", Decimal(0))]
)
def test_only_the_revert_of_a_burn_returns_a_part_of_a_value_in_money(transaction_type, type_name, partial_fiat):
    ledger = session(ana=amounts(current=30), ben=amounts(current=30))
    transaction = stored_transaction(transaction_type)
    with pytest.raises(FiatNotAllowed) as refusal:
        ledger.revert(transaction, POINTS, KEY, partial_fiat=partial_fiat)
    assert refusal.value.detail == (
        f"partialFiatValue is sent, but transaction {transaction.ledger_transaction_id} is a {type_name};"
        " only the revert of a burn can have it."
    )


@pytest.mark.parametrize("fiat", [Fiat(Decimal(1)), Fiat(currency="EUR"), Fiat(gross_amount=Decimal(1))])
def test_a_revert_has_no_value_in_money_of_its_own(fiat):
    with pytest.raises(FiatNotAllowed, match=r"^A revert has no fiatValue, fiatGrossAmount or fiatCurrency\.$"):
        session(ana=amounts(current=30)).revert(stored_transaction(BURN), POINTS, Details("key", fiat=fiat))


@pytest.mark.parametrize(
    ("transaction", "wallets"),
    [
        (stored_transaction(BURN), [ANA]),
        (stored_transaction(TRANSFER), [ANA, BEN]),
        (stored_transaction(MINT), [ANA]),
        (stored_transaction(BURN, PENDING), [ANA]),
        (stored_transaction(TRANSFER, PENDING), [ANA, BEN]),
        (stored_transaction(MINT, PENDING), [ANA]),
    ],
)
def test_a_revert_changes_only_its_wallets_and_earned_points_only_of_a_settled_mint(transaction, wallets):
    ledger = session(ana=amounts(current=30, earned=30), ben=amounts(current=30, earned=30))
    ledger.revert(transaction, POINTS, KEY)
    assert [wallet_id for (wallet_id, _), _ in ledger.changed_holdings()] == wallets
    is_mint = (transaction.transaction_type, transaction.status) == (MINT, SETTLED)
    assert ledger.holding(ANA, 1).earned == (30 - 10 if is_mint else 30)
    assert ledger.holding(BEN, 1).earned == 30
    assert len(ledger.earnings(ANA, 1)) == (1 if is_mint else 0)


def test_points_that_a_burn_took_from_an_overdraft_return_in_a_new_lot():
    """The burn took 6 of its 10 points from a lot and 4 as debt, which has been repaid since."""
    by_tier = account(
        point_tracking_enabled=True,
        expires_in_months=1,
        tier_expirations=({"loyaltyTierKey": "gold", "months": 2},),
    )
    ledger = session(by_tier)
    ledger.tier_keys_of_mint = lambda *mint: ["gold"] if mint == (ANA, NOON, NOON) else []
    uses = (LotUse(1, Decimal(6), NOON + DAY),)
    [move] = ledger.revert(stored_transaction(uses=uses), by_tier, KEY).lot_moves
    assert (move.wallet_id, move.returned_uses, move.new_lot_amount) == (ANA, uses, 4)
    assert move.expires_at == NOON.replace(month=NOON.month + 2)


@pytest.mark.parametrize(("lot_expires_at", "new_days"), [(NOON, 30), (NOON + DAY, None)])
def test_restored_points_of_an_expired_lot_get_a_new_expiry_from_the_revert(lot_expires_at, new_days):
    reviving_account = account(point_tracking_enabled=True, restored_expiry_days=30)
    ledger = session(reviving_account)
    moves = ledger.revert(
        stored_transaction(uses=(LotUse(1, Decimal(10), expires_at=lot_expires_at),)), reviving_account, KEY
    ).lot_moves
    new_lots = [(move.amount, move.expires_at) for move in moves if isinstance(move, NewLot)]
    assert new_lots == ([(10, NOON + new_days * DAY)] if new_days else [])
    assert current_debit_credit(ledger) == (10, 0, 0)


def test_restored_points_of_an_idle_balance_get_a_new_expiry_from_the_revert():
    policy = {"expirationType": "inactivity", "period": 1, "rounding": "none", "activities": ["spend"]}
    reviving_account = account(point_tracking_enabled=True, restored_expiry_days=30, expiration_policies=(policy,))
    ledger = session(reviving_account, ana={"last_activity_date": NOON - 40 * DAY})
    step = ledger.revert(stored_transaction(uses=(LotUse(1, Decimal(10)),)), reviving_account, KEY)
    _, new_lot = step.lot_moves
    in_30_days = NOON + 30 * DAY
    assert (new_lot.amount, new_lot.expires_at, new_lot.kept_until) == (10, in_30_days, in_30_days)
    # It replaces the lot 1.
    assert new_lot.replaces == 1
    assert current_debit_credit(ledger) == (10, 0, 0)


def test_expired_points_that_a_hold_releases_get_no_new_expiry():
    reviving_account = account(point_tracking_enabled=True, restored_expiry_days=30)
    ledger = session(reviving_account, ana=amounts(current=30, pending_debit=10))
    ledger.revert(stored_transaction(status=PENDING, uses=(LotUse(1, Decimal(10), NOON),)), reviving_account, KEY)
    assert current_debit_credit(ledger) == (20, 0, 0)


@pytest.mark.parametrize(
    ("debt", "balance", "expired_amount"),
    [
        (0, 4, 6),
        # The points that expire first repay the debt: 3 of the 6 expired ones.
        (3, 4, 3),
        # All 6 expired points and 2 of the other 4 repay the debt.
        (8, 2, 0),
    ],
)
def test_transferred_points_that_expired_while_pending_are_burned_at_once(debt, balance, expired_amount):
    """Ben gets 6 points of a lot that has expired and 4 of one that has not."""
    uses = (LotUse(1, Decimal(6), NOON), LotUse(2, Decimal(4), NOON + DAY))
    ledger = session(TRACKED, ana=amounts(current=30, pending_debit=10), ben=amounts(pending_credit=10, overdraft=debt))
    ledger.capture(stored_transaction(TRANSFER, PENDING, uses=uses), TRACKED)
    assert current_debit_credit(ledger) == (30 - 10, 0, 0)
    assert current_debit_credit(ledger, BEN) == (balance, 0, 0)
    _, *expiry_steps = ledger.steps
    expiries = [(step.amount, step.from_wallet_id) for step in expiry_steps]
    assert expiries == ([(expired_amount, BEN)] if expired_amount else [])


def test_a_reverted_burn_stays_below_the_maximum_supply_of_a_revolving_account():
    for revolves in (True, False):
        limited_account = account(max_supply=Decimal(100), is_revolving=revolves)
        # The revert returns 10 points, and 5 can still be issued.
        ledger = session(limited_account, issued=95)
        if revolves:
            with pytest.raises(SupplyExceeded):
                ledger.revert(stored_transaction(), limited_account, KEY)
        else:
            assert ledger.revert(stored_transaction(), limited_account, KEY).amount == 10


def test_a_reverted_hold_is_released():
    ledger = session(ana=amounts(current=30, pending_debit=10), ben=amounts(pending_credit=10))
    step = ledger.revert(stored_transaction(TRANSFER, PENDING), POINTS, KEY)
    assert (step.status, step.amount, entries(step)) == (REVERTED, 10, [(ANA, 0), (BEN, 0)])
    assert current_debit_credit(ledger) == (30, 0, 0)
    assert current_debit_credit(ledger, BEN) == (0, 0, 0)
    assert (step.minted, step.burned) == (0, 0)
