"""One organization sends the most expensive input that is accepted; the calls of another one are still served.

Times are printed and not asserted, since machines differ: compare them with the printed times of an idle server.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg2
import pytest

from persistence import embedded
from tests.builders.receivers import hang, receiver
from tests.builders.tracking import event
from tests.builders.triggers import SECRET
from tests.processes.besieged import HTTP_ALLOWED
from tests.processes.loyalty import Server, invoke

SECONDS = int(os.environ.get("NEIGHBOUR_SECONDS", "20"))
SLOW_RULE = "event.payload.numbers.all(n, event.payload.numbers.exists(m, m == n && m + n >= 0))"
SLOW_PATTERN = "(?:a|b)*a(?:a|b){150}c"
BODY_BYTES = 1_000_000
# More than a server has threads for.
ATTACKERS = 14


@dataclass
class Tenant:
    """A client with an administrator's token of an organization; counts the statuses of its responses."""

    url: str
    organization_id: str
    headers: dict[str, str]
    statuses: Counter[int] = field(default_factory=Counter)

    @classmethod
    def create(cls, server: Server, home: Path, name: str) -> Tenant:
        """Create an organization and a token by commands; return its client."""
        organization = json.loads(invoke(home, "organizations", "create", name, "--json").stdout)
        identity = str(organization["organizationId"])
        token = invoke(home, "token", "--organization", identity, "--admin").stdout.strip()
        return cls(f"{server.url}/v2", identity, {"Authorization": f"Bearer {token}"})

    @property
    def administration(self) -> str:
        return f"/organizations/{self.organization_id}"

    def call(self, method: str, path: str, body: Any = None, content: bytes | None = None) -> httpx.Response:
        """Send a request, which may have any status; `content` replaces the JSON of the body."""
        headers = {**self.headers, "Content-Type": "application/json"}
        response = httpx.request(method, self.url + path, json=body, content=content, headers=headers, timeout=120)
        self.statuses[response.status_code] += 1
        return response

    def make(self, path: str, body: Any) -> Any:
        """Create a record; returns the JSON of the response."""
        response = self.call("POST", path, body)
        assert response.is_success, response.text
        return response.json()

    def member(self) -> str:
        """A new member's loyaltyMemberId."""
        response = self.make("/members", {"loyaltyMemberId": str(uuid.uuid4())})
        return response["loyaltyMember"]["loyaltyMemberId"]

    def begin_import(self, content: bytes, kind: str = "members", file_format: str = "csv") -> str:
        """Upload a file and start its import; returns the path of the import."""
        body = {"kind": kind, "format": file_format, "mode": "upsert"}
        record = self.make(f"{self.administration}/imports", body)["import"]
        path = f"{self.administration}/imports/{record['importId']}"
        headers = {**self.headers, "Content-Type": "application/octet-stream"}
        httpx.put(f"{self.url}{path}/parts/1", content=content, headers=headers, timeout=120).raise_for_status()
        self.make(f"{path}/start", {"parts": 1})
        return path

    def seconds_of_worker(self, member: str) -> str:
        """A text with the seconds that the worker needs for a queued event, and then for an import of one row."""
        start = time.monotonic()
        [result] = self.make("/events/track-async", {"events": [event(member)]})["results"]
        while self.call("GET", f"/events/{result['loyaltyEventKey']}").json()["event"]["status"] != "success":
            time.sleep(0.05)
        event_seconds = time.monotonic() - start
        path = self.begin_import(f"loyaltyMemberId\n{member}\n".encode())
        while self.call("GET", path).json()["import"]["status"] != "done":
            time.sleep(0.05)
        import_seconds = time.monotonic() - start - event_seconds
        return f"a queued event {event_seconds:.1f} s, an import of one row {import_seconds:.1f} s"


@contextmanager
def locked_rows(home: Path, member: str) -> Iterator[None]:
    """Lock the rows of a member in another transaction during the block."""
    with embedded.server(home) as url, closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        lock = (
            "SELECT 1 FROM members m JOIN wallets w USING (organization_id, wallet_id) WHERE m.loyalty_member_id = %s"
        )
        cursor.execute(f"{lock} FOR UPDATE", (member,))
        assert cursor.rowcount == 1
        yield


