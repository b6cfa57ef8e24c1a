"""The calls that stored records slow down: `python -m bench.scale`.

Two databases, durable as in production: one with 1,000,000 members, 10,000,000 events with their orders, transactions,
20,000,000 entries, lots and balances, and one with a hundredth of all that, so that members have as much. The database
writes the rows itself. Each kind of call is then made by eight clients of a server on either of them, in turns. Prints
tables for `docs/performance.md`.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, text

from bench import load, single_calls, tracking
from bench.tracking import World
from handlers.services.verify import verify
from persistence.engine import autocommit

CHUNK = 250_000
ASSIGN, USE = "assign a coupon", "use a coupon"

# The tables that grow, whose indexes are made when they are full.
GROWING = ("members", "wallets", "events", "purchase_orders", "ledger_transactions", "ledger_entries", "ledger_lots")

_MEMBERS = """
WITH made AS (
    INSERT INTO wallets (organization_id, wallet_id, wallet_key, ledger_id, created_at)
    SELECT :org, :wallet + n, gen_random_uuid(), :ledger, :now FROM generate_series(:enrolled, :members - 1) n
), placed AS (
    INSERT INTO member_tiers (organization_id, member_id, loyalty_program_id, loyalty_tier_id, is_manual, created_at)
    SELECT :org, :member + n, t.loyalty_program_id, t.loyalty_tier_id, false, :now
    FROM generate_series(:enrolled, :members - 1) n
    CROSS JOIN (SELECT * FROM member_tiers WHERE organization_id = :org LIMIT 1) t
)
INSERT INTO members (organization_id, member_id, loyalty_member_id, wallet_id, wallet_key, created_at, updated_at)
SELECT :org, :member + n, 'm' || n, :wallet + n, gen_random_uuid(), :now, :now
FROM generate_series(:enrolled, :members - 1) n
"""

# Purchase n is that of a member in random order: each member makes one purchase before anybody makes another.
_PURCHASES = """
FROM (
    SELECT n, mod(n * 7919, :members) AS place,
        :now - :days * interval '1 day' * (1 - CAST(n AS float) / :purchases) AS at
    FROM generate_series(CAST(:first AS bigint), :until) n
) n
"""
# What a member spends is always the same, so that balances are known without adding them up.
_AMOUNT = "(1 + mod(n.place, 97))"

_OF_PURCHASES = (
    f"""
INSERT INTO events (organization_id, loyalty_event_id, loyalty_event_key, member_id, event_type, system_unique_key,
    request_digest, payload, evaluation_status, status, limit_counters, result, created_at, updated_at)
SELECT :org, :event + n.n, gen_random_uuid(), :member + n.place, 'member-purchase-order-created', 'old-' || n.n,
    sha256('old'), json_build_object('order', json_build_object('externalId', 'old-' || n.n, 'total', {_AMOUNT})), 1,
    'success', '[]', json_build_object('effects', json_build_array(json_build_object('campaignId', 1, 'campaignCode',
        'whole-dollars', 'actionId', 1, 'effectId', 'mint-points', 'status', 'executed',
        'params', json_build_array(json_build_object('id', 'amount', 'value', {_AMOUNT}))))), n.at, n.at
{_PURCHASES}""",
    f"""
INSERT INTO purchase_orders (organization_id, order_id, member_id, loyalty_event_id, event_ids, external_id, total,
    status, created_at, updated_at)
SELECT :org, :order + n.n, :member + n.place, :event + n.n, ARRAY[:event + n.n], 'old-' || n.n, {_AMOUNT}, 'created',
    n.at, n.at
{_PURCHASES}""",
    f"""
INSERT INTO ledger_transactions (organization_id, ledger_transaction_id, ledger_account_id, transaction_type, status,
    amount, system_unique_key, to_wallet_id, loyalty_event_id, created_at, updated_at)
SELECT :org, :transaction + n.n, :account, 1, 1, {_AMOUNT}, 'old-' || n.n || '\\:1', :wallet + n.place, :event + n.n,
    n.at, n.at
{_PURCHASES}""",
    f"""
INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id, amount,
    updated_balance)
SELECT :org, :transaction + n.n, side, :account, CASE WHEN side = 0 THEN :wallet + n.place END,
    {_AMOUNT} * (1 - 2 * side), CASE WHEN side = 0 THEN {_AMOUNT} * (1 + (n.n - 1) / :members) END
{_PURCHASES} CROSS JOIN (VALUES (0), (1)) AS sides(side)""",
    f"""
