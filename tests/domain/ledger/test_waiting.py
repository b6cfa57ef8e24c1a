"""Mints that wait: what they hold, when they are available, and how an event confirms them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.availability import Availability, ExpiresBeforeAvailable
from domain.ledger.lots import NewLot
from domain.ledger.postings import Capture, Details, Holding
from domain.ledger.records import MINT, PENDING, SETTLED
from domain.ledger.refusals import NotPending
from domain.ledger.session import LedgerSession
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import stored_transaction

ANA, BEN = 1, 2
POINTS = account(1, point_tracking_enabled=True, expires_in_months=1)
CONFIRMED, ORDER = "member-purchase-order-confirmed", "order-1"
AWAITED = {"eventTypes": [CONFIRMED], "cancelAfter": "P60D"}
DAY = timedelta(days=1)
# When a mint for something of `NOON` was made.
MINTED = NOON + timedelta(minutes=30)
# The moment when the points of the mint that `waiting` describes expire, by the policy of their account.
EXPIRY = NOON + 32 * DAY
# The id of the mint that `waiting` and `awaiting` describe.
STORED_ID = 8


def session(*accounts, at=NOON, **holding):
    """A session with accounts, by default POINTS; Ana has the holding `holding` of each."""
    accounts = accounts or (POINTS,)
    holdings = {(ANA, ledger_account.ledger_account_id): Holding(**holding) for ledger_account in accounts}
    return LedgerSession(
        {ledger_account.ledger_account_id: ledger_account for ledger_account in accounts}, holdings, {}, at
    )


def details(key="k", **more):
    """The details of a transaction with this key."""
    return Details(key, **more)


def mint(ledger, points=POINTS, *, amount=100, expires_at=None, order=None, **terms):
    """Mint points for Ana, by default 100, on these terms of availability; return the posting."""
    availability = Availability(**terms) if terms else None
    return ledger.mint(
        points, ANA, Decimal(amount), details(order_external_id=order), expires_at, availability=availability
    )


def waiting(**values):
    """A stored mint of 100 that is available on the next day and expires at `EXPIRY`."""
    plain = {"to_wallet_id": ANA, "external_event_date": NOON, "available_at": NOON + DAY, "policy_expires_at": EXPIRY}
    return stored_transaction(MINT, **{"status": PENDING, "amount": 100, "number": STORED_ID} | plain | values)


def awaiting(order=None, after=None, **values):
    """A stored mint of 100 that waits for an event."""
    terms = {**AWAITED, "availableAfter": after, "availableRounding": None, "orderExternalId": order}
    return waiting(**{"available_at": None, "policy_expires_at": None, "awaited": terms, **values})


def balance_and_pending(ledger, wallet=ANA, account_id=1):
    """The current balance of a wallet and its pending credit."""
    holding = ledger.holding(wallet, account_id)
    return holding.current, holding.pending_credit


def test_waiting_points_are_in_no_balance_and_have_no_lot():
    ledger = session()
    posting = mint(ledger, after="P1D")
    assert balance_and_pending(ledger) == (0, 100)
    assert (posting.status, posting.minted, posting.lot_moves) == (PENDING, 100, ())
    assert (posting.wait.available_at, posting.held_until) == (NOON + DAY, None)
    # The points expire a month after they become available; their event is dated now.
    assert posting.policy_expires_at == NOON.replace(month=NOON.month + 1) + DAY
    assert posting.details.external_event_date == NOON


def test_points_that_are_available_from_now_on_do_not_wait():
    ledger = session()
    posting = mint(ledger, at=NOON)
    assert (posting.status, posting.wait) == (SETTLED, None)
    assert balance_and_pending(ledger) == (100, 0)


def test_points_whose_wait_ended_before_their_mint_do_not_wait():
    ledger = session()
    details_of_old_event, two_days = details(external_event_date=NOON - 3 * DAY), Availability(after="P2D")
    posting = ledger.mint(POINTS, ANA, Decimal(100), details_of_old_event, availability=two_days)
    assert posting.status == SETTLED
    assert balance_and_pending(ledger) == (100, 0)


def test_the_terms_of_the_mint_replace_those_of_the_account():
    account_with_wait = account(1, default_availability={"availableAfter": "P2D", "availableRounding": "none"})
    assert mint(session(account_with_wait), account_with_wait).wait.available_at == NOON + 2 * DAY
    assert mint(session(account_with_wait), account_with_wait, after="P1D").wait.available_at == NOON + DAY


def test_points_that_would_expire_before_they_are_available_are_refused():
    for expires_at in (NOON + DAY / 2, NOON + DAY):
        with pytest.raises(ExpiresBeforeAvailable):
            mint(session(), expires_at=expires_at, after="P1D")
    posting = mint(session(), expires_at=NOON + 2 * DAY, after="P1D")
    assert (posting.pending_expires_at, posting.policy_expires_at) == (NOON + 2 * DAY, None)


def test_points_that_are_made_available_late_are_dated_at_their_moment():
    ledger = session(at=NOON + 3 * DAY, pending_credit=Decimal(100))
    capture = ledger.make_available(waiting(), POINTS)
    assert balance_and_pending(ledger) == (100, 0)
    assert (capture.available_at, capture.expires_at) == (NOON + DAY, EXPIRY)
    assert capture.lot_moves == (NewLot(ANA, 1, Decimal(100), EXPIRY),)
    # The points were minted when they began to wait.
    assert capture.minted == 0
    assert ledger.status_of(waiting()) == SETTLED
    assert ledger.holding(ANA, 1).last_transaction_date == NOON + DAY
    with pytest.raises(NotPending):
        ledger.make_available(waiting(), POINTS)


def test_points_released_early_expire_a_month_after_their_release():
    ledger = session(at=NOON + timedelta(hours=1), pending_credit=Decimal(100))
    capture = ledger.make_available(waiting(), POINTS, early_at=ledger.at)
    assert (capture.available_at, capture.expires_at) == (ledger.at, ledger.at.replace(month=ledger.at.month + 1))


def test_points_released_early_expire_by_the_tier_that_the_member_had_when_they_were_minted():
    gold = {"loyaltyTierKey": "gold", "months": 2}
    by_tier = account(1, point_tracking_enabled=True, expires_in_months=1, tier_expirations=(gold,))
    ledger = session(by_tier, at=NOON + timedelta(hours=1), pending_credit=Decimal(100))
    ledger.tier_keys_of_mint = lambda *mint: ["gold"] if mint == (ANA, NOON, MINTED) else []
    capture = ledger.make_available(waiting(created_at=MINTED), by_tier, early_at=ledger.at)
    assert capture.expires_at == ledger.at.replace(month=ledger.at.month + 2)


def test_points_with_their_own_expiry_keep_it_when_they_become_available():
    ledger = session(at=NOON + DAY, pending_credit=Decimal(100))
    capture = ledger.make_available(waiting(pending_expires_at=NOON + 9 * DAY, policy_expires_at=None), POINTS)
    assert capture.expires_at == NOON + 9 * DAY


def test_points_that_are_made_available_after_their_expiry_are_burned_at_once_with_the_date_of_the_expiry():
    ledger = session(at=EXPIRY + 8 * DAY, pending_credit=Decimal(100))
    ledger.make_available(waiting(policy_expires_at=EXPIRY), POINTS)
    assert balance_and_pending(ledger) == (0, 0)
    _, expiry = ledger.steps
    assert (expiry.is_expiry, expiry.amount, expiry.details.external_event_date) == (True, 100, EXPIRY)


def test_a_pending_mint_that_does_not_wait_cannot_be_made_available():
    with pytest.raises(NotPending):
        session().make_available(waiting(available_at=None), POINTS)


class TestEvents:
    def confirm(self, ledger, mint=None, wallet=ANA, order=None, event_type=CONFIRMED, at=NOON):
        """Report an event, which may confirm `mint`.

        Returns (when the mint becomes available, when it expires by its account), or None if it is not confirmed.
        """
        if mint is not None:
            ledger.expect_events([mint])
        ledger.confirm(wallet, event_type, order, at)
        return ledger.confirmations.get(STORED_ID)

    def test_the_wait_begins_at_the_event(self):
        ledger = session(at=NOON + DAY, pending_credit=Decimal(100))
        confirmation = self.confirm(ledger, awaiting(after="P14D", created_at=MINTED), at=NOON + DAY)
        available_at = NOON + (1 + 14) * DAY
        a_month_later = available_at.replace(month=NOON.month + 1)
        assert confirmation == (available_at, a_month_later)
        assert balance_and_pending(ledger) == (0, 100)
        assert ledger.steps == []

    def test_without_a_wait_the_points_are_available_at_the_event(self):
        ledger = session(at=NOON + DAY, pending_credit=Decimal(100))
        self.confirm(ledger, awaiting(), at=NOON + DAY)
        [capture] = ledger.steps
        assert isinstance(capture, Capture)
        assert capture.available_at == NOON + DAY
        assert balance_and_pending(ledger) == (100, 0)

    def test_points_are_available_at_once_if_an_event_is_reported_after_the_wait_has_ended(self):
        ledger = session(at=NOON + 9 * DAY, pending_credit=Decimal(100))
        self.confirm(ledger, awaiting(after="P2D"), at=NOON)
        [capture] = ledger.steps
        assert capture.available_at == NOON + 9 * DAY

    @pytest.mark.parametrize(
        ("mint", "event", "is_confirmed"),
        [
            (awaiting(after="P1D"), {}, True),
            (awaiting(after="P1D"), {"order": ORDER}, True),
            (awaiting(after="P1D"), {"wallet": BEN}, False),
            (awaiting(after="P1D"), {"event_type": "member-generic-event"}, False),
            (awaiting(order=ORDER, after="P1D"), {"order": ORDER}, True),
            (awaiting(order=ORDER, after="P1D"), {"order": ORDER, "wallet": BEN}, True),
            (awaiting(order=ORDER, after="P1D"), {"order": "order-2"}, False),
            (awaiting(order=ORDER, after="P1D"), {}, False),
            (awaiting(after="P1D", status=SETTLED), {}, False),
        ],
    )
    def test_an_event_confirms_mints_of_its_order_and_mints_without_an_order_of_its_member(
        self, mint, event, is_confirmed
    ):
        confirmation = self.confirm(session(pending_credit=Decimal(100)), mint, **event)
        assert (confirmation is not None) is is_confirmed

    def test_a_second_event_does_not_change_the_confirmation(self):
        ledger = session(pending_credit=Decimal(100))
        confirmation = self.confirm(ledger, awaiting(after="P14D"))
        ledger.at = NOON + DAY
        assert self.confirm(ledger, at=NOON + DAY) == confirmation

    def test_a_mint_with_its_own_expiry_gets_none_of_the_account_at_its_confirmation(self):
        mint = awaiting(after="P14D", pending_expires_at=NOON + 99 * DAY)
        assert self.confirm(session(pending_credit=Decimal(100)), mint) == (NOON + 14 * DAY, None)

    def test_only_an_event_of_its_order_confirms_a_mint_of_the_same_unit_of_work(self):
        ledger = session()
        mint(ledger, on=AWAITED, order=ORDER)
        assert balance_and_pending(ledger) == (0, 100)
        ledger.confirm(ANA, CONFIRMED, order_external_id="order-2", happened_at=NOON)
        assert balance_and_pending(ledger) == (0, 100)
        ledger.confirm(ANA, CONFIRMED, order_external_id=ORDER, happened_at=NOON)
        assert balance_and_pending(ledger) == (100, 0)

    def test_the_expiry_is_that_of_the_tier_that_the_member_had_when_the_points_were_given(self):
        gold = {"loyaltyTierKey": "gold", "months": 2}
        by_tier = account(1, point_tracking_enabled=True, expires_in_months=1, tier_expirations=(gold,))
        ledger = session(by_tier, at=NOON + DAY, pending_credit=Decimal(100))
        ledger.tier_keys_of_mint = lambda *mint: ["gold"] if mint == (ANA, NOON, MINTED) else []
        available_at = NOON + 15 * DAY
        assert self.confirm(ledger, awaiting(after="P14D", created_at=MINTED), at=NOON + DAY) == (
            available_at,
            available_at.replace(month=available_at.month + 2),
        )

    @pytest.mark.parametrize(
        ("expires_at", "balance", "pending_credit", "step_count"),
        [
            # These points would expire at once: they are confirmed, and the worker settles them.
            (NOON, 0, 100, 1),
            (NOON - DAY, 0, 100, 1),
            # The second step makes these points available.
            (NOON + DAY, 100, 0, 2),
        ],
    )
    def test_new_points_that_expired_while_waiting_are_left_to_the_worker(
        self, expires_at, balance, pending_credit, step_count
    ):
        ledger = session()
        mint(ledger, expires_at=expires_at, on=AWAITED)
        ledger.confirm(ANA, CONFIRMED, order_external_id=None, happened_at=NOON)
        # The mint is not stored yet: the first step of the session has the id -1.
        assert ledger.confirmations[-1] == (NOON, None)
        assert balance_and_pending(ledger) == (balance, pending_credit)
        assert len(ledger.steps) == step_count

    @pytest.mark.parametrize(("expires_at", "balance"), [(NOON, 0), (NOON + DAY, 100)])
    def test_stored_points_are_burned_at_their_confirmation_if_they_expired_while_waiting(self, expires_at, balance):
        ledger = session(pending_credit=Decimal(100))
        self.confirm(ledger, awaiting(pending_expires_at=expires_at))
        assert balance_and_pending(ledger) == (balance, 0)

    def test_a_confirmation_changes_the_stored_mint(self):
        ledger = session(pending_credit=Decimal(100))
        ledger.expect_events([awaiting(after="P14D")])
        assert not ledger.has_changed_transactions
        self.confirm(ledger)
        assert ledger.has_changed_transactions

    def test_a_rollback_undoes_the_confirmation(self):
        ledger = session(pending_credit=Decimal(100))
        ledger.expect_events([awaiting(after="P14D")])
        savepoint = ledger.savepoint()
        assert self.confirm(ledger) is not None
        ledger.rollback_to(savepoint)
        assert ledger.confirmations == {}


class TestConfirmations:
    def test_an_event_that_makes_points_available_is_stored_with_their_expiry(self):
        ledger = session(at=NOON + DAY, pending_credit=Decimal(100))
        ledger.make_available(awaiting(), POINTS)
        assert ledger.confirmations == {STORED_ID: (NOON + DAY, NOON.replace(month=NOON.month + 1) + DAY)}

    def test_a_confirmation_stores_no_expiry_for_a_mint_that_has_its_own(self):
        ledger = session(at=NOON + DAY, pending_credit=Decimal(100))
        capture = ledger.make_available(awaiting(pending_expires_at=NOON + 99 * DAY), POINTS)
        assert ledger.confirmations == {STORED_ID: (NOON + DAY, None)}
        assert capture.expires_at == NOON + 99 * DAY

    def test_a_mint_that_waits_for_a_moment_has_no_confirmation(self):
        ledger = session(at=NOON + DAY, pending_credit=Decimal(100))
        ledger.make_available(waiting(), POINTS)
        assert ledger.confirmations == {}


def test_points_that_expire_on_arrival_are_no_part_of_what_is_left_of_their_mint():
    ledger = session(at=NOON + 2 * DAY, pending_credit=Decimal(100))
    capture = ledger.make_available(waiting(), POINTS)
    assert ledger.unexpired_amount_of(capture) == 100
    ledger.expire_arrived(capture, Decimal(30), ledger.at)
    assert ledger.unexpired_amount_of(capture) == 100 - 30
    assert balance_and_pending(ledger) == (100 - 30, 0)
    [move] = ledger.steps[-1].lot_moves
    assert (move.wallet_id, move.amount, move.first_transaction_id, move.is_expiry) == (ANA, 30, STORED_ID, True)
    # A revert of the mint takes only the other 70.
    settled_mint = waiting(status=SETTLED, amount=Decimal(100))
    assert ledger.revert(settled_mint, POINTS, details("revert")).amount == 70
