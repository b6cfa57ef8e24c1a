"""Expired points are burned in batches of a limited number of wallets."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import select

from handlers.services.ledger.expire import expire_next
from handlers.services.verify import verify
from persistence import ledger_wallets, organizations
from persistence.ledger import ACCOUNTS
from persistence.ledger_wallets import WALLETS
from persistence.tables.ledger import ledger_transactions
from tests.builders.ledger import START, RawLedger

NOW = START + timedelta(days=200)


@pytest.fixture
def ledger(db):
    return RawLedger.new(db)


@pytest.fixture
def account(ledger):
    """The id of an account that tracks points."""
    return ledger.account(point_tracking_enabled=True, expires_in_months=12)


def wallet_with_lot(ledger, account, amount, *, expires_at, minted_at=START):
    """The id of a new wallet with one lot."""
    wallet = ledger.wallet()
    mint = ledger.mint(wallet, amount, account_id=account, at=minted_at)
    ledger.lot(wallet, mint, remaining=amount, expires_at=expires_at, account_id=account)
    return wallet


def expire_all(ledger, *, limit):
    """Expire all points that are due at NOW, in batches of at most `limit` wallets.

    Returns the amounts by account id, and the number of batches.
    """
    after, amounts, batches = 0, {}, 0
    organization = organizations.find(ledger.db, ledger.organization_id)
    while (step := expire_next(ledger.db, organization, after, NOW, limit)) is not None:
        assert step.last_wallet_id > after
        after, batches = step.last_wallet_id, batches + 1
        assert all(len(wallets) <= limit for wallets in step.wallets.values())
        for account_id, amount in step.amounts.items():
            amounts[account_id] = amounts.get(account_id, Decimal(0)) + amount
    return amounts, batches


def balance(ledger, wallet, account):
    """The balance of a wallet in an account at NOW."""
    wallet_record = WALLETS.find(ledger.db, ledger.organization_id, wallet)
    account_record = ACCOUNTS.find(ledger.db, ledger.organization_id, account)
    return ledger_wallets.find_wallet_view(ledger.db, wallet_record, account_record, NOW, "UTC").current_balance


def test_only_points_that_are_due_expire(ledger, account):
    due_wallet = wallet_with_lot(ledger, account, 5, expires_at=NOW)
    later_wallet = wallet_with_lot(ledger, account, 7, expires_at=NOW + timedelta(microseconds=1))
    lasting_wallet = wallet_with_lot(ledger, account, 11, expires_at=None)
    assert expire_all(ledger, limit=10) == ({account: 5}, 1)
    assert balance(ledger, due_wallet, account) == 0
    assert balance(ledger, later_wallet, account) == 7
    assert balance(ledger, lasting_wallet, account) == 11
    expiries = ledger.db.execute(
        select(ledger_transactions.c.external_event_date, ledger_transactions.c.from_wallet_id).where(
            ledger_transactions.c.organization_id == ledger.organization_id, ledger_transactions.c.is_expiry
        )
    ).all()
    assert expiries == [(NOW, due_wallet)]
    assert verify(ledger.db, ledger.organization_id) == []
    # Nothing is due any more.
    assert expire_all(ledger, limit=10) == ({}, 0)


def test_points_of_any_number_of_wallets_expire_in_batches(ledger, account):
    moons = ledger.account(name="Moons", point_tracking_enabled=True)
    for number in range(7):
        wallet_with_lot(ledger, account, 1 + number, expires_at=START + timedelta(days=number))
    wallet_with_lot(ledger, moons, 100, expires_at=START)
    # Eight wallets in batches of at most three.
    assert expire_all(ledger, limit=3) == ({account: 1 + 2 + 3 + 4 + 5 + 6 + 7, moons: 100}, 3)
    assert verify(ledger.db, ledger.organization_id) == []


def test_idle_balances_expire_as_a_whole(ledger):
    # Balances without a transaction for 3 months expire.
    policy = [{"expirationType": "lastTransaction", "period": 3}]
    account = ledger.account(name="idle", point_tracking_enabled=True, expiration_policies=policy)
    idle_wallet = wallet_with_lot(ledger, account, 5, expires_at=None, minted_at=NOW - timedelta(days=200))
    active_wallet = wallet_with_lot(ledger, account, 7, expires_at=None, minted_at=NOW - timedelta(days=80))
    assert expire_all(ledger, limit=10) == ({account: 5}, 1)
    assert balance(ledger, idle_wallet, account) == 0
    assert balance(ledger, active_wallet, account) == 7
    assert verify(ledger.db, ledger.organization_id) == []
    # Nothing is due any more; the wallet with recent points is skipped.
    assert expire_all(ledger, limit=10) == ({}, 0)


def test_points_of_other_organizations_are_not_expired(ledger, db):
    other_ledger = RawLedger.new(db)
    other_account = other_ledger.account(point_tracking_enabled=True)
    wallet_with_lot(other_ledger, other_account, 5, expires_at=START)
    assert expire_all(ledger, limit=10) == ({}, 0)
    assert expire_all(other_ledger, limit=10) == ({other_account: 5}, 1)
