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


def find_balances(ledger, wallet_ids, at=START):
    """The views of the wallets' balances at a moment, as a list for each wallet id; one view for each account."""
    return ledger_wallets.find_balances_of_wallets(ledger.db, ledger.organization_id, wallet_ids, at, "UTC")


def amounts_of(views):
    """The current balances by wallet id and name of the account."""
    return {
        (view.wallet_id, view.ledger_account_name): view.current_balance for wallet in views.values() for view in wallet
    }


def test_balances_include_active_accounts_and_inactive_accounts_with_a_balance(ledger):
    ana, ben = ledger.wallet(), ledger.wallet()
    closed_account = ledger.account(name="closed", active=False)
    ledger.account(name="never used", active=False)
    ledger.account(name="stars")
    ledger.mint(ana, 5)
    ledger.mint(ben, 7, account_id=closed_account)
    views = find_balances(ledger, [ana, ben])
    # "Points" is the default account, which every ledger has.
    assert amounts_of(views) == {
        (ana, "Points"): 5,
        (ana, "stars"): 0,
        (ben, "Points"): 0,
        (ben, "closed"): 7,
        (ben, "stars"): 0,
    }
    points_view, stars_view = views[ana]
    assert points_view.ledger_id == stars_view.ledger_id == ledger.organization.ledger_id
    assert points_view.is_default_account


def test_wallets_of_other_organizations_are_returned_without_balances(ledger, db):
    foreign_wallet = RawLedger.new(db).wallet()
    assert find_balances(ledger, [foreign_wallet]) == {foreign_wallet: []}
    assert find_balances(ledger, []) == {}


def test_balances_exclude_lots_that_have_expired_at_the_requested_moment(ledger):
    tracking_account = ledger.account(name="tracked", point_tracking_enabled=True)
    ana, ben = ledger.wallet(), ledger.wallet()
    for wallet, days, amount in ((ana, 1, 5), (ana, 2, 7), (ben, 1, 11), (ben, 3, 13)):
        mint = ledger.mint(wallet, amount, account_id=tracking_account)
        expires_at = START + timedelta(days=days)
        ledger.lot(wallet, mint, remaining=amount, expires_at=expires_at, account_id=tracking_account)

    def balances_at(moment):
        """The balances of ana and ben."""
        amounts = amounts_of(find_balances(ledger, [ana, ben], at=moment))
        return amounts[ana, "tracked"], amounts[ben, "tracked"]

    # The first lots of both expire after a day, the lot of 7 after two days, and the lot of 13 after three days.
    balances_by_day = [(5 + 7, 11 + 13), (7, 13), (0, 13), (0, 0)]
    for days, expected_balances in enumerate(balances_by_day):
        moment = START + timedelta(days=days)
        assert balances_at(moment) == expected_balances, days
        if days:
            just_before = moment - timedelta(microseconds=1)
            assert balances_at(just_before) == balances_by_day[days - 1], days


@pytest.mark.parametrize("wallet_count", [1, 40])
def test_one_statement_reads_any_number_of_wallets(ledger, db, wallet_count):
    wallets = [ledger.wallet() for _ in range(wallet_count)]
    with count_statements(db) as statements:
        views = find_balances(ledger, wallets)
    assert len(views) == wallet_count
    assert len(statements) == 1


@pytest.mark.slow
@pytest.mark.undistributed
def test_each_balance_is_looked_up_once_whatever_the_planner_expects(ledger, db):
    wallets, accounts = [ledger.wallet() for _ in range(10)], [ledger.account(name=f"a-{n}") for n in range(10)]
    for wallet, account in product(wallets, accounts):
        ledger.mint(wallet, 1, account_id=account)
    for column in ("organization_id", "wallet_id", "ledger_account_id"):
        db.execute(text(f"ALTER TABLE ledger_balances ALTER {column} SET (n_distinct = -1)"))
    db.execute(text("ANALYZE wallets, ledgers, ledger_accounts, ledger_balances"))
    rows = rows_of_plans(db, lambda: find_balances(ledger, wallets))
    # Ten wallets have a default account and ten others. Without lookups, the plan would compare 6060 rows; plans with
    # lookups read 110 to 310, depending on the other rows of the tables.
    assert rows < 606


