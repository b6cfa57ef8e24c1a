"""Verifying reports every kind of error in the records of a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import insert, text

from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, TRANSFER
from handlers.services.verify import verify
from persistence.tables.ledger import ledger_lot_uses
from tests.builders import verification
from tests.builders.ledger import START, RawLedger

pytestmark = pytest.mark.undistributed


@dataclass
class LedgerSession:
    """A correct ledger with some records of each kind, and the ids of the records that tests change."""

    ledger: RawLedger
    ana: int
    ben: int
    stars: int
    mint: int
    burn: int
    revert: int
    pending: int
    lot: int

    def execute(self, statement, **values):
        """Run SQL without constraints; its parameters are the given values and the ids of the session."""
        values = {"org": self.ledger.organization_id, **vars(self), **values}
        values = {name: value for name, value in values.items() if f":{name}" in statement}
        self.ledger.db.execute(text(statement), values)

    def verify(self):
        faults = verify(self.ledger.db, self.ledger.organization_id)
        # What other tests use finds the same.
        assert verification.is_broken(self.ledger.db, self.ledger.organization_id) is bool(faults)
        return faults


@pytest.fixture
def session(db):
    """The ledger of these tests.

    In the default account, `mint` gave ana 100 points; she transferred 30 to ben, who burned 5, so that ana has 70 and
    ben has 25. A burn of 20 by ana was reverted, and a transfer of 7 from ana to ben is pending. In the account
    `stars`, ana has 2.25 of a `lot` of 12.5, and ben has a debt of 4.
    """
    ledger = RawLedger.new(db)
    ana, ben = ledger.wallet(), ledger.wallet()
    mint = ledger.mint(ana, 100)
    ledger.transfer(ana, ben, 30)
    ledger.burn(ben, 5)
    burn = ledger.burn(ana, 20, status=REVERTED)
    revert = ledger.post(REVERT, target=ana, amount=20, reverted_ledger_transaction_id=burn)
    db.execute(
        text("UPDATE ledger_transactions SET reversal_ledger_transaction_id = :r WHERE ledger_transaction_id = :b"),
        {"r": revert, "b": burn},
    )
    # RawLedger counts the revert as a mint, but the revert of a burn only lowers the burned points.
    ledger.supply(ledger.account_id, minted=-20, burned=-20)
    pending = ledger.transaction(TRANSFER, source=ana, target=ben, amount=7, status=PENDING, reserved_amount=7)
    for wallet, debit, credit in ((ana, 7, 0), (ben, 0, 7)):
        db.execute(
            text(
                "UPDATE ledger_balances SET pending_debit_balance = :debit, pending_credit_balance = :credit"
                " WHERE wallet_id = :wallet"
            ),
            {"debit": debit, "credit": credit, "wallet": wallet},
        )
    stars = ledger.account(point_tracking_enabled=True, decimals=2, max_supply=1000, overdraft_limit=50)
    stars_mint = ledger.mint(ana, "12.5", account_id=stars)
    expires_at = START + timedelta(days=90)
    lot = ledger.lot(ana, stars_mint, remaining="2.25", expires_at=expires_at, account_id=stars, amount="12.5")
    stars_burn = ledger.burn(ana, "10.25", account_id=stars)
    db.execute(
        insert(ledger_lot_uses).values(
            organization_id=ledger.organization_id,
            ledger_transaction_id=stars_burn,
            ledger_lot_id=lot,
            amount=Decimal("10.25"),
        )
    )
    owe_four(ledger, ben, stars)
    db.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    db.execute(text("SET LOCAL session_replication_role = replica"))
    for table, constraint in (
        ("ledger_balances", "current_balance"),
        ("ledger_balances", "pending_debit_balance"),
        ("ledger_balances", "pending_credit_balance"),
        ("ledger_balances", "current_overdraft_balance"),
        ("ledger_lots", "remaining"),
        ("ledger_transactions", "amount"),
    ):
        db.execute(text(f"ALTER TABLE {table} DROP CONSTRAINT ck_{table}_{constraint}"))
    return LedgerSession(ledger, ana, ben, stars, mint, burn, revert, pending, lot)


def owe_four(ledger, wallet, account):
    """Let the wallet have a debt of 4: a burn of 15 when its balance is 6, and then a mint of 5 that repays a part."""
    mint = ledger.mint(wallet, 6, account_id=account)
    ledger.lot(wallet, mint, remaining=0, expires_at=None, account_id=account, amount=6)
    burn = ledger.transaction(BURN, source=wallet, amount=15, account_id=account)
    ledger.db.execute(
        insert(ledger_lot_uses).values(
            organization_id=ledger.organization_id,
            ledger_transaction_id=burn,
            ledger_lot_id=text("(SELECT max(ledger_lot_id) FROM ledger_lots)"),
            amount=6,
        )
    )
    parts = [
        {"wallet_id": wallet, "amount": -6, "updated_balance": 0},
        {"wallet_id": wallet, "amount": -9, "updated_balance": 0, "is_overdraft": True},
        {"wallet_id": None, "amount": 15},
    ]
    ledger.entries(burn, parts, account_id=account)
    repaying_mint = ledger.transaction(MINT, target=wallet, amount=5, account_id=account)
    parts = [{"wallet_id": wallet, "amount": 5, "updated_balance": 0}, {"wallet_id": None, "amount": -5}]
    ledger.entries(repaying_mint, parts, account_id=account)
    ledger.supply(account, minted=5, burned=15)
    ledger.earn(wallet, 5, account_id=account)
    ledger.db.execute(
        text(
            "UPDATE ledger_balances SET current_balance = 0, current_overdraft_balance = 4,"
            " total_overdraft_credit_balance = 5 WHERE wallet_id = :wallet AND ledger_account_id = :account"
        ),
        {"wallet": wallet, "account": account},
    )


def test_a_correct_ledger_has_no_violations(session):
    assert session.verify() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "UPDATE ledger_entries SET amount = amount + 1 WHERE ledger_transaction_id = :mint AND wallet_id IS NULL",
            "transaction {mint}: its entries sum to 1, not to zero",
        ),
        (
            "DELETE FROM ledger_entries WHERE ledger_transaction_id = :mint",
            "transaction {mint}: is settled at 100, its entries move 0",
        ),
        (
            "UPDATE ledger_transactions SET amount = 101 WHERE ledger_transaction_id = :mint",
            "transaction {mint}: is settled at 101, its entries move 100",
        ),
        (
            "UPDATE ledger_entries SET ledger_account_id = :stars WHERE ledger_transaction_id = :mint"
            " AND entry_index = 0",
            "transaction {mint}: entry 0 is of account {stars} and wallet {ana}, the transaction of {points}",
        ),
        (
            "UPDATE wallets SET ledger_id = ledger_id + 1000000 WHERE wallet_id = :ana",
            "transaction {mint}: entry 0 is of account {points} and wallet {ana}, the transaction of {points}",
        ),
        (
            "UPDATE ledger_balances SET current_balance = 71 WHERE wallet_id = :ana AND ledger_account_id = :points",
            "wallet {ana}, account {points}: holds 71 less a debt of 0, its entries sum to 70",
        ),
        (
            "DELETE FROM ledger_balances WHERE wallet_id = :ben AND ledger_account_id = :points",
            "wallet {ben}, account {points}: holds 0 less a debt of 0, its entries sum to 25",
        ),
        (
            "UPDATE ledger_balances SET current_overdraft_balance = 5 WHERE wallet_id = :ben"
            " AND ledger_account_id = :stars",
            "wallet {ben}, account {stars}: holds 0 less a debt of 5, its entries sum to -4",
        ),
        (
            "UPDATE ledger_entries SET updated_balance = 99 WHERE ledger_transaction_id = :mint AND entry_index = 0",
            "wallet {ana}, account {points}: the updated balances form no chain to its balance, see 99",
        ),
        (
            "UPDATE ledger_entries SET updated_balance = NULL WHERE ledger_transaction_id = :mint AND entry_index = 0",
            "wallet {ana}, account {points}: the updated balances form no chain to its balance, see 0",
        ),
        (
            "UPDATE ledger_account_supplies SET minted = minted + 1, burned = burned + 1"
            " WHERE organization_id = :org AND ledger_account_id = :points AND shard ="
            " (SELECT min(shard) FROM ledger_account_supplies WHERE ledger_account_id = :points)",
            "account {points}: counts 101 minted and 6 burned, its transactions minted 100 and burned 5",
        ),
        (
            "UPDATE ledger_account_supplies SET minted = minted + 1 WHERE ledger_account_id = :points AND shard ="
            " (SELECT min(shard) FROM ledger_account_supplies WHERE ledger_account_id = :points)",
            "account {points}: minted less burned is 96, balances less debts are 95",
        ),
        (
            "UPDATE ledger_accounts SET max_supply = 23, is_revolving = false WHERE ledger_account_id = :stars",
            "account {stars}: has issued 23.5 of at most 23",
        ),
        (
            "UPDATE ledger_lots SET amount = 13, remaining = 2.75 WHERE ledger_lot_id = :lot",
            "wallet {ana}, account {stars}: can spend 2.25, its lots hold 2.75",
        ),
        (
            "UPDATE ledger_lots SET ledger_account_id = :points WHERE ledger_lot_id = :lot",
            "wallet {ana}, account {points}: can spend 0, its lots hold 2.25",
        ),
        (
            "DELETE FROM ledger_lot_uses WHERE ledger_lot_id = :lot",
            "lot {lot} of wallet {ana}, account {stars}: has 2.25 left of 12.5, of which 0 were used",
        ),
        (
            "UPDATE ledger_balances SET pending_debit_balance = 8 WHERE wallet_id = :ana"
            " AND ledger_account_id = :points",
            "wallet {ana}, account {points}: counts 8 out and 0 in as pending, its transactions 7 and 0",
        ),
        (
            "UPDATE ledger_transactions SET status = 2 WHERE ledger_transaction_id = :pending",
            "wallet {ben}, account {points}: counts 0 out and 7 in as pending, its transactions 0 and 0",
        ),
        (
            "UPDATE ledger_transactions SET reversal_ledger_transaction_id = NULL WHERE ledger_transaction_id = :burn",
            "transaction {revert}: reverts {burn}, which has no link to it",
        ),
        (
            "UPDATE ledger_transactions SET status = 1 WHERE ledger_transaction_id = :burn",
            "transaction {revert}: reverts {burn}, which has no link to it",
        ),
        (
            "UPDATE ledger_transactions SET reverted_ledger_transaction_id = NULL"
            " WHERE ledger_transaction_id = :revert",
            "transaction {burn}: is reverted by {revert}, which has no link to it",
        ),
        (
            "UPDATE ledger_transactions SET transaction_type = 1 WHERE ledger_transaction_id = :revert",
            "transaction {revert}: is of type 1 and reverts {burn}",
        ),
        (
            "UPDATE ledger_balances SET total_overdraft_credit_balance = -1 WHERE wallet_id = :ana"
            " AND ledger_account_id = :points",
            "wallet {ana}, account {points}: a balance is below zero",
        ),
        (
            "UPDATE ledger_balances SET pending_debit_balance = 71 WHERE wallet_id = :ana"
            " AND ledger_account_id = :points",
            "wallet {ana}, account {points}: a balance is below zero",
        ),
        (
            "UPDATE ledger_account_supplies SET burned = -1000 WHERE ledger_account_id = :points",
            "account {points}: a supply is below zero",
        ),
        (
            "UPDATE ledger_lots SET remaining = -1 WHERE ledger_lot_id = :lot",
            "lot {lot} of wallet {ana}, account {stars}: is below zero",
        ),
        (
            "UPDATE ledger_transactions SET amount = -7 WHERE ledger_transaction_id = :pending",
            "transaction {pending}: its amount is below zero",
        ),
        (
            "UPDATE ledger_transactions SET amount = 7.5 WHERE ledger_transaction_id = :pending",
            "transaction {pending}: 7.5 has more than the 0 fraction digits of account {points}",
        ),
        (
            "UPDATE ledger_entries SET amount = sign(amount) * 99.5 WHERE ledger_transaction_id = :mint",
            "transaction {mint}: 99.5 has more than the 0 fraction digits of account {points}",
        ),
    ],
)
def test_each_violation_is_reported(session, change, words):
    # The fixture `session` explains the amounts. Statuses are 0 (pending), 1 (settled) and 2 (reverted). Type 1 is a
    # mint, and `:points` is the default account.
    points = session.ledger.account_id
    session.execute(change, points=points)
    message = words.format(org=session.ledger.organization_id, points=points, **vars(session))
    assert f"organization {session.ledger.organization_id}, {message}" in session.verify()


def test_verifying_an_organization_ignores_violations_of_others(session, db):
    session.execute("DELETE FROM ledger_entries WHERE ledger_transaction_id = :mint")
    other = RawLedger.new(db)
    assert verify(db, other.organization_id) == []


def test_the_first_50_violations_of_a_kind_are_reported(session):
    for _ in range(60):
        # A transaction without its entries.
        session.ledger.transaction(MINT, target=session.ana, amount=1)
    findings = session.verify()
    assert len([finding for finding in findings if "its entries move 0" in finding]) == 50
    assert "there are more faults of the last kind; only the first 50 are listed" in findings
