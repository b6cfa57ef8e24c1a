"""`loyalty replay` against a running server, with the first purchases of the real file."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from decimal import Decimal

import pytest
from sqlalchemy import text

from bench.demo import purchases_file
from persistence import embedded
from persistence.engine import create_engine
from tests.processes.loyalty import Server, environment, free_port, invoke

HEADINGS = "customer_id date number_of_cds dollar_value"
LINE_COUNT = 1000


class Site:
    """A server with its home; each test replays its own files into organizations that are named after them."""

    def __init__(self, home):
        self.home = home
        self.server = Server(home, "--workers", "1", LOYALTY_LOG_LEVEL="error")
        self.server.greeting()
        self.variables = {"LOYALTY_PORT": str(self.server.port)}

    def file(self, name, lines):
        """Write a file of purchases with the headings and these lines; return its path."""
        path = self.home.parent / name
        path.write_text("\n".join([HEADINGS, *lines]) + "\n")
        return path

    def replay(self, path, *arguments):
        """Run the command on a file; return the completed command."""
        return invoke(self.home, "replay", str(path), *arguments, **self.variables)


@pytest.fixture(scope="module")
def site(shared_home):
    """A running server."""
    with embedded.server(shared_home, options={"fsync": "off"}):
        site = Site(shared_home)
        yield site
        assert site.server.stop() == 0


@pytest.fixture(scope="module")
def lines():
    """The first 1,000 purchases of the real file."""
    return purchases_file().read_text().splitlines()[1 : LINE_COUNT + 1]


def summary(result):
    """The figures of the printed summary by heading."""
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines() if "  " in line)


def points_of(lines):
    """The expected points by customer: 1 for each whole dollar of a purchase."""
    points = Counter()
    for line in lines:
        customer, _, _, total = line.split()
        points[customer] += int(Decimal(total))
    return points


def test_replaying_a_file_twice_mints_its_points_once(site, lines):
    path = site.file("some purchases.txt", lines)
    points = points_of(lines)
    top_member, top_points = points.most_common(1)[0]

    first_run = site.replay(path)
    assert first_run.returncode == 0, first_run.stderr
    report = summary(first_run)
    assert report["Organization"] == "some purchases"
    assert report["Orders"] == "1,000: 1,000 new, 0 repeated, 0 failed"
    assert report["Members"] == f"{len(points)}: {len(points)} new"
    assert report["Points minted"] == f"{points.total():,} in all, {points.total():,} by this run"
    assert report["Top member"] == f"{top_member} with {top_points:,} points"
    assert "Nothing changed" not in first_run.stdout

    repetition = site.replay(path)
    assert repetition.returncode == 0, repetition.stderr
    report = summary(repetition)
    assert report["Orders"] == "1,000: 0 new, 1,000 repeated, 0 failed"
    assert report["Members"] == f"{len(points)}: 0 new"
    assert report["Points minted"] == f"{points.total():,} in all, 0 by this run"
    assert report["Top member"] == f"{top_member} with {top_points:,} points"
    assert "Nothing changed" in repetition.stdout
    assert invoke(site.home, "verify").returncode == 0


def test_replaying_a_longer_file_adds_the_further_orders(site, lines):
    path = site.file("growing.txt", lines[:450])
    assert summary(site.replay(path))["Orders"].startswith("450: 450 new")
    report = summary(site.replay(site.file("growing.txt", lines[:600])))
    assert report["Orders"] == "600: 150 new, 450 repeated, 0 failed"
    assert report["Points minted"].startswith(f"{points_of(lines[:600]).total():,} in all")


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGKILL], ids=lambda stop_signal: stop_signal.name)
def test_an_interrupted_replay_is_completed_by_the_next_one(site, lines, stop_signal):
    path = site.file(f"interrupted by {stop_signal.name}.txt", lines)
    process = subprocess.Popen(
        [sys.executable, "-m", "handlers", "replay", str(path)],
        env=environment(site.home, **site.variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # Tests in the background of a shell ignore Ctrl-C, and so do the processes that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    _wait_until_some_are_tracked(site, path.stem)
    process.send_signal(stop_signal)
    error_output = process.communicate(timeout=60)[1].decode()
    assert process.returncode != 0
    assert "Traceback" not in error_output

    result = site.replay(path)
    assert result.returncode == 0, result.stderr
    report = summary(result)
    counts = re.fullmatch(r"1,000: (\d+) new, (\d+) repeated, 0 failed", report["Orders"])
    new_orders, repeated_orders = map(int, counts.groups())
    assert new_orders > 0
    assert repeated_orders > 0
    assert new_orders + repeated_orders == LINE_COUNT
    assert report["Points minted"].startswith(f"{points_of(lines).total():,} in all")


def test_a_line_that_was_changed_after_its_replay_is_reported_as_failed(site, lines):
    # The first purchase has another total.
    original_lines, changed_lines = lines[:20], ["00001 19970101 1 99.00", *lines[1:20]]
    assert site.replay(site.file("changed.txt", original_lines)).returncode == 0
    repetition = site.replay(site.file("changed.txt", changed_lines))
    assert repetition.returncode == 1
    report = summary(repetition)
    assert report["Orders"] == "20: 0 new, 19 repeated, 1 failed"
    # The headings are line 1.
    assert report["Failed"].startswith("line 2: ")
    assert report["Points minted"] == f"{points_of(original_lines).total():,} in all, 0 by this run"


def test_a_replay_by_organization_id_and_token_needs_no_database(site, lines):
    organization = json.loads(invoke(site.home, "organizations", "create", "Elsewhere", "--json").stdout)
    organization_id = str(organization["organizationId"])
    token = invoke(site.home, "token", "--organization", organization_id, "--admin").stdout.strip()
    path = site.file("elsewhere.txt", lines[:50])
    no_database = {"LOYALTY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    arguments = ["--organization", organization_id, "--token", token, "--base-url", f"{site.server.url}/v2"]
    result = invoke(site.home, "replay", str(path), *arguments, **no_database)
    assert result.returncode == 0, result.stderr
    assert summary(result)["Organization"] == "Elsewhere"
    assert summary(result)["Orders"].startswith("50: 50 new")
    repetition = json.loads(invoke(site.home, "replay", str(path), *arguments, "--json", **no_database).stdout)
    assert (repetition["organization"], repetition["orders"], repetition["tracked"]) == ("Elsewhere", 50, 0)


def test_a_token_that_is_not_accepted_is_reported(site, lines):
    path = site.file("refused.txt", lines[:5])
    result = site.replay(path, "--organization", "1", "--token", "nonsense")
    assert result.returncode == 1
    assert "returned 401" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_token_requires_an_organization_and_vice_versa(site, lines):
    result = site.replay(site.file("alone.txt", lines[:5]), "--token", "x")
    assert result.returncode == 2
    assert "give both --organization and --token, or neither" in result.stderr


def test_an_unreachable_server_is_reported_in_one_line(site, lines):
    path = site.file("unreachable.txt", lines[:5])
    result = invoke(site.home, "replay", str(path), "--base-url", f"http://127.0.0.1:{free_port()}/v2")
    assert result.returncode == 1
    assert result.stderr.startswith("Error: no server responds at http://127.0.0.1:")
    assert result.stderr.count("\n") == 1


@pytest.mark.stress
def test_the_whole_file_is_replayed_once(site):
    result = site.replay(purchases_file())
    report = summary(result)
    assert report["Orders"] == "69,659: 69,659 new, 0 repeated, 0 failed"
    assert report["Members"] == "23,570: 23,570 new"
    assert report["Points minted"] == "2,453,159 in all, 2,453,159 by this run"
    assert report["Top member"] == "07592 with 13,860 points"
    assert "Nothing changed" in site.replay(purchases_file()).stdout
    assert invoke(site.home, "verify").returncode == 0


def _wait_until_some_are_tracked(site, name):
    """Wait until the organization of a replay has some events."""
    query = (
        "SELECT count(*) FROM events JOIN organizations USING (organization_id)"
        " WHERE name = :name AND event_type = 'member-purchase-order-created'"
    )
    with embedded.server(site.home) as url:
        engine = create_engine(url, threads=1)
        deadline = time.monotonic() + 60
        while True:
            with engine.begin() as db:
                if db.execute(text(query), {"name": name}).scalar_one():
                    break
            assert time.monotonic() < deadline
            time.sleep(0.005)
        engine.dispose()
