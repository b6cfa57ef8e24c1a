"""Upgrades: the database of the first release is migrated, and older versions work on the newest schema.

The oldest version that can use this schema runs on it, also next to this version. Versions are read from git; the
variable UPGRADE_FROM can name another commit.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from handlers.settings import Settings
from persistence import embedded, schema
from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, event, running
from tests.processes.fleet import WAITING, Workers, fetch_value, wait_until
from tests.processes.loyalty import ROOT, Server, loyalty

pytestmark = pytest.mark.upgrade

MEMBERS, TRACKED_PURCHASES, QUEUED_PURCHASES = 10, 60, 200
VERSIONS = "persistence/migrations/versions"


def git(*arguments: str) -> bytes:
    """The output of a git command; skips the test if it fails, as without a history."""
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    if result.returncode:
        pytest.skip(f"git {arguments[0]}: {result.stderr.decode().strip()}")
    return result.stdout


def commit_of(revision: str) -> str:
    """The last commit that changed a migration."""
    return git("log", "--format=%H", "-1", "--", f"{VERSIONS}/{revision}_*").decode().strip()


def unpack(commit: str, folder: Path) -> Path:
    """Write the files of a commit into the folder; returns it."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the first release."""
    return unpack(commit_of(schema._revisions()[0]), tmp_path_factory.mktemp("first-release"))


@pytest.fixture(scope="module")
def older_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the oldest version that can use this schema."""
    commit = os.environ.get("UPGRADE_FROM") or commit_of(schema.usable_since())
    return unpack(commit, tmp_path_factory.mktemp("older"))


def test_a_database_of_the_first_release_is_migrated(new_home: Path, first_release: Path) -> None:
    def output_of(root: Path, *arguments: str) -> str:
        """The output of a command that the code in `root` runs."""
        result = loyalty(new_home, *arguments, PYTHONPATH=str(root))
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def lots(root: Path) -> list[dict[str, Any]]:
        """The exported lots, without the rows that have only qualifying points, which old versions do not export."""
        rows = map(json.loads, output_of(root, "export", "balances", "--organization", "Corner Coffee").splitlines())
        return [row for row in rows if row["amount"]]

    with embedded.server(new_home):
        assert output_of(first_release, "migrate").startswith("Applied: 1000")
        output_of(first_release, "organizations", "create", "Corner Coffee", "--environment", "test")
        output_of(first_release, "sample", "coffee-shop", "--organization", "Corner Coffee")
        lots_before = lots(first_release)
        output_of(ROOT, "migrate")
        output_of(ROOT, "doctor")
        output_of(ROOT, "verify")
        lots_after = lots(ROOT)
        assert len(lots_after) == len(lots_before) > 1
        # Newer versions may export further fields.
        for old_lot, new_lot in zip(lots_before, lots_after, strict=True):
            assert old_lot.items() <= new_lot.items()
        token = output_of(ROOT, "token", "--admin", "--organization", "1").strip()
        server = Server(new_home)
        try:
            server.wait_until_ready()
            balance = balance_of(server.url, token, "ana")
            call_server(server.url, token, "POST", "/events/track", {"events": [purchase("ana")]})
            assert balance_of(server.url, token, "ana") > balance
        finally:
            server.stop()
        output_of(ROOT, "verify")


def call_server(url: str, token: str, method: str, path: str, body: Any = None) -> Any:
    """The JSON of a response of the integration interface."""
    headers = {"Authorization": f"Bearer {token}"}
    reply = httpx.request(method, f"{url}/v2{path}", json=body, headers=headers, timeout=60)
    assert reply.status_code < 300, reply.text
    return reply.json()


def balance_of(url: str, token: str, member: str) -> float:
    """The sum of a member's balances in all accounts."""
    record = call_server(url, token, "GET", f"/members/{member}")["loyaltyMember"]
    return sum(balance["balance"] for balance in record["ledgerBalances"])


