"""Movements of points posted a second, compared with the limit of the database: `python -m bench.ledger`.

One run on one durable server. Baseline and product alternate in every round, so that both meet the same load on the
machine; a ratio is the median of the ratios of the rounds. Prints tables for `docs/performance.md`.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, make_url, text

from bench.load import by_pgbench
from bench.turns import measure_in_turns
from domain.organizations import Organization
from handlers.call import ADMINISTRATION, Call
from handlers.services.ledger.movements import Movement
from handlers.services.ledger.post_transactions import post
from handlers.services.organizations.create import CreatedOrganization, create_organization
from handlers.services.verify import verify
from handlers.settings import Settings
from persistence import embedded, organizations, schema, transactions
from persistence.engine import create_engine

WALLETS, CLIENTS, BATCH = 10_000, 4, 100
KINDS = ("mint", "burn", "transfer")
PLENTY = 1_000_000_000

# The writes of pgbench for each kind, in a transaction of its own: no rules, no digests, the same rows.
_TRANSACTION = """
INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,
    system_unique_key, request_digest, from_wallet_id, to_wallet_id, created_at, updated_at)
VALUES (:organization, :account, {kind}, 1, 1, gen_random_uuid()::text, sha256('request'), {source}, {target}, now(),
    now()) RETURNING ledger_transaction_id AS transaction \\gset
INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id, amount,
    updated_balance)
VALUES (:organization, :transaction, 0, :account, {first}, {change}, 1),
    (:organization, :transaction, 1, :account, {second}, 0 - {change}, 1);
"""
_BALANCE = """
UPDATE ledger_balances SET current_balance = current_balance + {change}, last_transaction_date = now(),
    updated_at = now()
WHERE organization_id = :organization AND wallet_id = {wallet} AND ledger_account_id = :account;
"""
_TAKE = """
UPDATE ledger_lots SET remaining = remaining - 1 WHERE organization_id = :organization AND ledger_lot_id = (
    SELECT ledger_lot_id FROM ledger_lots WHERE organization_id = :organization AND wallet_id = {wallet}
        AND ledger_account_id = :account AND remaining > 0 ORDER BY expires_at NULLS LAST, ledger_lot_id LIMIT 1)
RETURNING ledger_lot_id AS lot \\gset
INSERT INTO ledger_lot_uses (organization_id, ledger_transaction_id, ledger_lot_id, amount)
VALUES (:organization, :transaction, :lot, 1);
"""
_GIVE = """
INSERT INTO ledger_lots (organization_id, wallet_id, ledger_account_id, ledger_transaction_id, amount, remaining,
    expires_at, created_at)
VALUES (:organization, {wallet}, :account, :transaction, 1, 1, now() + interval '1 year', now());
"""
_SUPPLY = """
INSERT INTO ledger_account_supplies AS s (organization_id, ledger_account_id, shard, minted, burned)
VALUES (:organization, :account, :client_id, {minted}, {burned})
ON CONFLICT (organization_id, ledger_account_id, shard)
    DO UPDATE SET minted = s.minted + excluded.minted, burned = s.burned + excluded.burned;
