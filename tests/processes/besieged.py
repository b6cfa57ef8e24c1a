"""A running installation whose server, workers, database and receiver of webhooks are killed and replaced."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from sqlalchemy import text

from handlers.services.webhooks.send_deliveries import LEASE
from persistence import embedded
from persistence.engine import create_engine
from tests.processes.fleet import Workers, children_of, disposed, fetch_value, kill_database, patiently, wait_until
from tests.processes.loyalty import ROOT, Server, curl_line, environment, free_port
from tests.processes.moody_receiver import SECRETS
from tests.processes.plain_model import CAMPAIGNS, POISON

CLIENTS = 2
HTTP_ALLOWED = {
    "LOYALTY_WEBHOOK_ALLOW_HTTP": "true",
    "LOYALTY_WEBHOOK_ALLOW_PRIVATE": "true",
    "LOYALTY_WEBHOOK_PORTS": "any",
}
# The type of the trigger whose messages arrive at each path of the receiver.
TRIGGER_TYPES = {"/results": "AsyncTrackWebhook", "/events": "WebHook"}
HAS_QUEUED_EVENTS = "SELECT EXISTS (SELECT 1 FROM queued_events WHERE dead_at IS NULL)"
HAS_PENDING_MESSAGES = "SELECT EXISTS (SELECT 1 FROM trigger_deliveries WHERE status = 'pending')"

# A database error at every attempt to evaluate certain orders.
POISONING = f"""
CREATE FUNCTION poisoned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE division_by_zero; END $$;
CREATE TRIGGER poisoned BEFORE INSERT ON purchase_orders FOR EACH ROW
    WHEN (new.external_id LIKE '{POISON}%') EXECUTE FUNCTION poisoned();
"""
CURE = "DROP FUNCTION poisoned CASCADE"

# Replaces the hours of the published schedule: makes failed messages due, and the messages that a killed sender has
# claimed: their attempts began more than 16 seconds ago, and no attempt lasts longer than 15.
MAKE_MESSAGES_DUE = f"""
UPDATE trigger_deliveries SET next_attempt_at = now()
WHERE organization_id = 1 AND status = 'pending' AND next_attempt_at > now()
    AND (last_attempt_at < now() - interval '16 seconds'
        OR next_attempt_at <> last_attempt_at + interval '{LEASE.total_seconds()} seconds')