INSERT INTO ledger_lots (organization_id, ledger_lot_id, wallet_id, ledger_account_id, ledger_transaction_id, amount,
    remaining, created_at)
SELECT :org, :lot + n.n, :wallet + n.place, :account, :transaction + n.n, {_AMOUNT}, {_AMOUNT}, n.at
{_PURCHASES}""",
)

_BALANCES = f"""
INSERT INTO ledger_balances (organization_id, wallet_id, ledger_account_id, current_balance, earned,
    last_transaction_date, created_at, updated_at)
SELECT :org, :wallet + n.place, :account, {_AMOUNT} * count, {_AMOUNT} * count, :now, :now, :now
FROM (
    SELECT place, :purchases / :members + CAST(x.n <= mod(:purchases, :members) AS int) AS count
    FROM (SELECT n, mod(n * 7919, :members) AS place FROM generate_series(CAST(1 AS bigint), :members) n) x
) n WHERE count > 0
"""
_SUPPLY = """
INSERT INTO ledger_account_supplies (organization_id, ledger_account_id, shard, minted, burned)
SELECT :org, :account, 0, sum(current_balance), 0 FROM ledger_balances WHERE organization_id = :org
"""

# How many members there are, as reports know it.
_TOTAL = """
INSERT INTO report_totals AS t (organization_id, kind, level, label, bucket, subject, a)
SELECT :org, 'members', 2, '', date_trunc('month', CAST(:now AS timestamptz), 'UTC'), 0, :members - :enrolled
ON CONFLICT (organization_id, kind, level, label, bucket, subject) DO UPDATE SET a = t.a + excluded.a
"""

# table, its ids, and the name of the id before the first one
_IDS = (
    ("events", "loyalty_event_id", "event"),
    ("purchase_orders", "order_id", "order"),
    ("ledger_transactions", "ledger_transaction_id", "transaction"),
    ("ledger_lots", "ledger_lot_id", "lot"),
)
_SEQUENCES = [("members", "member_id"), ("wallets", "wallet_id"), *(id_column[:2] for id_column in _IDS)]


@dataclass(frozen=True)
class ServedWorld:
    """A world with a server on it."""

    world: World
    engine: Engine
    port: int
    numbers: Iterator[int]
    book: single_calls.Book


def fill(engine: Engine, world: World, members: int, purchases: int) -> World:
    """Write so many members in all, and their purchases, each with a mint of points."""
    values: dict[str, Any] = {
        "org": world.organization.organization_id,
        "ledger": world.organization.ledger_id,
        "account": world.organization.ledger_account_id,
        "enrolled": world.members,
        "members": members,
        "purchases": purchases,
        "member": world.first_member,
        "wallet": world.first_wallet,
        "now": datetime.now(UTC),
        "days": 730,
    }
    with autocommit(engine).connect() as db:
        for table, column, name in _IDS:
            values[name] = db.execute(text(f"SELECT coalesce(max({column}), 0) FROM {table}")).scalar_one()
        # Neither triggers nor foreign keys, which take longer than the rows.
        for setting in ("session_replication_role = replica", "maintenance_work_mem = '1GB'", "statement_timeout = 0"):
            db.execute(text(f"SET {setting}"))
        query = text(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(:tables) AND NOT EXISTS"
            " (SELECT FROM pg_constraint WHERE conname = indexname)"
        )
        indexes = db.execute(query, {"tables": list(GROWING)}).all()
        for name, _ in indexes:
            db.execute(text(f'DROP INDEX "{name}"'))
        db.execute(text(_MEMBERS), values)
        for first in range(1, purchases + 1, CHUNK):
            for statement in _OF_PURCHASES:
                chunk = {"first": first, "until": min(first + CHUNK - 1, purchases)}
                db.execute(text(statement), values | chunk)
            print(f"\r{first:,} ", end="", file=sys.stderr, flush=True)
        for statement in (_BALANCES, _SUPPLY, _TOTAL):
            db.execute(text(statement), values)
        for _, definition in indexes:
            # A colon would begin the name of a value.
            db.execute(text(definition.replace(":", "\\:")))
        for table, column in _SEQUENCES:
            db.execute(text(f"SELECT setval('{table}_{column}_seq', (SELECT max({column}) FROM {table}))"))
        db.execute(text("VACUUM ANALYZE"))
        db.execute(text("CHECKPOINT"))
    return replace(world, members=members)


def sizes(engine: Engine) -> dict[str, int]:
    """The bytes of each large table, with its indexes."""
    sizes_query = text(
        "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables"
        " WHERE pg_total_relation_size(relid) > 100e6 ORDER BY 2 DESC"
    )
    with engine.connect() as db:
        return {row[0]: row[1] for row in db.execute(sizes_query)}


def _kinds(served: ServedWorld) -> dict[str, load.MakeRequest]:
    """Requests of each kind of call."""
    world, chance = served.world, random.Random(2)
    members = "/v2/members"
    accounts = f"/v2/organizations/{world.organization.organization_id}/ledgers/{world.organization.ledger_id}/accounts"

    def of_member(rest: str) -> load.MakeRequest:
        return lambda: load.request("GET", f"{members}/m{chance.randrange(world.members)}{rest}", world.token)

    def get(path: str) -> load.MakeRequest:
        return lambda: load.request("GET", path, world.token)

    return {
        "track an event": single_calls.events_of(world, served.numbers),
        "track 100 events": single_calls.events_of(world, served.numbers, 100),
        "mint points": single_calls.mints_of(world),
        ASSIGN: served.book.assignments(world),
        USE: served.book.uses(world),
        "read a member": single_calls.reads_of(world),
        "a member's timeline": of_member("/timeline"),
        "a member's events": of_member("/events"),
        "a member's transactions": of_member("/ledger-transactions"),
        "all members, first page": get(members),
        "an account's transactions": get(f"{accounts}/{world.organization.ledger_account_id}/transactions"),
    }


def _milliseconds(served: ServedWorld, kind: str, seconds: float) -> float:
    """The mean time of a call, of eight clients that make it all the time."""
    kinds = _kinds(served)
    if kind == USE:
        # Enough to be used.
        load.closed_loop(served.port, 8, 2 * seconds, kinds[ASSIGN])
    result = load.closed_loop(served.port, 8, seconds, kinds[kind])
    if result.failures:
        sys.exit(f"{kind}: {result.statuses}")
    return 8000 / result.rate


def main() -> None:
    """Fill, measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--purchases", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=4, help="how long each measurement takes")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with ExitStack() as stack:
        small = serve_world(
            stack, lambda engine, world: fill(engine, world, tracking.MEMBERS, options.purchases // 100)
        )
        began = time.perf_counter()
        full = serve_world(stack, lambda engine, world: fill(engine, world, options.members, options.purchases))
        print(
            f"{options.members:,} members and {options.purchases:,} purchases in {time.perf_counter() - began:.0f} s\n"
        )
        print("| table | MB | bytes for each purchase |\n|---|---|---|")
        for name, size in sizes(full.engine).items():
            print(f"| `{name}` | {size / 1e6:,.0f} | {size / options.purchases:.0f} |")
        print("\n| call | small ms | large ms | ratio |\n|---|---|---|---|", flush=True)
        for kind in _kinds(full):
            times: tuple[list[float], list[float]] = [], []
            for _ in range(options.rounds):
                for served, durations in zip((small, full), times, strict=True):
                    durations.append(_milliseconds(served, kind, options.seconds))
            before, after = map(statistics.median, times)
            print(f"| {kind} | {before:.2f} | {after:.2f} | {after / before:.2f} |", flush=True)
        with full.engine.connect() as db:
            began = time.perf_counter()
            faults = verify(db, full.world.organization.organization_id)
            duration = time.perf_counter() - began
        print(f"\n`loyalty verify`, the ledger: {duration:.0f} s, {len(faults)} faults")


def serve_world(stack: ExitStack, prepare: Callable[[Engine, World], World]) -> ServedWorld:
    """A database of its own with a server; the campaign and the book are those of `bench.single_calls`."""
    world, engine = stack.enter_context(tracking.new_world())
    world = prepare(engine, world)
    port = stack.enter_context(tracking.serving(world, 2))
    numbers = itertools.count(1)
    client = tracking.Client(port, world, numbers)
    tracking.add_campaign(client, world)
    book = single_calls.add_book(client, world, engine)
    load.closed_loop(port, 8, 3, single_calls.events_of(world, numbers))
    return ServedWorld(world, engine, port, numbers, book)


if __name__ == "__main__":
    main()