"""


def pgbench_script(kind: str, first: int, last: int) -> str:
    """The statements of one movement between random wallets of a range.

    The wallets are locked in order, to avoid deadlocks.
    """
    wallets = f"\\set one random({first}, {max(first, last - 1)})\n\\set other :one + 1\nBEGIN;"
    if kind == "mint":
        transaction = _TRANSACTION.format(kind=1, source="NULL", target=":one", first=":one", second="NULL", change="1")
        balance_changes = _BALANCE.format(change="1", wallet=":one") + _GIVE.format(wallet=":one")
        balance_changes += _SUPPLY.format(minted=1, burned=0)
    elif kind == "burn":
        transaction = _TRANSACTION.format(
            kind=2, source=":one", target="NULL", first=":one", second="NULL", change="-1"
        )
        balance_changes = _BALANCE.format(change="-1", wallet=":one") + _TAKE.format(wallet=":one")
        balance_changes += _SUPPLY.format(minted=0, burned=1)
    else:
        transaction = _TRANSACTION.format(
            kind=0, source=":one", target=":other", first=":one", second=":other", change="-1"
        )
        balance_changes = _BALANCE.format(change="-1", wallet=":one") + _BALANCE.format(change="1", wallet=":other")
        balance_changes += _TAKE.format(wallet=":one") + _GIVE.format(wallet=":other")
    return f"{wallets}{transaction}{balance_changes}COMMIT;\n"


@dataclass(frozen=True)
class LedgerSession:
    """An organization whose wallets hold plenty of points of an account that tracks and expires them."""

    url: str
    organization: CreatedOrganization
    wallets: tuple[int, ...]

    @property
    def account(self) -> int:
        return self.organization.ledger_account_id


def new_session(url: str, engine: Engine, transaction_count: int = WALLETS) -> LedgerSession:
    """Create an organization with about `transaction_count` transactions, written straight into the tables."""
    now = datetime.now(UTC)
    organization = transactions.run(engine, lambda db: create_organization(db, name="Benchmark", now=now))
    transactions_per_wallet = math.ceil(transaction_count / WALLETS)

    def fill(db: Connection) -> tuple[int, ...]:
        # Millions of rows that are right by construction: checking each would take longer than all measurements.
        db.execute(text("SET LOCAL session_replication_role = replica"))
        db.execute(text("SET LOCAL statement_timeout = 0"))
        values = {
            "organization": organization.organization_id,
            "ledger": organization.ledger_id,
            "account": organization.ledger_account_id,
            "wallets": WALLETS,
            "each": transactions_per_wallet,
            "plenty": PLENTY,
        }
        for statement in _FILL:
            db.execute(text(statement), values)
        wallets = text("SELECT wallet_id FROM wallets WHERE organization_id = :organization ORDER BY 1")
        return tuple(db.execute(wallets, values).scalars())

    wallets = transactions.run(engine, fill)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        db.execute(text("VACUUM ANALYZE"))
    return LedgerSession(url, organization, wallets)


_FILL = (
    "UPDATE ledger_accounts SET point_tracking_enabled = true, expires_in_months = 12"
    " WHERE organization_id = :organization",
    "INSERT INTO wallets (organization_id, wallet_key, ledger_id, created_at)"
    " SELECT :organization, gen_random_uuid(), :ledger, now() FROM generate_series(1, :wallets)",
    "INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,"
    " system_unique_key, request_digest, to_wallet_id, created_at, updated_at)"
    " SELECT :organization, :account, 1, 1, :plenty, gen_random_uuid()::text, sha256('request'), wallet_id, now(),"
    " now() FROM generate_series(1, :each) CROSS JOIN wallets WHERE organization_id = :organization",
    "INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id,"
    " amount, updated_balance) SELECT organization_id, ledger_transaction_id, 0, ledger_account_id, to_wallet_id,"
    " amount, amount * row_number() OVER (PARTITION BY to_wallet_id ORDER BY ledger_transaction_id)"
    " FROM ledger_transactions WHERE organization_id = :organization",
    "INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, amount)"
    " SELECT organization_id, ledger_transaction_id, 1, ledger_account_id, -amount FROM ledger_transactions"
    " WHERE organization_id = :organization",
    "INSERT INTO ledger_lots (organization_id, wallet_id, ledger_account_id, ledger_transaction_id, amount, remaining,"
    " expires_at, created_at) SELECT organization_id, to_wallet_id, ledger_account_id, ledger_transaction_id, amount,"
    " amount, now() + interval '6 months' + ledger_transaction_id * interval '1 second', now()"
    " FROM ledger_transactions WHERE organization_id = :organization",
    "INSERT INTO ledger_balances (organization_id, wallet_id, ledger_account_id, current_balance, created_at,"
    " updated_at) SELECT organization_id, wallet_id, :account, CAST(:plenty AS numeric) * :each, now(), now()"
    " FROM wallets WHERE organization_id = :organization",
    "INSERT INTO ledger_account_supplies (organization_id, ledger_account_id, shard, minted, burned)"
    " VALUES (:organization, :account, 0, CAST(:plenty AS numeric) * :each * :wallets, 0)",
)


def pgbench_rate(session: LedgerSession, kind: str, on_one_wallet: bool, seconds: float) -> float:
    """The movements a second that pgbench writes."""
    first, last = (session.wallets[0], session.wallets[0] if on_one_wallet else session.wallets[-1])
    variables = {"organization": session.organization.organization_id, "account": session.account}
    return by_pgbench(session.url, pgbench_script(kind, first, last), variables, seconds, CLIENTS).rate


class Teller:
    """A client that posts movements as a handler does, without HTTP."""

    def __init__(self, session: LedgerSession) -> None:
        self.session = session
        self.engine = create_engine(session.url, threads=1)
        with self.engine.connect() as db:
            record = organizations.find(db, session.organization.organization_id)
        assert record is not None
        self.organization: Organization = record

    def post(self, movements: Sequence[Movement]) -> None:
        """Post the movements in one call and commit."""

        def work(db: Connection) -> None:
            call = Call(
                db=db,
                organization=self.organization,
                caller=None,
                now=datetime.now(UTC),
                request_id="bench",
                surface=ADMINISTRATION,
                settings=Settings(database_url="", home=Path()),
            )
            outcomes = post([call] * len(movements), movements)
            refusals = [outcome for outcome in outcomes if not isinstance(outcome, int)]
            if refusals:
                raise refusals[0]

        transactions.run(self.engine, work)


def movement(session: LedgerSession, kind: str, on_one_wallet: bool, chance: random.Random) -> Movement:
    """A movement of one point between random wallets, with `on_one_wallet` always out of or into the first one."""
    position = 0 if on_one_wallet else chance.randrange(len(session.wallets) - 1)
    one, other = session.wallets[position], session.wallets[position + 1]
    sides = {"mint": (None, one), "burn": (one, None), "transfer": (one, other)}[kind]
    return Movement(session.account, Decimal(1), *sides)


def _work(
    session: LedgerSession, kind: str, on_one_wallet: bool, size: int, seconds: float, start: Any, results: Any
) -> None:
    """Post movements for `seconds` after `start`, in a process of its own; put the rate into `results`."""
    teller, chance, count = Teller(session), random.Random(), 0
    teller.post([movement(session, kind, on_one_wallet, chance)])
    start.wait()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        teller.post([movement(session, kind, on_one_wallet, chance) for _ in range(size)])
        count += size
    results.put(count / (time.perf_counter() - began))


def product_rate(session: LedgerSession, kind: str, on_one_wallet: bool, size: int, seconds: float) -> float:
    """The movements a second of as many processes as pgbench has clients, `size` movements in each call."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(CLIENTS), context.Queue()
    arguments = (session, kind, on_one_wallet, size, seconds, start, results)
    workers = [context.Process(target=_work, args=arguments) for _ in range(CLIENTS)]
    for worker in workers:
        worker.start()
    rates = [results.get(timeout=seconds + 120) for _ in workers]
    for worker in workers:
        worker.join()
    return sum(rates)


