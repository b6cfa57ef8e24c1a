"""Calls at the same time that change the same balance, hold, limit or account act like calls one after the other."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from threading import Barrier

import pytest
from sqlalchemy import Connection

from domain.ledger.records import LedgerAccount
from domain.problems import Refusal
from persistence import ledger
from persistence.engine import create_engine
from persistence.ledger import ACCOUNTS, LEDGERS
from tests.builders.ledger_client import WHOLE, LedgerClient, Movement

CONNECTIONS = 24


@pytest.fixture(scope="module")
def crowd(settings):
    """An engine for many threads; its timeout lasts for a thread that waits for the locks of all others."""
    engine = create_engine(
        settings.database_url, threads=CONNECTIONS, lock_timeout_ms=60_000, application_name="loyalty-tests-crowd"
    )
    yield engine
    engine.dispose()


@pytest.fixture
def client(crowd):
    client = LedgerClient.new(crowd)
    yield client
    assert client.verify() == []


def at_once(calls, threads=20):
    """Call all functions in threads that start at the same time; return the outcome of each, in order.

    An outcome is the result of a function, or the slug of its refusal; any other exception is raised.
    """
    start = Barrier(min(threads, len(calls)))
    first_indexes = set(range(start.parties))

    def run_one(index):
        if index in first_indexes:
            start.wait(60)
        try:
            return calls[index]()
        except Refusal as refusal:
            return refusal.slug

    with ThreadPoolExecutor(start.parties) as pool:
        return list(pool.map(run_one, range(len(calls))))


def count_outcomes(outcomes):
    """Count the outcomes of `at_once`: "done" for each transaction, and the slugs of the refusals."""
    return Counter("done" if isinstance(outcome, int) else outcome for outcome in outcomes)


def test_one_of_two_reverts_of_a_transaction_succeeds(client):
    points = client.account(point_tracking_enabled=True, expires_in_months=12)
    wallets = client.wallets(5)
    client.post_batch([Movement(points, Decimal(1_000_000), to_wallet_id=wallet) for wallet in wallets])
    pick = random.Random(1)
    movements = []
    for n in range(200):
        source, target = pick.sample(wallets, 2)
        # Mints, burns and transfers in turn.
        from_wallet_id, to_wallet_id = [(None, target), (source, None), (source, target)][n % 3]
        amount = Decimal(pick.randint(1, 9))
        movements.append(Movement(points, amount, from_wallet_id=from_wallet_id, to_wallet_id=to_wallet_id))
    ids = client.post_batch(movements)
    balances_before = {pair: view.current_balance for pair, view in client.balances(wallets).items()}

    targets = [transaction_id for transaction_id in ids for _ in range(2)]
    pick.shuffle(targets)
    outcomes = at_once([lambda target=target: client.revert(target) for target in targets])

    refusals = [target for target, outcome in zip(targets, outcomes, strict=True) if outcome == "already-reverted"]
    reversals = {
        target: outcome for target, outcome in zip(targets, outcomes, strict=True) if outcome != "already-reverted"
    }
    # Of the two reverts of each transaction, one is refused and one succeeds.
    assert sorted(refusals) == sorted(ids) == sorted(reversals)
    reversal_ids = client.ask(
        "SELECT ledger_transaction_id, reversal_ledger_transaction_id FROM ledger_transactions"
        " WHERE organization_id = :org AND reversal_ledger_transaction_id IS NOT NULL"
    )
    assert dict(reversal_ids) == reversals
    assert balances_before != {pair: Decimal(1_000_000) for pair in balances_before}
    balances_after = {pair: view.current_balance for pair, view in client.balances(wallets).items()}
    assert balances_after == {pair: Decimal(1_000_000) for pair in balances_before}


@pytest.mark.parametrize("kind", ["burn", "transfer"])
def test_one_of_100_captures_of_a_hold_succeeds(client, kind):
    points = client.account(point_tracking_enabled=True)
    ana, ben = client.wallets(2)
    client.mint(points, ana, 150)
    target = ben if kind == "transfer" else None
    hold = client.post(Movement(points, Decimal(100), from_wallet_id=ana, to_wallet_id=target, manual=True))
    amounts = [Decimal(number) for number in range(1, 101)]
    random.Random(2).shuffle(amounts)
    calls = [lambda amount=amount: client.capture(points, [(hold, amount)]) for amount in amounts]
    outcomes = at_once(calls, threads=CONNECTIONS)
    assert Counter(outcomes) == {None: 1, "not-pending": 99}
    captured_amount = amounts[outcomes.index(None)]
    assert captured_amount <= 100
    assert client.balance(points, ana).current_balance == 150 - captured_amount
    assert client.balance(points, ana).pending_debit_balance == 0
    assert client.balance(points, ben).current_balance == (captured_amount if kind == "transfer" else 0)


def test_a_capture_and_a_release_of_one_hold_restore_the_balance(client):
    points = client.account()
    (ana,) = client.wallets(1)
    for _ in range(25):
        client.mint(points, ana, 10)
        balance_before = client.balance(points, ana).current_balance
        hold = client.burn(points, ana, 10, manual=True)
        capture, release = at_once([lambda: client.capture(points, [(hold, WHOLE)]), lambda: client.revert(hold)])  # noqa: B023
        # A release after the capture reverts the captured burn: the balance is the same in either order.
        assert isinstance(release, int)
        assert capture in (None, "not-pending")
        balance_after = client.balance(points, ana)
        assert (balance_after.current_balance, balance_after.pending_debit_balance) == (balance_before, 0)


@pytest.mark.parametrize("is_tracked", [False, True])
def test_either_a_burn_or_the_revert_of_its_mint_succeeds_and_leaves_0(client, is_tracked):
    points = client.account(point_tracking_enabled=is_tracked)
    (ana,) = client.wallets(1)
    for _ in range(40):
        mint = client.mint(points, ana, 10)
        burn, revert = at_once([lambda: client.burn(points, ana, 10), lambda: client.revert(mint)])  # noqa: B023
        assert [burn, revert].count("insufficient-balance") == 1
        assert client.balance(points, ana).current_balance == 0


def test_burns_at_the_same_time_stop_exactly_at_the_limit_of_debt(client):
    points = client.account(overdraft_limit=50, point_tracking_enabled=True)
    (ana,) = client.wallets(1)
    client.mint(points, ana, 20)
    outcomes = at_once([lambda: client.burn(points, ana, 1, allow_overdraft=True)] * 100, threads=CONNECTIONS)
    # 20 points and a debt of 50 are enough for 70 of the 100 burns.
    assert count_outcomes(outcomes) == {"done": 20 + 50, "overdraft-limit": 30}
    assert client.balance(points, ana).current_balance == 0
    assert client.balance(points, ana).current_overdraft_balance == 50


def test_mints_and_transfers_at_the_same_time_stop_exactly_at_the_maximum_balance(client):
    points = client.account(max_balance=50)
    ana, ben = client.wallets(2)
    client.mint(points, ben, 50)
    calls = [lambda: client.mint(points, ana, 3), lambda: client.transfer(points, ben, ana, 1)] * 30
    outcomes = at_once(calls, threads=CONNECTIONS)
    mint_counts, transfer_counts = count_outcomes(outcomes[::2]), count_outcomes(outcomes[1::2])
    assert set(mint_counts | transfer_counts) == {"done", "balance-limit"}
    # The balance reaches the maximum, because there are enough transfers of 1.
    received_amount = 3 * mint_counts["done"] + 1 * transfer_counts["done"]
    assert client.balance(points, ana).current_balance == received_amount == 50


def test_mints_and_burns_at_the_same_time_keep_the_limit_of_debt(client):
    points = client.account(overdraft_limit=50)
    (ana,) = client.wallets(1)
    calls = [lambda: client.burn(points, ana, 7, allow_overdraft=True), lambda: client.mint(points, ana, 5)] * 50
    outcomes = at_once(calls)
    burn_counts, mint_counts = count_outcomes(outcomes[::2]), count_outcomes(outcomes[1::2])
    assert mint_counts == {"done": 50}
    balance = client.balance(points, ana)
    assert balance.current_balance - balance.current_overdraft_balance == 50 * 5 - 7 * burn_counts["done"]
    assert balance.current_overdraft_balance <= 50


def test_mints_at_the_same_time_stop_exactly_at_the_maximum_supply(client):
    points = client.account(max_supply=60)
    wallets = client.wallets(8)
    outcomes = at_once([lambda n=n: client.mint(points, wallets[n % 8], 1) for n in range(100)], threads=CONNECTIONS)
    assert count_outcomes(outcomes) == {"done": 60, "supply-exceeded": 40}
    assert client.issued_amounts(points) == {points: 60}


def test_reverts_of_burns_take_from_the_same_supply_as_mints(client):
    points = client.account(max_supply=100)
    wallets = client.wallets(8)
    client.post_batch([Movement(points, Decimal(10), to_wallet_id=wallet) for wallet in wallets])
    burns = [client.burn(points, wallet, 10) for wallet in wallets]
    calls = [lambda burn=burn: client.revert(burn) for burn in burns]
    calls += [lambda n=n: client.mint(points, wallets[n % 8], 10) for n in range(16)]
    outcomes = at_once(calls)
    # The 8 reverts and 16 mints are of 10 points each, and 100 can be issued.
    assert count_outcomes(outcomes) == {"done": 10, "supply-exceeded": 14}
    assert client.issued_amounts(points) == {points: 100}


def test_a_maximum_supply_that_is_set_while_mints_run_holds(client):
    points = client.account()
    wallets = client.wallets(8)
    max_supplies = []

    def limit():
        def work(db: Connection) -> Decimal:
            account = lock_account(client, db, points)
            issued_amount = ledger.find_issued_amounts(db, client.id, [points]).get(points, Decimal(0))
            ledger_record = LEDGERS.find(db, client.id, client.ledger_id)
            # Ten more points can be minted.
            values = {"max_supply": issued_amount + 10, "is_default_account": True}
            ledger.store_account(db, ledger_record, account, values, client.now)
            return issued_amount + 10

        max_supplies.append(client.run(work))

    calls = [lambda n=n: client.mint(points, wallets[n % 8], 1) for n in range(160)]
    calls.insert(40, limit)
    outcomes = at_once(calls)
    mint_count = count_outcomes(outcomes)["done"]
    [max_supply] = max_supplies
    assert mint_count == min(max_supply, 160)
    assert client.issued_amounts(points) == {points: mint_count}


def test_point_tracking_that_starts_while_points_move_loses_no_point(client):
    for _ in range(4):
        points = client.account()
        wallets = client.wallets(6)
        client.post_batch([Movement(points, Decimal(10), to_wallet_id=wallet) for wallet in wallets])

        def track(points=points):
            def work(db: Connection) -> None:
                account = lock_account(client, db, points)
                ledger_record = LEDGERS.find(db, client.id, client.ledger_id)
                ledger.start_tracking(db, account, client.call(db).new_key(), client.now)
                settings = {"point_tracking_enabled": True, "expires_in_months": 6, "is_default_account": True}
                ledger.store_account(db, ledger_record, account, settings, client.now)

            client.run(work)

        calls = [lambda n=n, points=points, wallets=wallets: client.mint(points, wallets[n % 6], 3) for n in range(40)]
        calls += [lambda n=n, points=points, wallets=wallets: client.burn(points, wallets[n % 6], 1) for n in range(40)]
        random.Random(3).shuffle(calls)
        calls.insert(15, track)
        outcomes = at_once(calls)
        # The outcome of `track`.
        assert outcomes.pop(15) is None
        assert all(isinstance(outcome, int) for outcome in outcomes)
        assert client.verify() == []
        # 10 points in each of 6 wallets, 40 mints of 3 and 40 burns of 1.
        assert sum(client.balance(points, wallet).current_balance for wallet in wallets) == 6 * 10 + 40 * 3 - 40


def test_transfers_in_opposite_directions_leave_every_balance_at_100(client):
    points = client.account(point_tracking_enabled=True)
    wallets = client.wallets(3)
    client.post_batch([Movement(points, Decimal(100), to_wallet_id=wallet) for wallet in wallets])
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)]
    calls = [
        lambda source=source, target=target: client.transfer(points, wallets[source], wallets[target], 2)
        for source, target in pairs * 25
    ]
    outcomes = at_once(calls)
    assert all(isinstance(outcome, int) for outcome in outcomes)
    assert [client.balance(points, wallet).current_balance for wallet in wallets] == [100, 100, 100]


def test_batches_over_the_same_wallets_in_any_order_all_succeed(client):
    accounts = [client.account(max_supply=100_000), client.account(), client.account(point_tracking_enabled=True)]
    wallets = client.wallets(6)
    pick = random.Random(4)

    def batch():
        order = pick.sample([(account, wallet) for account in accounts for wallet in wallets], 12)
        outcomes = client.post_batch([Movement(account, Decimal(1), to_wallet_id=wallet) for account, wallet in order])
        return all(isinstance(outcome, int) for outcome in outcomes)

    assert at_once([batch] * 40, threads=CONNECTIONS) == [True] * 40
    balances = client.balances(wallets).values()
    assert sum(view.current_balance for view in balances) == 40 * 12


def test_many_mints_with_one_key_at_the_same_time_mint_once(client):
    points = client.account()
    ana, ben = client.wallets(2)
    for n in range(5):
        unique_key = f"same-{n}"
        outcomes = at_once([lambda key=unique_key: client.mint(points, ana, 10, system_unique_key=key)] * 20)
        assert len(set(outcomes)) == 1
        assert isinstance(outcomes[0], int)
        assert client.balance(points, ana).current_balance == 10 * (n + 1)
    # Two members: the calls for the member of the first one succeed as repetitions, and the others are refused.
    calls = [lambda n=n: client.mint(points, (ana, ben)[n % 2], 1, system_unique_key="other") for n in range(20)]
    outcomes = at_once(calls)
    assert count_outcomes(outcomes) == {"done": 10, "key-reused": 10}
    assert client.balance(points, ana).current_balance + client.balance(points, ben).current_balance == 5 * 10 + 1


def test_many_burns_after_an_expiry_burn_the_expired_lots_only_once(client):
    points = client.account(point_tracking_enabled=True)
    (ana,) = client.wallets(1)
    for n in range(1, 6):
        client.mint(points, ana, 10, expiration_date=client.now + timedelta(days=n))
    client.mint(points, ana, 10)
    client.now += timedelta(days=3)
    # Three of the six lots have expired, and 30 points are left.
    outcomes = at_once([lambda: client.burn(points, ana, 1)] * 40, threads=CONNECTIONS)
    assert count_outcomes(outcomes) == {"done": 30, "insufficient-balance": 10}
    expiries = "SELECT amount FROM ledger_transactions WHERE organization_id = :org AND is_expiry"
    assert client.ask(expiries) == [(10,)] * 3


def lock_account(client: LedgerClient, db: Connection, account_id: int) -> LedgerAccount:
    """The account, locked as a change of its settings locks it."""
    ledger_record, account = LEDGERS.find(db, client.id, client.ledger_id), ACCOUNTS.find(db, client.id, account_id)
    assert ledger_record is not None
    assert account is not None
    return ledger.lock_account(db, ledger_record, account)