@pytest.mark.undistributed
def test_expired_lots_are_found_without_reading_the_other_lots(ledger, db):
    tracking_account = ledger.account(name="tracked", point_tracking_enabled=True)
    wallet = ledger.wallet()
    mint = ledger.mint(wallet, 3000, account_id=tracking_account)
    # 3000 lots of 1, one of which expires each day.
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

    def record(connection, cursor, statement, parameters, context, many):
        statements.append((statement, parameters))

    event.listen(db, "before_cursor_execute", record)
    views = find_balances(ledger, [wallet], at=START + timedelta(days=4))
    event.remove(db, "before_cursor_execute", record)
    assert amounts_of(views)[wallet, "tracked"] == 3000 - 4
    query, parameters = statements[0]
    plan = "\n".join(db.exec_driver_sql(f"EXPLAIN ANALYZE {query}", parameters).scalars())
    index_scans = [line for line in plan.splitlines() if "ix_ledger_lots_spendable" in line]
    assert len(index_scans) == 1, plan
    # The plan reads only the 4 expired lots; their number is written as 4.00 since PostgreSQL 18.
    assert "rows=4.00" in index_scans[0] or "rows=4 " in index_scans[0], plan


@pytest.mark.slow
def test_the_lock_of_an_account_waits_for_open_posts_and_blocks_new_posts(engine):
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        wallet = ledger.wallet()
        ledger_record = LEDGERS.find(db, ledger.organization_id, ledger.organization.ledger_id)
        account = ACCOUNTS.find(db, ledger.organization_id, ledger.account_id)
    is_posted, may_commit = Event(), Event()
    # What the configurator sees under its lock: whether the account has movements.
    movements_seen: list[bool] = []

    def post():
        with engine.begin() as db:
            ledger.db = db
            ledger.mint(wallet, 5)
            is_posted.set()
            assert may_commit.wait(60)

    def configure():
        with engine.begin() as db:
            locked_account = ledgers.lock_account(db, ledger_record, account)
            movements_seen.append(ledgers.has_movements(db, locked_account))

    poster, configurator = Thread(target=post), Thread(target=configure)
    poster.start()
    assert is_posted.wait(60)
    configurator.start()
    configurator.join(0.3)
    # The lock still waits, because the post is not committed.
    assert movements_seen == []
    may_commit.set()
    poster.join()
    configurator.join()
    assert movements_seen == [True]
    # Now the account is locked first, and a post waits for it.
    with engine.begin() as db, engine.begin() as posting_db:
        ledgers.lock_account(db, ledger_record, account)
        # Citus does not pass on the time for locks to the nodes, so the time for the statement ends.
        posting_db.execute(text("SET LOCAL lock_timeout = '100ms'; SET LOCAL statement_timeout = '1s'"))
        ledger.db = posting_db
        with pytest.raises(OperationalError, match=r"lock timeout|statement timeout"):
            ledger.mint(wallet, 5)
        posting_db.rollback()


def test_a_session_uses_the_rules_of_the_account_at_the_moment_of_the_lock(engine):
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        wallet, account_id = ledger.wallet(), ledger.account_id
        outdated_organization = organizations.find(db, ledger.organization_id)
        outdated_account = ACCOUNTS.find(db, ledger.organization_id, account_id)
        ledger_record = LEDGERS.find(db, ledger.organization_id, ledger.organization.ledger_id)
    with engine.begin() as db:
        locked_account = ledgers.lock_account(db, ledger_record, outdated_account)
        ledgers.store_account(db, ledger_record, locked_account, {"max_balance": Decimal(10)}, START)

    def open_session(organization, configured):
        """The maximum balance that the session uses, and the number of its statements.

        `configured` are the accounts by id as the caller knows them.
        """
        with engine.begin() as db, count_statements(db) as statements:
            session = posting.open_session(db, organization, [wallet], [account_id], START, configured)
        return session.accounts[account_id].max_balance, len(statements)

    # The caller's account is outdated, so that one of the three statements reads it again.
    assert open_session(outdated_organization, {account_id: outdated_account}) == (10, 3)
    with engine.begin() as db:
        organization = organizations.find(db, ledger.organization_id)
        current_account = ACCOUNTS.find(db, ledger.organization_id, account_id)
    # The caller's account is current, so that it is not read again.
    assert open_session(organization, {account_id: current_account}) == (10, 2)
    # The caller knows no account.
    assert open_session(organization, {}) == (10, 3)