def compare(session: LedgerSession, baseline: LedgerSession, seconds: float, rounds: int) -> None:
    """Print the table of single and batched movements next to pgbench."""
    print(f"\n| movement | wallets | pgbench/s | single/s | of pgbench | in batches of {BATCH}/s | of pgbench |")
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        for on_one_wallet in (False, True):
            rates = [
                (
                    pgbench_rate(baseline, kind, on_one_wallet, seconds),
                    product_rate(session, kind, on_one_wallet, 1, seconds),
                    product_rate(session, kind, on_one_wallet, BATCH, seconds),
                )
                for _ in range(rounds)
            ]
            pgbench, single, batched = (statistics.median(column) for column in zip(*rates, strict=True))
            shares = [statistics.median(round_rates[n] / round_rates[0] for round_rates in rates) for n in (1, 2)]
            wallets = "one" if on_one_wallet else f"{WALLETS:,}"
            print(
                f"| {kind} | {wallets} | {pgbench:,.0f} | {single:,.0f} | {shares[0]:.2f} | {batched:,.0f}"
                f" | {shares[1]:.2f} |",
                flush=True,
            )


def add_lots(engine: Engine, session: LedgerSession, wallet: int, lots: int) -> None:
    """Divide the one lot of a wallet into `lots` lots that expire one after another."""

    def divide(db: Connection) -> None:
        db.execute(text("SET LOCAL statement_timeout = 0"))
        one = "organization_id = :organization AND wallet_id = :wallet"
        values = {"organization": session.organization.organization_id, "wallet": wallet, "lots": lots}
        db.execute(
            text(
                "INSERT INTO ledger_lots (organization_id, wallet_id, ledger_account_id, ledger_transaction_id, amount,"
                " remaining, expires_at, created_at) SELECT organization_id, wallet_id, ledger_account_id,"
                " ledger_transaction_id, 5, 5, expires_at - n * interval '1 second', created_at"
                f" FROM ledger_lots CROSS JOIN generate_series(1, :lots - 1) AS n WHERE {one}"
            ),
            values,
        )
        rest = "5 * (CAST(:lots AS bigint) - 1)"
        db.execute(
            text(
                f"UPDATE ledger_lots SET amount = amount - {rest}, remaining = remaining - {rest}"
                f" WHERE {one} AND amount > 5"
            ),
            values,
        )

    transactions.run(engine, divide)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        db.execute(text("ANALYZE ledger_lots"))


