"""The product works through PgBouncer in transaction mode, where each transaction may have another connection."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from persistence import transactions
from persistence.connections import defer, fetch_rows
from persistence.engine import autocommit, create_engine
from tests.builders import pooler
from tests.processes.loyalty import Server, environment, invoke

pytestmark = pytest.mark.skipif(not pooler.is_installed(), reason="needs pgbouncer")

SETTINGS_QUERY = "SELECT current_setting('timezone'), current_setting('jit'), current_setting('lock_timeout')"


@pytest.fixture(scope="module")
def pooler_url(database_url: str, temporary_directory: Path) -> Iterator[str]:
    """The URL of a pooler that shares three connections to the database of the tests."""
    with pooler.run_pooler(database_url, temporary_directory, connections=3) as url:
        yield url


@pytest.fixture
def pooler_engine(pooler_url: str) -> Iterator[Engine]:
    """An engine for eight threads on the pooler, with a statement timeout of 0.7 s."""
    engine = create_engine(pooler_url, threads=8, statement_timeout_ms=700, lock_timeout_ms=12_345)
    yield engine
    engine.dispose()


def test_each_transaction_has_the_settings_of_its_client(pooler_engine: Engine) -> None:
    # The last one is the setting of the engine; the product sets the others for all engines.
    session_settings = [("UTC", "off", "12345ms")]
    assert transactions.run(pooler_engine, lambda db: fetch_rows(db, SETTINGS_QUERY, ())) == session_settings
    assert (
        transactions.read(autocommit(pooler_engine), lambda db: fetch_rows(db, SETTINGS_QUERY, ())) == session_settings
    )
    assert (
        transactions.run(pooler_engine, lambda db: [tuple(row) for row in db.execute(text(SETTINGS_QUERY))])
        == session_settings
    )


def test_clients_with_different_settings_do_not_affect_each_other(pooler_engine: Engine, pooler_url: str) -> None:
    def lock_timeout_of(engine: Engine) -> str:
        [(_, _, lock_timeout)] = transactions.run(engine, lambda db: fetch_rows(db, SETTINGS_QUERY, ()))
        return lock_timeout

    engine_with_other_settings = create_engine(pooler_url, threads=1, lock_timeout_ms=777)
    for _ in range(10):
        assert lock_timeout_of(engine_with_other_settings) == "777ms"
        assert lock_timeout_of(pooler_engine) == "12345ms"
    engine_with_other_settings.dispose()


@pytest.mark.parametrize("is_read", [False, True])
def test_statements_end_at_their_time_limit(pooler_engine: Engine, is_read: bool) -> None:
    run, engine = (transactions.read, autocommit(pooler_engine)) if is_read else (transactions.run, pooler_engine)
    with pytest.raises(OperationalError, match="statement timeout"):
        run(engine, lambda db: db.execute(text("SELECT pg_sleep(60)")).all())
    assert run(engine, lambda db: fetch_rows(db, "SELECT 1", ())) == [(1,)]


def test_more_clients_than_connections_are_served(pooler_engine: Engine) -> None:
    def set_and_read(number: int) -> int:
        """Set a setting to the number in a transaction, and read it in the same transaction."""

        def work(db) -> int:
            defer(db, "SELECT set_config('loyalty.mine', %s, true)", (str(number),))
            fetch_rows(db, "SELECT pg_sleep(0.002)", ())
            [(setting,)] = fetch_rows(db, "SELECT current_setting('loyalty.mine')::int", ())
            return setting

        return transactions.run(pooler_engine, work)

    # Eight clients share the three connections of the pooler.
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(set_and_read, range(200))) == list(range(200))


def test_a_server_and_a_worker_work_through_pgbouncer(pooler_url: str, home: Path) -> None:
    variables = {"LOYALTY_DATABASE_URL": pooler_url}
    creation = invoke(home, "organizations", "create", "Pooled", "--json", **variables)
    assert creation.returncode == 0, creation.stderr
    organization = json.loads(creation.stdout)["organizationId"]
    token = invoke(home, "token", "--admin", "--organization", str(organization), **variables).stdout.strip()
    server = Server(home, "--workers", "1", "--no-worker", **variables)
    worker = subprocess.Popen([sys.executable, "-m", "handlers", "worker"], env=environment(home, **variables))
    try:
        server.wait_until_ready()
        with httpx.Client(base_url=f"{server.url}/v2", headers={"Authorization": f"Bearer {token}"}) as client:
            assert client.post("/members", json={"loyaltyMemberId": "ana"}).status_code == 201
            event = {"loyaltyMemberId": "ana", "eventType": "member-generic-event"}
            events = [{**event, "systemUniqueKey": f"visit-{number}"} for number in range(50)]
            reply = client.post("/events/track-async", json={"events": events})
            assert reply.status_code == 202, reply.text
            keys = [result["loyaltyEventKey"] for result in reply.json()["results"]]
            deadline = time.monotonic() + 120
            while client.get(f"/events/{keys[-1]}").json()["event"]["status"] in ("pending", "running"):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert {client.get(f"/events/{key}").json()["event"]["status"] for key in keys} == {"success"}
        verification = invoke(home, "verify", "--organization", str(organization), **variables)
        assert verification.returncode == 0, verification.stdout + verification.stderr
        assert server.stop() == 0
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.stdout.close()