"""


class LoggedRequest(NamedTuple):
    """A request as the receiver logs it; `status` is that of the event."""

    message_id: str
    path: str
    verdict: str
    mood: str
    event_key: str
    status: str


@dataclass
class Receiver:
    """The receiver of webhooks, which runs in its own process, and the requests that it has logged."""

    log: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None
    _starts: int = 0
    _read: int = 0
    _received: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start the receiver, for the first time or again, and wait until it is ready."""
        self._starts += 1
        command = [sys.executable, "-m", "tests.processes.moody_receiver", str(self.port), str(self.log)]
        variables = environment(self.log.parent)
        self.process = subprocess.Popen(
            [*command, str(self._starts)], env=variables, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """Kill the receiver if it has been started."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    @property
    def request_count(self) -> int:
        """The number of requests that the receiver has logged."""
        with self._counting, self.log.open("rb") as log:
            log.seek(self._read)
            new_lines = log.read()
            self._read += len(new_lines)
            self._received += new_lines.count(b"\n")
            return self._received

    def requests(self) -> list[LoggedRequest]:
        """All requests so far, in order."""
        return [LoggedRequest(*line.split()) for line in self.log.read_text().splitlines()]


class Api:
    """The HTTP API of a running server, with retries until the server responds."""

    def __init__(self, server: Server) -> None:
        _, self._headers = curl_line(server.greeting())
        self._url = f"{server.url}/v2"
        self.retries = 0

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the response; a call without a response, or with 503, is retried."""
        deadline = time.monotonic() + 120
        while True:
            assert time.monotonic() < deadline
            try:
                # Without `verify=False` each call loads the certificates of the system, which takes longer than a call.
                response = httpx.request(
                    method, self._url + path, json=body, headers=self._headers, timeout=60, verify=False
                )
            except httpx.TransportError:
                response = None
            if response is not None and response.status_code != 503:
                return response.raise_for_status().json()
            self.retries += 1
            time.sleep(0.2)


class World:
    """All processes of the installation, and how many of each kind were killed.

    `killed_in_time` counts only kills while events were queued.
    """

    def __init__(self, home: Path, options: Mapping[str, str], stack: ExitStack) -> None:
        self.home, self._options, self._stack = home, options, stack
        self.killed: Counter[str] = Counter()
        self.killed_in_time: Counter[str] = Counter()
        self.evaluated_at = 0.0
        self.engine = stack.enter_context(disposed(create_engine(self._database(), threads=2)))
        self.server = Server(home, "--workers", "2", "--no-worker", **HTTP_ALLOWED)
        stack.callback(self._end_server)
        self.api = Api(self.server)
        self.receiver = Receiver(home.parent / "received.log")
        self.receiver.start()
        stack.callback(self.receiver.kill)
        self.workers: Workers | None = None

    def _database(self) -> str:
        return self._stack.enter_context(embedded.server(self.home, options=self._options))

    def _end_server(self) -> None:
        if self.server.process.poll() is None:
            os.killpg(self.server.process.pid, signal.SIGKILL)
        self.server.process.wait()
        self.server.process.stdout.close()

    def set_up(self, members: int) -> list[str]:
        """Create members, the campaigns and the triggers; returns the ids of the members."""
        names = [f"member-{number}" for number in range(members)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda name: self.api.call("POST", "/members", {"loyaltyMemberId": name}), names))
        for body, rule, effect in CAMPAIGNS:
            campaign = self.api.call("POST", "/organizations/1/campaigns", {"name": body["code"], **body})["campaign"]
            action = {
                "status": "running",
                "priority": 1,
                "rules": {"expression": rule} if rule else {},
                "effects": {"items": [effect]},
            }
            self.api.call("POST", f"/organizations/1/campaigns/{campaign['campaignId']}/actions", action)
        for path, type_ in TRIGGER_TYPES.items():
            settings = {"url": f"http://127.0.0.1:{self.receiver.port}{path}", "secret": SECRETS[path]}
            body = {"triggerKey": path[1:], "type": type_, "name": path, "settings": settings}
            self.api.call("POST", "/organizations/1/triggers", body)
        self.write(POISONING)
        return names

    def start_workers(self, count: int) -> None:
        """Start workers, which make an event a dead letter after three attempts."""
        self.workers = Workers(
            self.home, count, LOYALTY_QUEUE_ATTEMPTS="3", LOYALTY_WEBHOOK_THREADS="64", **HTTP_ALLOWED
        )
        self._stack.callback(self.workers.kill)

    def kill(self, what: str, pick: random.Random) -> None:
        """Kill a worker, a process of the server, the receiver or the database, which is replaced."""
        self.killed[what] += 1
        self.killed_in_time[what] += fetch_value(self.engine, HAS_QUEUED_EVENTS)
        if what == "worker":
            self.workers.kill_one(pick)
        elif what == "server":
            os.kill(pick.choice(sorted(self.server.workers() & children_of(self.server.process.pid))), signal.SIGKILL)
        elif what == "receiver":
            self.receiver.kill()
            time.sleep(pick.random())
            self.receiver.start()
        else:
            kill_database(self.home)
            self._database()

    def write(self, statement: str) -> None:
        """Execute a statement in a transaction, with retries while the database is unavailable."""

        def work() -> None:
            with self.engine.begin() as db:
                db.execute(text(statement))

        patiently(work)

    def drain(self) -> None:
        """Wait until no event is waiting, except dead letters, and no message is pending."""
        wait_until(lambda: not fetch_value(self.engine, HAS_QUEUED_EVENTS), 1800)
        self.evaluated_at = self.evaluated_at or time.monotonic()
        wait_until(self._all_messages_are_sent, 1800)

    def _all_messages_are_sent(self) -> bool:
        self.write(MAKE_MESSAGES_DUE)
        time.sleep(0.5)
        return not fetch_value(self.engine, HAS_PENDING_MESSAGES)


@contextmanager
def messages_due_early(world: World) -> Iterator[None]:
    """Make the messages due every 5 seconds during the block."""
    block_has_ended = threading.Event()

    def repeat() -> None:
        while not block_has_ended.wait(5):
            world.write(MAKE_MESSAGES_DUE)

    with ThreadPoolExecutor(1) as pool:
        repeating = pool.submit(repeat)
        try:
            yield
        finally:
            block_has_ended.set()
        repeating.result()