def attacks(tenant: Tenant, hanging_url: str, locked_member: str) -> dict[str, Callable[[], httpx.Response]]:
    """Create the records for the most expensive calls of each kind; returns the calls by name.

    `hanging_url` is that of a receiver that never responds; calls about `locked_member` wait for a lock.
    """
    campaign = tenant.make(f"{tenant.administration}/campaigns", {"code": "slow", "name": "Slow"})["campaign"]
    actions = f"{tenant.administration}/campaigns/{campaign['campaignId']}/actions"
    effects = {"items": [{"effectId": "mint-points", "params": [{"id": "amount", "value": 1}]}]}
    for priority in range(1, 6):
        rules = {"expression": SLOW_RULE}
        tenant.make(actions, {"effects": effects, "rules": rules, "status": "running", "priority": priority})
    member = tenant.member()
    schema = {"properties": {"text": {"pattern": SLOW_PATTERN}}}
    collection = {"name": "Slow", "description": "", "jsonschema": schema, "facetFields": {"colour": {}}}
    slug = tenant.make("/content/collections", collection)["collection"]["slug"]
    documents = f"/content/collections/{slug}/documents"
    attrs = {"text": "ab" * 5_000 + "a" * 150 + "c", "colour": [f"colour {n}" for n in range(90)]}
    key = "7c1d2e3f-4a5b-4c6d-9e8f-0a1b2c3d4e%02x"
    payload = {"numbers": list(range(400))}

    def documents_batch() -> httpx.Response:
        items = [{"documentKey": key % n, "attrs": attrs, "status": "published"} for n in range(60)]
        return tenant.call("POST", f"{documents}/batch", {"documents": items})

    def events(**more: Any) -> httpx.Response:
        batch = [event(member, payload=payload) for _ in range(100)]
        return tenant.call("POST", "/events/track", {"events": batch, **more})

    for number in range(8):
        settings = {"url": f"{hanging_url}/{number}", "secret": SECRET, "eventTypes": ["member-created"]}
        body = {"triggerKey": f"slow-{number}", "type": "WebHook", "name": "Slow", "settings": settings}
        tenant.make(f"{tenant.administration}/triggers", body)
    empty_lines = gzip.compress(b"loyaltyMemberId\n" + b"\n" * 64 * 1024 * 1024)
    long_rows = b"loyaltyMemberId,city\n" + b"".join(b"m-%d,%s\n" % (n, b"x" * 900_000) for n in range(60))

    def import_file(content: bytes) -> httpx.Response:
        tenant.begin_import(content)
        time.sleep(0.5)
        return tenant.call("GET", f"{tenant.administration}/imports")

    faults = b'{"orders": [' + b"{}," * (BODY_BYTES // 3) + b"{}]}"
    wide_schema = {**collection, "jsonschema": {"allOf": [schema] * 4, "items": {"enum": list(range(5_000))}}}
    return {
        "events": events,
        "dry runs": lambda: events(dryRun=True),
        "queued events": lambda: tenant.call(
            "POST", "/events/track-async", {"events": [event(member, payload=payload) for _ in range(100)]}
        ),
        "documents": documents_batch,
        "schemas": lambda: tenant.call("POST", "/content/collections", wide_schema),
        "expressions": lambda: tenant.call(
            "POST",
            f"{tenant.administration}/expressions/parse",
            {"inputs": [{"expression": "1+" * 99 + "1", "isEffectExpression": False}] * 100},
        ),
        "batches of members": lambda: tenant.call(
            "POST", "/members/batch", {"members": [{"loyaltyMemberId": str(uuid.uuid4())} for _ in range(100)]}
        ),
        "imports of empty lines": lambda: import_file(empty_lines),
        "imports of long rows": lambda: import_file(gzip.compress(long_rows)),
        "webhooks that hang": lambda: tenant.call("POST", "/members", {"loyaltyMemberId": str(uuid.uuid4())}),
        "a locked member": lambda: tenant.call("POST", "/events/track", {"events": [event(locked_member)]}),
        "search": lambda: tenant.call("GET", f"{documents}?q=ab&sort=text:asc&limit=100"),
        "faults": lambda: tenant.call("POST", f"{tenant.administration}/purchase-orders/batch", content=faults),
        "exports": lambda: tenant.call("POST", f"{tenant.administration}/exports", {"kind": "events"}),
    }


def read_member(tenant: Tenant, member: str, is_done: Callable[[int], bool]) -> list[float]:
    """The seconds of each call of a client that reads a member until `is_done`, which gets the number of calls."""
    seconds: list[float] = []
    with httpx.Client(base_url=tenant.url, headers=tenant.headers, timeout=120) as client:
        while not is_done(len(seconds)):
            start = time.perf_counter()
            tenant.statuses[client.get(f"/members/{member}").status_code] += 1
            seconds.append(time.perf_counter() - start)
            time.sleep(0.02)
    return seconds


def percentile(seconds: list[float]) -> float:
    """The 99th percentile in milliseconds."""
    return statistics.quantiles(seconds, n=100)[98] * 1000


def memory(server: Server) -> str:
    """The resident memory of each process of the server in MiB, separated by commas."""
    process_list = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, row.split())) for row in process_list.splitlines()[1:]]
    family = {server.process.pid}
    family |= {pid for pid, parent, _ in rows if parent in family}
    return ", ".join(str(kib // 1024) for pid, _, kib in rows if pid in family)


@pytest.fixture
def server(home: Path) -> Iterator[Server]:
    server = Server(home, "--workers", "2", **HTTP_ALLOWED)
    server.greeting()
    yield server
    assert server.stop() == 0


def siege(server: Server, home: Path, seconds: float, capsys: pytest.CaptureFixture[str], hanging_url: str) -> None:
    """Let one organization read a member while another one attacks: first in each way, and then in all ways at once."""
    attacker, neighbour = Tenant.create(server, home, "Loud"), Tenant.create(server, home, "Quiet")
    member, locked_member = neighbour.member(), attacker.member()
    calls_by_attack = attacks(attacker, hanging_url, locked_member)
    processes = server.workers()
    times_without_attacks = read_member(neighbour, member, lambda count: count >= 200)
    worker = neighbour.seconds_of_worker(member)
    lines = [f"without attacks: p99 {percentile(times_without_attacks):.0f} ms; {worker}; memory {memory(server)} MiB"]
    each_alone = [(name, [call]) for name, call in calls_by_attack.items()]
    for name, calls in [*each_alone, ("all at once", list(calls_by_attack.values()))]:
        end, attacker.statuses = time.monotonic() + seconds, Counter()

        def attack(position: int, calls: Any = calls, end: float = end) -> None:
            while time.monotonic() < end:
                calls[position % len(calls)]()

        with locked_rows(home, locked_member), ThreadPoolExecutor(ATTACKERS + 1) as pool:
            work = [pool.submit(attack, position) for position in range(ATTACKERS)]
            worker_seconds = pool.submit(neighbour.seconds_of_worker, member)
            times = read_member(neighbour, member, lambda count, end=end: time.monotonic() > end and count >= 20)
            for future in work:
                future.result()
            worker = worker_seconds.result()
        assert attacker.statuses.keys() <= {200, 201, 202, 400, 409, 429, 503}, name
        statuses = dict(attacker.statuses)
        lines.append(
            f"{name}: p99 {percentile(times):.0f} ms, most {max(times) * 1000:.0f} ms, of {len(times)} calls; "
            f"{worker}; memory {memory(server)} MiB; responses to the attacker {statuses}"
        )
        with capsys.disabled():
            # The line without attacks is printed together with that of the first attack.
            print("", *(lines if len(lines) == 2 else lines[-1:]), sep="\n", flush=True)
    assert neighbour.statuses.keys() <= {200, 201, 202}
    assert server.workers() == processes


def test_large_bodies_of_many_clients_need_the_memory_of_one_body(server, home):
    attacker = Tenant.create(server, home, "Loud")
    body = b'{"orders": [' + b"{}," * (BODY_BYTES // 3) + b"{}]}"

    def send_body(_: int) -> int:
        """The status of the response to a body with very many faults."""
        return attacker.call("POST", f"{attacker.administration}/purchase-orders/batch", content=body).status_code

    with ThreadPoolExecutor(ATTACKERS) as pool:
        assert set(pool.map(send_body, range(4 * ATTACKERS))) == {400}
    # A process has 150 MiB before, and needs up to 140 MiB for one body and what its thread keeps.
    mebibytes = [int(text) for text in memory(server).split(", ")]
    assert max(mebibytes) < 500


@pytest.mark.stress
def test_the_calls_of_other_organizations_are_served_during_attacks(server, home, capsys):
    with receiver() as receiving:
        receiving.usual_response = hang
        siege(server, home, SECONDS, capsys, receiving.url)
