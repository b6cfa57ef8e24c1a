"""Lists and reports read a standby of PostgreSQL if it has all commits, and else the primary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import Engine, text

from handlers.http import dispatch
from handlers.settings import Settings
from persistence import embedded, replication
from persistence.engine import autocommit, create_engine
from tests.builders.api import Api, running_api
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, order, running
from tests.processes.fleet import disposed, kill_database, silent_database, wait_until
from tests.processes.loyalty import invoke, wait_until_stopped
from tests.processes.standby import PRIMARY, standby_of


@dataclass(frozen=True)
class Replicated(Shop):
    """An organization on a server that has a standby; `options` are the settings to start the standby again."""

    standby_home: Path
    options: Mapping[str, str]


@dataclass(frozen=True)
class Servers:
    """A primary and its standby."""

    settings: Settings
    standby_home: Path
    options: Mapping[str, str]

    def shop(self, api: Api) -> Replicated:
        """A new organization with 1 point for each order."""
        shop = Replicated(api.organization(), self.standby_home, self.options)
        shop.campaign(running(mint(1)), eventType="member-purchase-order-created")
        return shop


@pytest.fixture(scope="module")
def servers(shared_home: Path) -> Iterator[Servers]:
    """A primary and its standby; commits wait for the disk."""
    standby_home, options = standby_of(shared_home)
    with (
        embedded.server(shared_home, options={**PRIMARY, "synchronous_commit": "on"}) as url,
        embedded.server(standby_home, options=options) as read_url,
    ):
        yield Servers(Settings(database_url=url, read_database_url=read_url, home=shared_home), standby_home, options)


@pytest.fixture(scope="module")
def api(servers: Servers) -> Iterator[Api]:
    """The API on the primary, whose lists and reports read the standby."""
    with running_api(servers.settings) as api:
        yield api


@pytest.fixture
def shop(servers: Servers, api: Api) -> Replicated:
    """A new organization without members, with 1 point for each order."""
    return servers.shop(api)


@pytest.fixture
def shop_without_waiting(servers: Servers) -> Iterator[Replicated]:
    """A shop whose commits do not wait for the disk."""
    with disposed(create_engine(servers.settings.database_url, threads=1)) as primary:
        execute(primary, "ALTER DATABASE loyalty SET synchronous_commit = 'off'")
        try:
            with running_api(servers.settings) as api:
                with api.engine.connect() as db:
                    assert db.execute(text("SHOW synchronous_commit")).scalar_one() == "off"
                yield servers.shop(api)
        finally:
            execute(primary, "ALTER DATABASE loyalty RESET synchronous_commit")


@pytest.fixture
def standby(shop: Shop) -> Iterator[Engine]:
    """An engine on the standby."""
    with disposed(create_engine(shop.organization.api.settings.read_database_url, threads=1)) as engine:
        yield engine


def execute(engine: Engine, statement: str) -> None:
    """Execute a statement outside of a transaction."""
    with autocommit(engine).connect() as db:
        db.execute(text(statement))


def count_reads(database: str) -> float:
    """How many reads for the replica were served by the database "replica" or "primary"."""
    return REGISTRY.get_sample_value("loyalty_replica_reads_total", {"database": database}) or 0.0


def count_members(shop: Shop) -> int:
    """The number of members in the list, which is a read for the replica."""
    return len(shop.integration.get("/members")["results"])


def check_that_lists_contain_new_records(shop: Shop) -> None:
    """Create 15 members with an order each; check after each of them that lists contain the member and the order."""
    for number in range(1, 16):
        member = shop.member()
        assert count_members(shop) == number
        shop.track_one(order(member, 10))
        assert [record["eventType"] for record in shop.events(member)] == ["member-purchase-order-created"]


def test_lists_contain_records_that_were_just_written(shop: Replicated, standby: Engine) -> None:
    reads_before = count_reads("replica")
    check_that_lists_contain_new_records(shop)
    assert count_reads("replica") > reads_before
    with standby.connect() as db:
        assert replication.lag(db) >= 0


def test_lists_contain_records_whose_commit_is_not_on_the_disk_yet(shop_without_waiting: Replicated) -> None:
    # A commit that does not wait is reported before the replica can receive it.
    check_that_lists_contain_new_records(shop_without_waiting)


def test_the_primary_serves_while_the_replica_is_behind(shop: Shop, standby: Engine, monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "REPLICA_BEHIND_SECONDS", 0.0)
    execute(standby, "SELECT pg_wal_replay_pause()")
    replica_reads_before, primary_reads_before = count_reads("replica"), count_reads("primary")
    shop.member()
    assert count_members(shop) == 1
    # The primary has served the list.
    assert count_reads("replica") == replica_reads_before
    assert count_reads("primary") == primary_reads_before + 1
    execute(standby, "SELECT pg_wal_replay_resume()")
    wait_until(lambda: count_members(shop) == 1 and count_reads("replica") > replica_reads_before)


def test_reports_read_the_replica(shop: Shop, standby: Engine) -> None:
    replica_reads_before, primary_reads_before = count_reads("replica"), count_reads("primary")
    member = shop.member()
    shop.give(member, 7)
    moments = {"sinceFrom": "2020-01-01T00:00:00Z", "sinceTo": "2100-01-01T00:00:00Z"}
    report_rows = shop.administration.get("/reports/top-members", **moments)["results"]
    assert [(row["key"], row["amount"]) for row in report_rows] == [(member, 7)]
    assert count_reads("replica") == replica_reads_before + 1
    assert count_reads("primary") == primary_reads_before


def test_a_server_on_a_standby_reads_and_refuses_writes(servers: Servers, shop: Shop, standby: Engine) -> None:
    member = shop.member()
    with disposed(create_engine(servers.settings.database_url, threads=1)) as primary, primary.connect() as db:
        position = replication.end_of_log(db)
    with standby.connect() as db:
        assert replication.wait_until_reached(db, position, 60)
    with running_api(replace(servers.settings, database_url=servers.settings.read_database_url)) as api:
        integration = replace(shop.integration, app=api.app)
        assert integration.get(f"/members/{member}") == shop.integration.get(f"/members/{member}")
        refusals = [
            integration.request("POST", path, body)
            for path, body in (
                ("/members", {"loyaltyMemberId": "new"}),
                ("/events/track", {"events": [order(member, 10)]}),
            )
        ]
    assert {(reply.status, reply.json["type"]) for reply in refusals} == {(503, "/problems/unavailable")}
    assert count_members(shop) == 1


def findings_of_doctor(settings: Settings, home: Path, **urls: str) -> dict[str, str]:
    """The lines of `loyalty doctor` about the replica and the connection to the primary, by subject.

    A line begins with "ok   " or "BAD  "; its subject is removed.
    """
    variables = {
        "LOYALTY_DATABASE_URL": settings.database_url,
        "LOYALTY_READ_DATABASE_URL": settings.read_database_url,
        **urls,
    }
    lines = invoke(home, "doctor", **variables).stdout.splitlines()
    subjects = {line[5:].partition(": ")[0]: line[:5] + line[5:].partition(": ")[2] for line in lines}
    return {subject: line for subject, line in subjects.items() if "replica" in subject or subject == "connection"}


class TestTheDoctor:
    def test_reports_a_replica_that_has_all_changes(self, servers: Servers, shop: Shop) -> None:
        shop.member()
        findings = findings_of_doctor(servers.settings, servers.standby_home)
        assert findings["replica"].startswith("ok   postgresql://")
        assert findings["replica connection"].startswith("ok   PostgreSQL ")
        assert findings["replica schema"] == "ok   up to date"
        assert findings["replica lag"] == "ok   none, it has all changes of the database"

    def test_reports_a_replica_that_is_behind(self, servers: Servers, shop: Shop, standby: Engine) -> None:
        execute(standby, "SELECT pg_wal_replay_pause()")
        shop.member()
        try:
            findings = findings_of_doctor(servers.settings, servers.standby_home)
        finally:
            execute(standby, "SELECT pg_wal_replay_resume()")
        assert re.fullmatch(r"BAD  it lacks changes, the last one that it has is \d+ s old", findings["replica lag"])

    def test_reports_a_replica_that_cannot_be_reached(self, servers: Servers) -> None:
        unreachable_url = "postgresql://nobody:sesame@127.0.0.1:1/loyalty"
        findings = findings_of_doctor(servers.settings, servers.standby_home, LOYALTY_READ_DATABASE_URL=unreachable_url)
        assert findings["replica"] == "ok   postgresql://nobody:***@127.0.0.1:1/loyalty"
        assert re.fullmatch("BAD  .*Connection refused", findings["replica connection"])
        assert "replica lag" not in findings

    def test_reports_a_replica_that_lacks_the_schema(self, servers: Servers) -> None:
        empty_database_url = servers.settings.database_url.replace("/loyalty?", "/postgres?")
        findings = findings_of_doctor(
            servers.settings, servers.standby_home, LOYALTY_READ_DATABASE_URL=empty_database_url
        )
        assert findings["replica schema"].startswith("BAD  lacks 1000, ")
        assert findings["replica lag"] == "ok   unknown, it is not a standby"

    def test_reports_a_primary_that_is_a_standby(self, servers: Servers) -> None:
        standby_url = servers.settings.read_database_url
        findings = findings_of_doctor(servers.settings, servers.standby_home, LOYALTY_DATABASE_URL=standby_url)
        assert re.fullmatch(r"BAD  PostgreSQL \S.*, which accepts only reads", findings["connection"])
        assert findings["replica schema"] == "ok   up to date"
        assert "replica lag" not in findings


def test_the_primary_serves_while_the_replica_is_unavailable(shop: Replicated, monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "REPLICA_PAUSE_SECONDS", 0.0)
    shop.member()
    reads_before = count_reads("replica")
    kill_database(shop.standby_home)
    wait_until_stopped(shop.standby_home)
    assert count_members(shop) == 1
    assert count_reads("replica") == reads_before
    with embedded.server(shop.standby_home, options=shop.options):
        wait_until(lambda: count_members(shop) == 1 and count_reads("replica") > reads_before)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_the_primary_serves_while_the_replica_accepts_connections_but_is_silent(shop: Replicated) -> None:
    shop.member()
    assert count_members(shop) == 1
    reads_before = count_reads("replica")
    with silent_database(shop.standby_home):
        assert count_members(shop) == 1
        assert count_reads("replica") == reads_before
