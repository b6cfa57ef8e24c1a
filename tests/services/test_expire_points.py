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
def raw(db):
    return RawLedger.new(db)


@pytest.fixture
def account(raw):
    return raw.account(point_tracking_enabled=True, expires_in_months=12)


def wallet_with_lot(raw, account, amount, expires_at, **more):
    """The id of a new wallet with one lot, which is minted with the fields of `more`."""
    wallet = raw.wallet()
    raw.lot(
        wallet,
        raw.mint(wallet, amount, account_id=account, **more),
        remaining=amount,
        expires_at=expires_at,
        account_id=account,
    )
    return wallet


def expire_all(raw, limit, now=NOW):
    """Expire all due points; returns the amounts by account id and the number of batches."""
    after, amounts, batches = 0, {}, 0
    while (step := expire_next(raw.db, organizations.find(raw.db, raw.organization_id), after, now, limit)) is not None:
        assert step.last_wallet_id > after
        after, batches = step.last_wallet_id, batches + 1
        assert all(len(wallets) <= limit for wallets in step.wallets.values())
        for account_id, amount in step.amounts.items():
            amounts[account_id] = amounts.get(account_id, Decimal(0)) + amount
    return amounts, batches


def balance(raw, wallet, account):
    wallet_record = WALLETS.find(raw.db, raw.organization_id, wallet)
    return ledger_wallets.find_wallet_view(
        raw.db, wallet_record, ACCOUNTS.find(raw.db, raw.organization_id, account), NOW, "UTC"
    )


def test_only_points_that_are_due_expire(raw, account):
    due_wallet = wallet_with_lot(raw, account, 5, NOW)
    later_wallet = wallet_with_lot(raw, account, 7, NOW + timedelta(microseconds=1))
    lasting_wallet = wallet_with_lot(raw, account, 11, None)
    assert expire_all(raw, 10) == ({account: 5}, 1)
    assert [balance(raw, w, account).current_balance for w in (due_wallet, later_wallet, lasting_wallet)] == [0, 7, 11]
    expiries = raw.db.execute(
        select(ledger_transactions.c.external_event_date, ledger_transactions.c.from_wallet_id).where(
            ledger_transactions.c.organization_id == raw.organization_id, ledger_transactions.c.is_expiry
        )
    ).all()
    assert expiries == [(NOW, due_wallet)]
    assert verify(raw.db, raw.organization_id) == []
    assert expire_all(raw, 10) == ({}, 0)


def test_points_of_any_number_of_wallets_expire_in_batches(raw, account):
    other = raw.account(name="Moons", point_tracking_enabled=True)
    for number in range(7):
        wallet_with_lot(raw, account, 1 + number, START + timedelta(days=number))
    wallet_with_lot(raw, other, 100, START)
    # 1 + 2 + ... + 7 points; 7 wallets in batches of at most 3, and the other account in the last one.
    assert expire_all(raw, 3) == ({account: 28, other: 100}, 3)
    assert verify(raw.db, raw.organization_id) == []


def test_idle_balances_expire_as_a_whole(raw):
    policy = [{"expirationType": "lastTransaction", "period": 3}]
    account = raw.account(name="idle", point_tracking_enabled=True, expiration_policies=policy)
    idle_wallet = wallet_with_lot(raw, account, 5, None)
    active_wallet = wallet_with_lot(raw, account, 7, None, at=NOW - timedelta(days=80))
    assert expire_all(raw, 10) == ({account: 5}, 1)
    assert [balance(raw, w, account).current_balance for w in (idle_wallet, active_wallet)] == [0, 7]
    assert verify(raw.db, raw.organization_id) == []
    # Nothing is due any more; the wallet with recent points is skipped.
    assert expire_all(raw, 10) == ({}, 0)


def test_points_of_other_organizations_are_not_expired(raw, account, db):
    other = RawLedger.new(db)
    other_account = other.account(point_tracking_enabled=True)
    wallet_with_lot(other, other_account, 5, START)
    assert expire_all(raw, 10) == ({}, 0)
    assert expire_all(other, 10) == ({other_account: 5}, 1)
