"""Balances of wallets, read for any number of wallets at once; locks and rules of accounts."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import product
from threading import Event, Thread

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from persistence import ledger as ledgers
from persistence import ledger_wallets, organizations, posting
from persistence.ledger import ACCOUNTS, LEDGERS
from tests.builders.ledger import START, RawLedger
from tests.builders.statements import count_statements, rows_of_plans


@pytest.fixture
def ledger(db):
    return RawLedger.new(db)


def balances(views):
    """The current balances by wallet id and name of the account."""
    return {
        (view.wallet_id, view.ledger_account_name): view.current_balance for wallet in views.values() for view in wallet
    }


def test_balances_include_active_accounts_and_inactive_accounts_with_a_balance(ledger, db):
    ana, ben = ledger.wallet(), ledger.wallet()
    closed_account = ledger.account(name="closed", active=False)
    ledger.account(name="never used", active=False)
    ledger.account(name="stars")
    ledger.mint(ana, 5)
    ledger.mint(ben, 7, closed_account)
    views = ledger_wallets.find_balances_of_wallets(db, ledger.organization_id, [ana, ben], START, "UTC")
    assert balances(views) == {
        (ana, "Points"): 5,
        (ana, "stars"): 0,
        (ben, "Points"): 0,
        (ben, "closed"): 7,
        (ben, "stars"): 0,
    }
    assert [view.ledger_id for view in views[ana]] == [ledger.organization.ledger_id] * 2
    assert views[ana][0].is_default_account


def test_wallets_of_other_organizations_are_returned_without_balances(ledger, db):
    foreign_wallet = RawLedger.new(db).wallet()
    views = ledger_wallets.find_balances_of_wallets(db, ledger.organization_id, [foreign_wallet], START, "UTC")
    assert views == {foreign_wallet: []}
    assert ledger_wallets.find_balances_of_wallets(db, ledger.organization_id, [], START, "UTC") == {}


def test_balances_exclude_lots_that_have_expired_at_the_requested_moment(ledger, db):
    tracking_account = ledger.account(name="tracked", point_tracking_enabled=True)
    ana, ben = ledger.wallet(), ledger.wallet()
    for wallet, days, amount in ((ana, 1, 5), (ana, 2, 7), (ben, 1, 11), (ben, 3, 13)):
        ledger.lot(
            wallet,
            ledger.mint(wallet, amount, tracking_account),
            amount,
            START + timedelta(days=days),
            tracking_account,
        )
    # Days after the start, and the balances of ana (5 + 7) and ben (11 + 13) then.
    for days, expected_balances in ((0, (12, 24)), (1, (7, 13)), (2, (0, 13)), (3, (0, 0))):
        now = START + timedelta(days=days)
        amounts = balances(ledger_wallets.find_balances_of_wallets(db, ledger.organization_id, [ana, ben], now, "UTC"))
        assert (amounts[ana, "tracked"], amounts[ben, "tracked"]) == expected_balances, days
        just_before = now - timedelta(microseconds=1)
        if days:
            amounts = balances(
                ledger_wallets.find_balances_of_wallets(db, ledger.organization_id, [ana, ben], just_before, "UTC")
            )
            assert (amounts[ana, "tracked"], amounts[ben, "tracked"]) != expected_balances, days


@pytest.mark.parametrize("number", [1, 40])
def test_one_statement_reads_any_number_of_wallets(ledger, db, number):
    wallets = [ledger.wallet() for _ in range(number)]
    with count_statements(db) as statements:
        views = ledger_wallets.find_balances_of_wallets(db, ledger.organization_id, wallets, START, "UTC")
    assert len(views) == number
    assert len(statements) == 1


@pytest.mark.slow
@pytest.mark.undistributed
def test_each_balance_is_looked_up_once_whatever_the_planner_expects(ledger, db):
    wallets, accounts = [ledger.wallet() for _ in range(10)], [ledger.account(name=f"a-{n}") for n in range(10)]
    for wallet, account in product(wallets, accounts):
        ledger.mint(wallet, 1, account)
    for column in ("organization_id", "wallet_id", "ledger_account_id"):
        db.execute(text(f"ALTER TABLE ledger_balances ALTER {column} SET (n_distinct = -1)"))
    db.execute(text("ANALYZE wallets, ledgers, ledger_accounts, ledger_balances"))
    rows = rows_of_plans(
        db, lambda: ledger_wallets.find_balances_of_wallets(db, ledger.organization_id, wallets, START, "UTC")
    )
    # Ten wallets have a default account and ten others. Without lookups, the plan would compare 6060 rows; plans with
    # lookups read 110 to 310, depending on the other rows of the tables.
    assert rows < 606


@pytest.mark.undistributed
def test_expired_lots_are_found_without_reading_the_other_lots(ledger, db):
    tracking_account = ledger.account(name="tracked", point_tracking_enabled=True)
    wallet = ledger.wallet()
    mint = ledger.mint(wallet, 3000, tracking_account)
    db.execute(
        text(
            "INSERT INTO ledger_lots (organization_id, wallet_id, ledger_account_id, ledger_transaction_id, amount,"
            " remaining, expires_at, created_at) SELECT :o, :w, :a, :t, 1, 1, :at + n * interval '1 day', :at"
            " FROM generate_series(1, 3000) n"
        ),
        {"o": ledger.organization_id, "w": wallet, "a": tracking_account, "t": mint, "at": START},
    )
    db.execute(text("ANALYZE ledger_lots"))
    statements = []
    listener = lambda c, cursor, statement, parameters, *rest: statements.append((statement, parameters))  # noqa: E731
    event.listen(db, "before_cursor_execute", listener)
    views = ledger_wallets.find_balances_of_wallets(
        db, ledger.organization_id, [wallet], START + timedelta(days=4), "UTC"
    )
    event.remove(db, "before_cursor_execute", listener)
    # 3000 lots of 1, of which the 4 of the first days have expired.
    assert balances(views)[wallet, "tracked"] == 2996
    plan = "\n".join(row[0] for row in db.exec_driver_sql("EXPLAIN ANALYZE " + statements[0][0], statements[0][1]))
    lines = [line for line in plan.splitlines() if "ix_ledger_lots_spendable" in line]
    assert len(lines) == 1, plan
    assert "rows=4.00" in lines[0] or "rows=4 " in lines[0], plan


@pytest.mark.slow
def test_the_lock_of_an_account_waits_for_open_posts_and_blocks_new_posts(engine):
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        wallet = ledger.wallet()
        default = LEDGERS.find(db, ledger.organization_id, ledger.organization.ledger_id)
        account = ACCOUNTS.find(db, ledger.organization_id, ledger.account_id)
    is_posted, may_commit = Event(), Event()
    movements_seen: list[bool] = []

    def post():
        with engine.begin() as db:
            ledger.db = db
            ledger.mint(wallet, 5)
            is_posted.set()
            may_commit.wait(5)

    def configure():
        with engine.begin() as db:
            locked_account = ledgers.lock_account(db, default, account)
            movements_seen.append(ledgers.has_movements(db, locked_account))

    poster, configurator = Thread(target=post), Thread(target=configure)
    poster.start()
    assert is_posted.wait(5)
    configurator.start()
    configurator.join(0.3)
    assert movements_seen == []
    may_commit.set()
    poster.join()
    configurator.join()
    assert movements_seen == [True]
    with engine.begin() as db, engine.begin() as other:
        ledgers.lock_account(db, default, account)
        # Citus does not pass on the time for locks to the nodes, so the time for the statement ends.
        other.execute(text("SET LOCAL lock_timeout = '100ms'; SET LOCAL statement_timeout = '1s'"))
        ledger.db = other
        with pytest.raises(OperationalError, match=r"lock timeout|statement timeout"):
            ledger.mint(wallet, 5)
        other.rollback()


def test_a_session_uses_the_rules_of_the_account_at_the_moment_of_the_lock(engine):
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        wallet, account_id = ledger.wallet(), ledger.account_id
        before = organizations.find(db, ledger.organization_id)
        account = ACCOUNTS.find(db, ledger.organization_id, account_id)
        default = LEDGERS.find(db, ledger.organization_id, ledger.organization.ledger_id)
    with engine.begin() as db:
        locked_account = ledgers.lock_account(db, default, account)
        ledgers.store_account(db, default, locked_account, {"max_balance": Decimal(10)}, START)

    def open_session(organization, configured):
        """The maximum balance that the session uses, and the number of its statements."""
        with engine.begin() as db, count_statements(db) as statements:
            session = posting.open_session(db, organization, [wallet], [account_id], START, configured)
        return session.accounts[account_id].max_balance, len(statements)

    # The given account is outdated.
    assert open_session(before, {account_id: account}) == (10, 3)
    with engine.begin() as db:
        after = organizations.find(db, ledger.organization_id)
        current_account = ACCOUNTS.find(db, ledger.organization_id, account_id)
    # The given account is current, so that it is not read again.
    assert open_session(after, {account_id: current_account}) == (10, 2)
    assert open_session(after, {}) == (10, 3)
