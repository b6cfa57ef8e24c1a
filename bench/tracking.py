"""Events tracked a second, compared with the limit of the database: `python -m bench.tracking`.

One run on one database, durable as in production. First pgbench writes the rows of an event (the limit). Then a server
with one process, and one with two, gets single events and batches of 100 over HTTP from as many clients, as fast as it
can, then half as fast to measure how long a call takes; then pgbench again. Prints a table for `docs/performance.md`:
the limit in it is the mean of pgbench before and after. Trust the ratios: machines differ, and are shared.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, event, text

from bench.databases import new_database
from bench.load import Load, by_pgbench
from bench.processor_time import ProcessorTime, ProcessorTimes
from handlers.call import Caller, Request
from handlers.http.dispatch import Dispatcher
from handlers.services.organizations.create import CreatedOrganization, create_organization
from handlers.services.tokens import issue_operator_token
from handlers.settings import Settings
from persistence import members, transactions

MEMBERS = 10_000
CLIENTS = 8

# The durable writes of one purchase that mints points: event, order, transaction with two entries, balance, supply.
PGBENCH = """
\\set number random(0, {members} - 1)
\\set member :first_member + :number
\\set wallet :first_wallet + :number
\\set total random(1, 100)
BEGIN;
INSERT INTO events (organization_id, loyalty_event_key, member_id, event_type, system_unique_key, request_digest,
    payload, evaluation_status, status, limit_counters, result, created_at, updated_at)
SELECT :organization, gen_random_uuid(), m.member_id, 'member-purchase-order-created', gen_random_uuid()::text,
    sha256(random()::text::bytea), '{payload}', 1, 'success', '[]', '{result}', now(), now()
FROM members m WHERE m.organization_id = :organization AND m.member_id = :member;
INSERT INTO purchase_orders (organization_id, member_id, loyalty_event_id, event_ids, external_id, total, status,
    created_at, updated_at)
VALUES (:organization, :member, lastval(), ARRAY[lastval()], gen_random_uuid()::text, :total, 'created', now(), now());
INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,
    system_unique_key, to_wallet_id, created_at, updated_at)
VALUES (:organization, :account, 1, 1, :total, gen_random_uuid()::text, :wallet, now(), now());
INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id, amount,
    updated_balance)
VALUES (:organization, lastval(), 0, :account, :wallet, :total, :total),
    (:organization, lastval(), 1, :account, NULL, 0::numeric - :total, NULL);
INSERT INTO ledger_balances AS b (organization_id, wallet_id, ledger_account_id, current_balance, created_at,
    updated_at)
VALUES (:organization, :wallet, :account, :total, now(), now())
ON CONFLICT (organization_id, wallet_id, ledger_account_id)
    DO UPDATE SET current_balance = b.current_balance + excluded.current_balance, updated_at = excluded.updated_at;
