"""One organization sends the most expensive input that is accepted; the calls of another one are answered all the same.

Times are printed and not asserted, since machines differ: they are compared with the same calls on a quiet server.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders.tracking import event
from tests.processes.loyalty import Server, loyalty

SECONDS = int(os.environ.get("NEIGHBOUR_SECONDS", "20"))
SLOW_RULE = "event.payload.numbers.all(n, event.payload.numbers.exists(m, m == n && m + n >= 0))"
SLOW_PATTERN = "(?:a|b)*a(?:a|b){150}c"
BODY_BYTES = 1_000_000


@dataclass
class Tenant:
    """An organization, as a client with a token of its administrator."""

    url: str
    organization_id: str
    headers: dict[str, str]
    statuses: Counter[int] = field(default_factory=Counter)

    @classmethod
    def create(cls, server: Server, home: Path, name: str) -> Tenant:
        made = json.loads(loyalty(home, "organizations", "create", name, "--json").stdout)
        identity = str(made["organizationId"])
        token = loyalty(home, "token", "--organization", identity, "--admin").stdout.strip()
        return cls(f"{server.url}/v2", identity, {"Authorization": f"Bearer {token}"})

    @property
    def administration(self) -> str:
        return f"/organizations/{self.organization_id}"

    def call(self, method: str, path: str, body: Any = None, content: bytes | None = None) -> httpx.Response:
        headers = {**self.headers, "Content-Type": "application/json"}
        answer = httpx.request(method, self.url + path, json=body, content=content, headers=headers, timeout=120)
        self.statuses[answer.status_code] += 1
        return answer

    def make(self, path: str, body: Any) -> Any:
        answer = self.call("POST", path, body)
        assert answer.is_success, answer.text
        return answer.json()

    def member(self) -> str:
        made = self.make("/members", {"loyaltyMemberId": str(uuid.uuid4())})
        return made["loyaltyMember"]["loyaltyMemberId"]


def attacks(tenant: Tenant) -> dict[str, Callable[[], httpx.Response]]:
    """The most expensive calls of each kind, by name; what they need is made."""
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
        "search": lambda: tenant.call("GET", f"{documents}?q=ab&sort=text:asc&limit=100"),
        "faults": lambda: tenant.call("POST", f"{tenant.administration}/purchase-orders/batch", content=faults),
        "exports": lambda: tenant.call("POST", f"{tenant.administration}/exports", {"kind": "events"}),
    }


def read_member(tenant: Tenant, member: str, is_done: Callable[[int], bool]) -> list[float]:
    """The seconds that each of a client's calls takes, one after the other."""
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
    """The resident memory of the server's processes in MiB."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, row.split())) for row in listed.splitlines()[1:]]
    family = {server.process.pid}
    family |= {pid for pid, parent, _ in rows if parent in family}
    return ", ".join(str(kib // 1024) for pid, _, kib in rows if pid in family)


@pytest.fixture
def server(home: Path) -> Iterator[Server]:
    running = Server(home, "--workers", "2")
    running.greeting()
    yield running
    assert running.stop() == 0


def siege(server: Server, home: Path, seconds: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Have a neighbour read a member while the other organization attacks in each way, and all at once."""
    loud, quiet = Tenant.create(server, home, "Loud"), Tenant.create(server, home, "Quiet")
    member, ways = quiet.member(), attacks(loud)
    processes = server.workers()
    before = read_member(quiet, member, lambda count: count >= 200)
    lines = [f"quiet: p99 {percentile(before):.0f} ms; memory {memory(server)} MiB"]
    for name, calls in [*((name, [call]) for name, call in ways.items()), ("all at once", list(ways.values()))]:
        end, loud.statuses = time.monotonic() + seconds, Counter()

        def attack(position: int, calls: Any = calls, end: float = end) -> None:
            while time.monotonic() < end:
                calls[position % len(calls)]()

        with ThreadPoolExecutor(12) as attackers:
            work = [attackers.submit(attack, position) for position in range(12)]
            times = read_member(quiet, member, lambda count, end=end: time.monotonic() > end and count >= 20)
            for done in work:
                done.result()
        assert loud.statuses.keys() <= {200, 201, 202, 400, 409, 429, 503}, name
        shown = dict(loud.statuses)
        lines.append(
            f"{name}: p99 {percentile(times):.0f} ms, most {max(times) * 1000:.0f} ms, of {len(times)} calls; "
            f"memory {memory(server)} MiB; answers to the other {shown}"
        )
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert quiet.statuses.keys() == {200, 201}
    assert server.workers() == processes


@pytest.mark.stress
def test_the_calls_of_a_neighbour_are_answered(server, home, capsys):
    siege(server, home, SECONDS, capsys)