def failures_of(older_version: Path, *arguments: str) -> set[str]:
    """Run tests of the older version with its own code and these arguments of pytest; returns ids of failed tests."""
    path = os.pathsep.join((str(older_version), str(ROOT / "tests" / "processes" / "older")))
    base_variables = {name: value for name, value in os.environ.items() if not name.startswith(("LOYALTY_", "PYTEST_"))}
    report = older_version / "report.xml"
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadfile", f"--junit-xml={report}", *arguments],
        cwd=older_version,
        env={**base_variables, "PYTHONPATH": path, "NEWER_VERSION": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode in (0, 1), result.stdout[-10_000:] + result.stderr[-3_000:]
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }


def test_the_tests_of_the_older_version_pass_on_this_schema(older_version: Path) -> None:
    """Its own tests, by its own code, on databases that this version has migrated.

    Tests that fail on its own schema as well are left out: they need other packages, or were not yet adapted.
    """
    failures = failures_of(older_version, "-p", "newer_schema", "tests/http", "tests/services")
    if failures:
        failures -= failures_of(older_version, "--last-failed", "tests/http", "tests/services")
    assert failures == set()


@pytest.fixture
def shop(home: Path) -> Iterator[Shop]:
    """An organization with 1 point for each order, on a server of this version."""
    with embedded.server(home) as url, running_api(Settings(database_url=url, home=home)) as api:
        shop = Shop(api.organization())
        shop.campaign(running(mint(1)), eventType="member-purchase-order-created")
        yield shop


def purchase(member: str) -> dict[str, Any]:
    """The event of a new purchase of a member."""
    purchase_event = event(member, "member-purchase-order-created")
    order = {"externalId": purchase_event["systemUniqueKey"], "total": 10}
    return {**purchase_event, "payload": {"order": order}}


def test_both_versions_work_side_by_side(home: Path, older_version: Path, shop: Shop) -> None:
    """Each version recognizes the requests of the other, and evaluates the events that the other has queued."""
    url = shop.engine.url.render_as_string(hide_password=False)
    variables = {"PYTHONPATH": str(older_version), "LOYALTY_DATABASE_URL": url}
    server = Server(home, "--no-worker", **variables)
    workers = [Workers(home, 1, **{**variables, "PYTHONPATH": str(root)}) for root in (older_version, ROOT)]
    try:
        server.wait_until_ready()

        def call_older(path: str, body: Any) -> Any:
            return call_server(server.url, shop.organization.token, "POST", path, body)

        def call_newer(path: str, body: Any) -> Any:
            reply = shop.integration.request("POST", path, body)
            assert reply.status < 300, reply.text
            return reply.json

        versions = (call_older, call_newer)
        names = [f"member-{number}" for number in range(MEMBERS)]
        for number, name in enumerate(names):
            versions[number % 2]("/members", {"loyaltyMemberId": name})
        for number in range(TRACKED_PURCHASES):
            body = {"events": [purchase(names[number % MEMBERS])]}
            # Each member purchases at the two versions in turn, and repeats the request at the other one.
            version = number // MEMBERS % 2
            first_results = versions[version]("/events/track", body)["results"]
            repeated_results = versions[1 - version]("/events/track", body)["results"]
            assert repeated_results == first_results
        for _ in range(QUEUED_PURCHASES // MEMBERS):
            purchases = [purchase(name) for name in names]
            for call in versions:
                call("/events/track-async", {"events": purchases})
        wait_until(lambda: fetch_value(shop.engine, WAITING) == 0)
        # A point for each purchase, although each was sent to both versions.
        assert {shop.balance(name) for name in names} == {(TRACKED_PURCHASES + QUEUED_PURCHASES) // MEMBERS}
    finally:
        server.stop()
        for fleet in workers:
            fleet.stop()
            fleet.kill()
    for root in (older_version, ROOT):
        result = loyalty(home, "verify", **{**variables, "PYTHONPATH": str(root)})
        assert result.returncode == 0, result.stdout + result.stderr