INSERT INTO ledger_account_supplies AS s (organization_id, ledger_account_id, shard, minted, burned)
VALUES (:organization, :account, pg_backend_pid() % 16, :total, 0)
ON CONFLICT (organization_id, ledger_account_id, shard) DO UPDATE SET minted = s.minted + excluded.minted;
COMMIT;
"""


# A campaign that gives one point for each whole dollar of an order, and its action.
CAMPAIGN = {"code": "whole-dollars", "name": "Whole dollars", "eventType": "member-purchase-order-created"}
_PARAMS = [{"id": "amount", "expression": "floor(order.total)"}]
ACTION = {"status": "running", "priority": 1, "effects": {"items": [{"effectId": "mint-points", "params": _PARAMS}]}}


@dataclass(frozen=True)
class World:
    """An organization with members and the campaign "one point for each whole dollar"."""

    url: str
    organization: CreatedOrganization
    token: str
    first_member: int
    first_wallet: int
    members: int = MEMBERS


@dataclass(frozen=True)
class Measurement:
    """One measurement: the events, the seconds they took, and the milliseconds of a call."""

    events: int
    seconds: float
    latencies: list[float]

    @property
    def events_a_second(self) -> float:
        """The rate of events."""
        return self.events / self.seconds

    def percentile(self, share: int) -> float:
        """The milliseconds within which `share` percent of the calls had a response."""
        return statistics.quantiles(self.latencies, n=100)[share - 1]


def make_world(engine: Engine, url: str) -> World:
    """Create the organization of all measurements, its members written straight to the database."""
    now = datetime.now(UTC)
    settings = Settings(database_url=url)
    organization = transactions.run(engine, lambda db: create_organization(db, name="Benchmark", now=now))
    token = transactions.run(
        engine,
        lambda db: issue_operator_token(
            db,
            settings,
            organization_id=organization.organization_id,
            roles=frozenset(),
            is_admin=True,
            lifetime=86_400,
            now=now,
        ),
    )
    first = transactions.run(engine, lambda db: _enrol(db, organization, now))
    # Autovacuum would do it within a minute: in the middle of the first measurements, with other plans from then on.
    with engine.begin() as db:
        db.execute(text("ANALYZE"))
    return World(url, organization, token, *first)


@contextmanager
def new_world() -> Iterator[tuple[World, Engine]]:
    """A world in a database of its own, durable as in production."""
    with new_database(threads=2) as (engine, url):
        yield make_world(engine, url), engine


def _enrol(db: Connection, organization: CreatedOrganization, now: datetime) -> tuple[int, int]:
    """Create the members of a world; return the first id of a member and the first id of a wallet."""
    rows = [
        {
            "loyalty_member_id": f"m{number}",
            "active": True,
            "wallet_key": f"00000000-0000-4000-8000-{number:012d}",
            **{name: {} for name in ("profile", "custom_attributes", "notifications", "on_chain")},
        }
        for number in range(MEMBERS)
    ]
    members.add_members(
        db,
        organization.organization_id,
        rows,
        ledger_id=organization.ledger_id,
        loyalty_program_id=organization.loyalty_program_id,
        now=now,
    )
    row = db.execute(
        text("SELECT min(member_id), min(wallet_id) FROM members WHERE organization_id = :o"),
        {"o": organization.organization_id},
    ).one()
    return row[0], row[1]


class Client:
    """A client that tracks events over one kept connection."""

    def __init__(self, port: int, world: World, numbers: Iterator[int]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {world.token}", "Content-Type": "application/json"}
        self._numbers = numbers
        self._random = random.Random(id(self))

    def track(self, count: int) -> None:
        """Track a batch of `count` new purchases and wait for the response."""
        events = [new_event(self._numbers, self._random) for _ in range(count)]
        self.call("POST", "/v2/events/track", {"events": events})

    def call(self, method: str, path: str, body: object) -> dict:
        """Send one call; anything but success ends the benchmark."""
        self._connection.request(method, path, json.dumps(body), self._headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 300:
            sys.exit(f"{method} {path} returned {response.status}: {content[:500]!r}")
        return json.loads(content)


def new_event(numbers: Iterator[int], chance: random.Random, member_count: int = MEMBERS) -> dict:
    """A new purchase of a random one of the first `member_count` members; its number is the next of `numbers`."""
    number = next(numbers)
    order = {"externalId": f"order-{number}", "total": chance.randrange(100, 10_000) / 100}
    return {
        "loyaltyMemberId": f"m{chance.randrange(member_count)}",
        "systemUniqueKey": f"event-{number}",
        "eventType": "member-purchase-order-created",
        "payload": {"order": order},
    }


def add_campaign(client: Client, world: World) -> None:
    """Add a campaign that gives one point for each whole dollar of an order."""
    base = f"/v2/organizations/{world.organization.organization_id}/campaigns"
    campaign_record = client.call("POST", base, CAMPAIGN)["campaign"]
    client.call("POST", f"{base}/{campaign_record['campaignId']}/actions", ACTION)


def limit(world: World, seconds: int, clients: int = CLIENTS) -> Load:
    """The transactions that pgbench makes, each with the writes of one event."""
    payload, result = json.dumps({"order": {"externalId": "order-1", "total": 12.5}}), json.dumps({"effects": []})
    variables = {
        "organization": world.organization.organization_id,
        "account": world.organization.ledger_account_id,
        "first_member": world.first_member,
        "first_wallet": world.first_wallet,
    }
    script = PGBENCH.format(members=MEMBERS, payload=payload, result=result)
    return by_pgbench(world.url, script, variables, seconds, clients)


@contextmanager
def serving(world: World, workers: int) -> Iterator[int]:
    """Run a server on a free port with this many workers, and no worker of the queue."""
    port = _free_port()
    environment = {"LOYALTY_PORT": str(port), "LOYALTY_WORKERS": str(workers), "LOYALTY_LOG_LEVEL": "warning"}
    with _running(world, ["handlers", "serve", "--no-worker"], environment, f"{port}/health/ready"):
        yield port


@contextmanager
def serving_bare_flask(world: World, workers: int) -> Iterator[int]:
    """Run `bench.bare_flask` on a free port with this many workers of eight threads each."""
    port = _free_port()
    options = [f"--bind=127.0.0.1:{port}", f"--workers={workers}", "--threads=8", "--log-level=error"]
    with _running(world, ["gunicorn", *options, "bench.bare_flask:app"], {}, f"{port}/v2/members/m1"):
        yield port


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def _running(world: World, module: list[str], environment: Mapping[str, str], readiness_address: str) -> Iterator[None]:
    """Run a module of Python on the world's database, from when `readiness_address` responds, a port and a path."""
    environment = {**os.environ, "LOYALTY_DATABASE_URL": world.url, **environment}
    server = subprocess.Popen([sys.executable, "-m", *module], env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait_until_ready(server, f"http://127.0.0.1:{readiness_address}")
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _wait_until_ready(server: subprocess.Popen, address: str) -> None:
    """Wait until the server responds at its address of readiness; exit if it ends or takes too long."""
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit("the server ended at its start")
        try:
            urllib.request.urlopen(address, timeout=2)
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit("the server did not get ready")


def measure(clients: list[Client], size: int, seconds: float, rate: float | None = None) -> Measurement:
    """Track batches of `size` from all clients: as fast as they go, or `rate` events a second in all."""
    end = time.perf_counter() + seconds
    latencies: list[float] = []
    interval = None if rate is None else size * len(clients) / rate

    def work(client: Client, offset: float) -> None:
        due = time.perf_counter() + offset
        while due < end and time.perf_counter() < end:
            if interval is not None:
                time.sleep(max(0.0, due - time.perf_counter()))
            else:
                due = time.perf_counter()
            client.track(size)
            # From the moment when the call was due, so that a stall counts for all the calls that it delays.
            latencies.append((time.perf_counter() - due) * 1000)
            due += interval or 0.0

    start = time.perf_counter()
    offsets = [(interval or 0.0) * index / len(clients) for index in range(len(clients))]
    threads = [
        threading.Thread(target=work, args=(client, offset)) for client, offset in zip(clients, offsets, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Measurement(len(latencies) * size, time.perf_counter() - start, latencies)


def count_statements(world: World, engine: Engine, numbers: Iterator[int]) -> dict[int, int]:
    """Count the SQL statements of a call, without BEGIN and COMMIT, by its number of events."""
    sent_statements: list[str] = []
    dispatcher = Dispatcher(Settings(database_url=world.url), engine)
    caller = Caller("benchmark", world.organization.organization_id, frozenset(), is_admin=True)
    event.listen(engine, "before_cursor_execute", lambda *arguments: sent_statements.append(arguments[2]))
    counts = {}
    for size in (1, 100):
        for _ in range(2):  # the first call also loads the campaigns
            sent_statements.clear()
            body = {"events": [new_event(numbers, random.Random(size)) for _ in range(size)]}
            dispatcher([Request("integration", "trackEvents", {}, {}, body, caller, "benchmark", {})])
        counts[size] = len(sent_statements)
    return counts


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="how long each measurement takes")
    seconds = parser.parse_args().seconds
    with new_world() as (world, engine):
        numbers = itertools.count(1)
        _report(world, seconds, numbers, ProcessorTimes(engine))
        counts = ", ".join(f"{count} for {size}" for size, count in count_statements(world, engine, numbers).items())
        print(f"SQL statements of a call, by events in it: {counts}.")


def _report(world: World, seconds: int, numbers: Iterator[int], times: ProcessorTimes) -> None:
    """Measure batches of each size with each number of processes, and print them as rows with the limit by pgbench."""
    limits = [limit(world, seconds).rate]
    print("| what | events/s | of the limit | p50 ms | p95 ms | p99 ms | CPU ms: server | PostgreSQL |")
    print(8 * "|---" + "|")
    campaign_added = False
    for workers in (1, 2):
        rows = []
        with serving(world, workers) as port:
            clients = [Client(port, world, numbers) for _ in range(CLIENTS)]
            if not campaign_added:
                add_campaign(clients[0], world)
                campaign_added = True
            for size in (1, 100):
                measure(clients, size, 2)
                best, cost = times.measure(measure, clients, size, seconds)
                half = measure(clients, size, seconds, best.events_a_second / 2)
                rows.append(
                    (f"batches of {size}, {workers} {'process' if workers == 1 else 'processes'}", best, half, cost)
                )
        limits.append(limit(world, seconds).rate)
        for name, best, half, cost in rows:
            # A machine that others use, and a database that grows, change within a run.
            _row(name, best, half, cost, statistics.mean(limits[-2:]))
    print(f"\nThe limit, pgbench before, between and after: {', '.join(f'{rate:.0f}' for rate in limits)} a second.")


def _row(name: str, best: Measurement, half: Measurement, cost: ProcessorTime, limit_rate: float) -> None:
    times = " | ".join(f"{half.percentile(share):.1f}" for share in (50, 95, 99))
    share = best.events_a_second / limit_rate
    columns = cost.columns(best.events)
    print(f"| {name} | {best.events_a_second:.0f} | {share:.2f} | {times} | {columns} |", flush=True)


if __name__ == "__main__":
    main()
