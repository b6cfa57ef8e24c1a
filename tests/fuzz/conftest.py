"""A running server, and organizations with records of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import pytest

from persistence import embedded
from tests.conftest import FAST, SLOW_MS
from tests.fuzz.world import World, build_world
from tests.processes.fleet import wait_until
from tests.processes.loyalty import Server, invoke

# Tables, and whether their rows belong to organizations; without those that change independently of requests.
_TABLES = """
    SELECT relname, EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = relid AND attname = 'organization_id' AND NOT attisdropped
    ) FROM pg_stat_user_tables WHERE relname <> ALL(%s) ORDER BY relname
"""

# Tables that the worker writes some time after the calls.
_WRITTEN_BY_WORKERS = [
    "audit_log_seals", "periodic_jobs", "report_changes", "report_totals", "report_wallet_totals",
    "trigger_deliveries", "unsealed_audit_log",
]  # fmt: skip

_BURY = """
WITH dead AS (
    UPDATE events SET status = 'failed', evaluation_status = 2
    WHERE organization_id = %s AND loyalty_event_key = ANY(%s::uuid[])
    RETURNING organization_id, loyalty_event_id, member_id
)
INSERT INTO queued_events
    (organization_id, loyalty_event_id, member_id, place, attempts, next_attempt_at, queued_at, dead_at)
SELECT organization_id, loyalty_event_id, member_id, loyalty_event_id, 8, now(), now(), now() FROM dead
"""

# Parts of lines that report no fault.
_USUAL = (b'"level":"INFO"', b'"logger":"loyalty.security"')

_EXPORTS_TO_DO = "SELECT count(*) FROM exports WHERE organization_id = %s AND status IN ('queued', 'running')"


class LogReader:
    """Collects the errors and warnings of a growing log; reads each line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._errors: list[str] = []

    def errors(self) -> list[str]:
        """The first 4000 bytes of each warning or error, except of refused credentials."""
        with self._path.open("rb") as log:
            log.seek(self._position)
            for line in log:
                if not line.endswith(b"\n"):
                    # The rest of the line is still to be written.
                    break
                self._position += len(line)
                if not any(usual in line for usual in _USUAL):
                    self._errors.append(line[:4000].decode(errors="replace").rstrip("\n"))
        return list(self._errors)


@dataclass(frozen=True)
class RunningServer:
    """A running `loyalty serve`, with its home and database."""

    server: Server
    home: Path
    database_url: str
    log: LogReader

    @property
    def base_url(self) -> str:
        return f"{self.server.url}/v2"

    @property
    def port(self) -> int:
        return self.server.port

    def new_world(self) -> World:
        """Create an organization with records of every kind."""
        creation = json.loads(self.loyalty("organizations", "create", "Corner Coffee", "--json"))
        identity = str(creation["organizationId"])
        token = self.loyalty("token", "--organization", identity, "--admin", "--expires", "86400").strip()
        world = build_world(self.port, creation, token)
        self._bury(world)
        return world

    def _bury(self, world: World) -> None:
        """Put events of the world on the dead-letter list, as if all attempts to evaluate them had failed."""
        connection = psycopg2.connect(self.database_url)
        with connection, connection.cursor() as cursor:
            cursor.execute(_BURY, (world.ids["organizationId"], world.dead_letters))
        connection.close()

    def wait_for_exports(self, world: World) -> None:
        """Wait until the worker has completed the exports of a world."""
        connection = psycopg2.connect(self.database_url)
        connection.autocommit = True

        def are_done() -> bool:
            with connection.cursor() as cursor:
                cursor.execute(_EXPORTS_TO_DO, (world.ids["organizationId"],))
                return not cursor.fetchone()[0]

        wait_until(are_done)
        connection.close()

    def errors(self) -> list[str]:
        """The warnings and errors logged so far, except of refused credentials."""
        return self.log.errors()

    def verify(self) -> str:
        """The output of `loyalty verify` about the ledgers; fails if it finds them broken."""
        return self.loyalty("verify")

    @contextmanager
    def tables(self, organization_id: int) -> Iterator[Callable[[], dict[str, str]]]:
        """A function that returns a digest of each table, by one statement that PostgreSQL plans once.

        A digest is of the organization's rows, or of all rows where a table has no organizations.
        """
        # The last use of an API key is recorded even if the request is refused.
        row = "(to_jsonb(t) - 'last_used_at')::text"
        connection = psycopg2.connect(self.database_url)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(_TABLES, (_WRITTEN_BY_WORKERS,))
            digests = [
                f"SELECT '{name}', md5(string_agg({row}, chr(10) ORDER BY {row})) FROM \"{name}\" t"
                + (f" WHERE t.organization_id = {organization_id}" if is_tenants else "")
                for name, is_tenants in cursor.fetchall()
            ]
            cursor.execute(f"PREPARE digests AS {' UNION ALL '.join(digests)}")

            def read_digests() -> dict[str, str]:
                cursor.execute("EXECUTE digests")
                return dict(cursor.fetchall())

            yield read_digests
        connection.close()

    def loyalty(self, *arguments: str) -> str:
        """The output of a command, which has to succeed."""
        result = invoke(self.home, *arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


@pytest.fixture(scope="session")
def fuzz_home(temporary_directory: Path) -> Iterator[Path]:
    """A home whose database server stays up for the session."""
    home = temporary_directory / "fuzz" / "home"
    home.parent.mkdir(mode=0o755)
    with embedded.server(home, options=FAST):
        yield home


@pytest.fixture(scope="session")
def running_server(fuzz_home: Path) -> Iterator[RunningServer]:
    """The server as it runs in production, with one worker."""
    # A slow machine must not cause failures: only the long runs limit the time of a response.
    times = {f"LOYALTY_{kind}_TIMEOUT_MS": str(SLOW_MS) for kind in ("REQUEST", "STATEMENT", "LOCK")}
    server = Server(fuzz_home, "--workers", "1", LOYALTY_LOG_FORMAT="json", **times)
    server.wait_until_ready()
    with embedded.server(fuzz_home) as url:
        yield RunningServer(server, fuzz_home, url, LogReader(server.log))
    server.stop()