def by_lots(engine: Engine, session: LedgerSession, rounds: int) -> None:
    """Print the table of the time of a burn in a wallet with few and with many lots."""
    counts = (10, 1_000, 100_000)
    for wallet, lots in zip(session.wallets[-3:], counts, strict=True):
        add_lots(engine, session, wallet, lots)
    teller = Teller(session)

    def burn(lots: int, amount: int) -> Callable[[], None]:
        wallet = session.wallets[counts.index(lots) - 3]
        return lambda: teller.post([Movement(session.account, Decimal(amount), from_wallet_id=wallet)])

    print("\n| lots of the wallet | burn of 1, ms | of that at 10 lots | burn over 3 lots, ms | of that at 10 lots |")
    print("|---|---|---|---|---|")
    small = measure_in_turns({lots: burn(lots, 1) for lots in counts}, rounds * 10)
    large = measure_in_turns({lots: burn(lots, 11) for lots in counts}, rounds * 10)
    for lots in counts:
        cells = [f"{part[lots]:.2f} | {part[lots] / part[counts[0]]:.2f}" for part in (small, large)]
        print(f"| {lots:,} | {cells[0]} | {cells[1]} |", flush=True)


def by_stored(few: LedgerSession, many: LedgerSession, transaction_count: int, rounds: int) -> None:
    """Print the table of the time of movements in a database with few and in one with many transactions."""
    print(f"\n| movement | ms with {WALLETS:,} stored | ms with {transaction_count:,} stored | ratio |")
    print("|---|---|---|---|")
    tellers = {session: Teller(session) for session in (few, many)}
    chance = random.Random(1)
    for kind in KINDS:
        works = {
            name: lambda session=session, kind=kind: tellers[session].post([movement(session, kind, False, chance)])
            for name, session in (("few", few), ("many", many))
        }
        medians = measure_in_turns(works, rounds * 60)
        few_ms, many_ms = medians["few"], medians["many"]
        print(f"| {kind} | {few_ms:.2f} | {many_ms:.2f} | {many_ms / few_ms:.2f} |", flush=True)


def database(url: str, name: str) -> str:
    """Create a further database on the server and migrate it. Returns its URL."""
    engine = create_engine(url, threads=1)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        db.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement of a rate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stored", type=int, default=1_000_000, help="transactions in the large database")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loyalty-bench-") as directory:
        Path(directory).chmod(0o711)
        with embedded.server(Path(directory) / "home") as url:
            large = database(url, "large")
            engines = [create_engine(address, threads=1, statement_timeout_ms=0) for address in (url, large)]
            for engine in engines:
                schema.migrate(engine)
            few, many = new_session(url, engines[0]), new_session(large, engines[1], arguments.stored)
            by_stored(few, many, arguments.stored, arguments.rounds)
            by_lots(engines[0], new_session(url, engines[0]), arguments.rounds)
            session, baseline = new_session(url, engines[0]), new_session(url, engines[0])
            compare(session, baseline, arguments.seconds, arguments.rounds)
            for engine, verified_session in ((engines[0], session), (engines[1], many)):
                with engine.connect() as db:
                    faults = verify(db, verified_session.organization.organization_id)
                if faults:
                    sys.exit("\n".join(faults))
                engine.dispose()


if __name__ == "__main__":
    main()
