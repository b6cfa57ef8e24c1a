"""Imports and exports by commands, and imports by workers: each row is imported once, even if processes are killed."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from handlers.http.local import LocalApi
from handlers.messages.uploads import Upload
from handlers.services.organizations.create import create_organization
from handlers.services.verify import verify
from handlers.settings import Settings
from persistence import embedded, transactions
from persistence.engine import create_engine
from tests.processes.fleet import Workers, disposed, kill_database, patiently
from tests.processes.loyalty import environment, invoke

ROWS, KILLS = 600, 1
MANY_ROWS, MANY_KILLS = int(os.environ.get("IMPORT_ROWS", "100000")), 10


@pytest.fixture
def engine(home: Path) -> Iterator[Engine]:
    """An engine on the database of the home of this test, with one organization."""
    with running_engine(home) as engine:
        add_organization(engine, "Coffee")
        yield engine


@contextmanager
def running_engine(home: Path) -> Iterator[Engine]:
    """Start the database of the home, and connect to it."""
    with embedded.server(home, options={"fsync": "off"}) as url, disposed(create_engine(url, threads=2)) as engine:
        yield engine


def add_organization(engine: Engine, name: str) -> int:
    """Create an organization of that name; returns its id."""
    organization = transactions.run(engine, lambda db: create_organization(db, name=name, now=datetime.now(UTC)))
    return organization.organization_id


@pytest.fixture(scope="module")
def shared_engine(shared_home: Path) -> Iterator[Engine]:
    """An engine on the database that the tests of commands share."""
    with running_engine(shared_home) as engine:
        yield engine


@dataclass(frozen=True)
class Office:
    """An organization that only this test uses, and the commands that import and export its files."""

    home: Path
    folder: Path
    engine: Engine
    name: str
    organization_id: int

    def import_file(self, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Import a file into the organization by the command."""
        return invoke(self.home, "import", str(path), "--organization", str(self.organization_id), *arguments)

    def export_members(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Export the members of the organization by the command."""
        return invoke(self.home, "export", "members", "--organization", str(self.organization_id), *arguments)

    def value(self, expression: str, table: str = "members") -> Any:
        """The value of an SQL expression, such as `count(*)`, over the rows of the organization in a table."""
        statement = f"SELECT {expression} FROM {table} WHERE organization_id = :organization"
        with self.engine.connect() as db:
            return db.execute(text(statement), {"organization": self.organization_id}).scalar_one()


@pytest.fixture
def office(shared_engine: Engine, shared_home: Path, tmp_path: Path) -> Office:
    """A new organization without members."""
    name = f"Coffee {uuid.uuid4()}"
    return Office(shared_home, tmp_path, shared_engine, name, add_organization(shared_engine, name))


def fetch_value(engine: Engine, statement: str) -> Any:
    """The only value that a query returns."""
    with engine.connect() as db:
        return db.execute(text(statement)).scalar_one()


def test_import_reports_faults_by_line_and_accepts_the_corrected_file_of_errors(office):
    file, columns, errors = (office.folder / name for name in ("members.csv", "columns.yaml", "errors.csv"))
    file.write_text("Customer,name\nana,Ana\nb/d,Ben\ncora,Cora\n", encoding="utf-8")
    columns.write_text("loyaltyMemberId: Customer\n", encoding="utf-8")
    dry_run = office.import_file(file, "--columns", str(columns), "--dry-run")
    assert (dry_run.returncode, office.value("count(*)")) == (1, 0), dry_run.stderr
    assert dry_run.stdout.splitlines()[0] == "3 rows: 2 would be done, 1 failed."
    result = office.import_file(file, "--columns", str(columns), "--errors", str(errors))
    assert result.returncode == 1
    assert result.stdout.splitlines()[1].startswith("Line 3, Customer: ")
    headings, row_of_ben = errors.read_text(encoding="utf-8").splitlines()
    assert headings == "importLine,importColumn,importReason,Customer,name"
    assert row_of_ben.split(",")[-2:] == ["b/d", "Ben"]
    errors.write_text(errors.read_text(encoding="utf-8").replace("b/d", "ben"), encoding="utf-8")
    repetition = invoke(
        office.home, "import", str(errors), "--organization", office.name, "--columns", str(columns), "--json"
    )
    assert (repetition.returncode, json.loads(repetition.stdout)["rowsDone"]) == (0, 1)
    assert office.value("count(*)") == 3


def test_import_reads_the_standard_input(office):
    rows = "\n".join(json.dumps({"loyaltyMemberId": f"m{n}"}) for n in range(10)).encode()
    organization = ("--organization", str(office.organization_id))
    command = [sys.executable, "-m", "handlers", "import", "-", *organization, "--format", "ndjson"]
    result = subprocess.run(command, env=environment(office.home), input=rows, capture_output=True, timeout=240)
    assert (result.returncode, result.stdout) == (0, b"10 rows: 10 done, 0 failed.\n"), result.stderr


def test_export_prints_rows_with_filters_and_after_an_id(office):
    file = office.folder / "members.csv"
    file.write_text("loyaltyMemberId,name\nana,Ana\nben,Ben\n", encoding="utf-8")
    assert office.import_file(file).returncode == 0
    result = invoke(office.home, "export", "members", "--organization", office.name)
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["Ana", "Ben"]
    id_of_ben = office.value("max(member_id)")
    assert result.stderr.splitlines()[-1] == f"2 rows, the last id is {id_of_ben}."
    table_after_ben = office.export_members("--format", "csv", "--after", str(id_of_ben))
    assert table_after_ben.stdout.startswith("loyaltyMemberId,publicLoyaltyMemberId,")
    rows_of_ben = office.export_members("--filter", f"memberId={id_of_ben}")
    assert [json.loads(line)["name"] for line in rows_of_ben.stdout.splitlines()] == ["Ben"]
    # Each of the three exports is in the audit log.
    assert office.value("count(*) FILTER (WHERE operation_id = 'export')", "audit_log") == 3
    for invalid_filter in ("memberId=0", "eventType=cup", "createdFrom=yesterday"):
        refusal = office.export_members("--filter", invalid_filter)
        assert (refusal.returncode, refusal.stdout) == (2, "")


def test_import_refuses_files_kinds_organizations_and_columns_that_it_does_not_know(office):
    file = office.folder / "members.csv"
    file.write_text("name\nAna\n", encoding="utf-8")
    refusal = office.import_file(file)
    assert refusal.returncode == 1
    assert refusal.stdout.splitlines()[0].startswith("failed: ")
    assert "The column loyaltyMemberId is missing." in refusal.stdout.splitlines()[0]
    assert office.import_file(file, "--kind", "cups").returncode == 2
    refusal_of_name = invoke(office.home, "import", str(file), "--organization", "Tea")
    assert (refusal_of_name.returncode, refusal_of_name.stderr.splitlines()[-1]) == (
        1,
        "Error: there is no organization Tea",
    )
    columns = office.folder / "columns.yaml"
    columns.write_text("cups: Customer\n", encoding="utf-8")
    refusal_of_columns = office.import_file(file, "--columns", str(columns))
    assert refusal_of_columns.returncode == 1
    assert "cups" in refusal_of_columns.stderr.splitlines()[-1]


def queue(engine: Engine, kind: str, *parts: str) -> int:
    """Queue an import of a file in parts, for workers; returns its id."""
    api = LocalApi(Settings(database_url="postgresql://"), engine, "test")

    def begin(db: Any) -> int:
        calls = api.calls_within(db, 1)
        import_id = calls.administration("createImport", {"kind": kind, "format": "csv"})["import"]["importId"]
        for number, content in enumerate(parts, 1):
            with closing(Upload()) as part:
                part.append(content.encode())
                calls.administration("uploadImportPart", part, importId=import_id, partNumber=number)
        calls.administration("startImport", {"parts": len(parts)}, importId=import_id)
        return import_id

    return transactions.run(engine, begin)


def kill_during_import(
    engine: Engine,
    import_id: int,
    workers: Workers,
    home: Path,
    pick: random.Random,
    *,
    rows: int,
    max_kills: int,
) -> Any:
    """Kill up to `max_kills` workers while an import of `rows` rows runs, and the database with the first and fourth.

    Wait until the import has ended; return its status and its numbers of read, imported and failed rows.
    """
    deadline, kills = time.monotonic() + 240 + rows / 50, 0

    def look() -> Any:
        with engine.connect() as db:
            statement = "SELECT status, rows_read, rows_done, rows_failed FROM imports WHERE import_id = :id"
            return db.execute(text(statement), {"id": import_id}).one()

    while (row := patiently(look)).status in ("queued", "running"):
        assert time.monotonic() < deadline, row
        time.sleep(pick.uniform(0.1, 0.5))
        if kills < max_kills and row.rows_read > kills * rows / (max_kills + 2):
            kills += 1
            if kills in (1, 4):
                kill_database(home)
            # The next worker starts the database if it is down.
            workers.kill_one(pick)
    return row


def test_each_row_is_imported_once_even_if_workers_and_the_database_are_killed(engine, home):
    pick = random.Random(7)
    workers = Workers(home, 2, LOYALTY_IMPORT_ROWS="25", LOYALTY_IMPORT_SHARE="100")
    try:
        names = [f"m{n}" for n in range(ROWS)]
        members = queue(engine, "members", "loyaltyMemberId\n" + "\n".join(names))
        members_import = kill_during_import(engine, members, workers, home, pick, rows=ROWS, max_kills=KILLS)
        assert tuple(members_import) == ("done", ROWS, ROWS, 0)
        balances = queue(engine, "balances", "loyaltyMemberId,amount\n" + "\n".join(f"{name},3" for name in names))
        balances_import = kill_during_import(engine, balances, workers, home, pick, rows=ROWS, max_kills=KILLS)
        assert tuple(balances_import) == ("done", ROWS, ROWS, 0)
        # A worker that is still loading is ended by the signal.
        assert {*workers.stop()} <= {0, -signal.SIGTERM, 128 + signal.SIGTERM}
    finally:
        workers.kill()
    assert patiently(lambda: fetch_value(engine, "SELECT count(*) FROM members")) == ROWS
    assert fetch_value(engine, "SELECT count(*) FROM ledger_transactions") == ROWS
    assert fetch_value(engine, "SELECT sum(current_balance) FROM ledger_balances") == 3 * ROWS
    assert fetch_value(engine, "SELECT count(*) FROM import_blocks") == 0
    assert transactions.run(engine, lambda db: verify(db, 1)) == []


def member_row(number: int) -> dict[str, str]:
    """The fields of the member with a number."""
    return {
        "loyaltyMemberId": f"member-{number}",
        "name": f"Zoë {number}",
        "email": f"zoe{number}@example.com",
        "birthdate": f"{1950 + number % 55}-{1 + number % 12:02}-{1 + number % 28:02}",
        "tags": "newsletter|app",
        "joinedAt": moment(2015, number),
        "tier": "Silver",
        "tierExpiresAt": moment(2040, number),
    }


def balance_row(number: int) -> dict[str, str]:
    """The fields of the balance of the member with a number."""
    return {"loyaltyMemberId": f"member-{number}", "amount": str(1 + number % 5000), "expiresAt": moment(2045, number)}


def moment(year: int, number: int) -> str:
    """The begin of one of the 1,000 days from the begin of a year on, by a number."""
    return f"{datetime(year, 1, 1) + timedelta(days=number % 1000):%Y-%m-%dT%H:%M:%SZ}"


def parts_of(row_of: Callable[[int], Mapping[str, str]], count: int) -> Iterator[str]:
    """The rows that `row_of` returns for the numbers below `count`, as parts of a CSV file.

    A part has up to 100,000 rows; only the first one has the headings.
    """
    for begin in range(0, count, 100_000):
        part = io.StringIO()
        writer = csv.DictWriter(part, list(row_of(0)))
        if begin == 0:
            writer.writeheader()
        writer.writerows(row_of(number) for number in range(begin, min(begin + 100_000, count)))
        yield part.getvalue()


@pytest.mark.stress
def test_exports_equal_the_imported_files_even_if_workers_were_killed(engine, home):
    pick = random.Random(11)
    tier = {"name": "Silver", "minRequiredPoints": 500, "tierOrder": 2, "active": True}
    api = LocalApi(Settings(database_url="postgresql://"), engine, "test")
    transactions.run(engine, lambda db: api.calls_within(db, 1).administration("createTier", tier, loyaltyProgramId=1))
    workers = Workers(home, 2, LOYALTY_IMPORT_SHARE="100")
    try:
        for kind, row_of in (("members", member_row), ("balances", balance_row)):
            import_id = queue(engine, kind, *parts_of(row_of, MANY_ROWS))
            import_row = kill_during_import(
                engine, import_id, workers, home, pick, rows=MANY_ROWS, max_kills=MANY_KILLS
            )
            assert tuple(import_row) == ("done", MANY_ROWS, MANY_ROWS, 0)
        workers.stop()
    finally:
        workers.kill()
    for kind, row_of in (("members", member_row), ("balances", balance_row)):
        file = home.parent / f"{kind}.csv"
        command = [sys.executable, "-m", "handlers", "export", kind, "--organization", "1", "--format", "csv"]
        with file.open("wb") as out:
            subprocess.run(command, env=environment(home), stdout=out, check=True)
        with file.open(newline="", encoding="utf-8") as lines:
            row_count = 0
            for row in csv.DictReader(lines):
                expected_fields = row_of(int(row["loyaltyMemberId"].removeprefix("member-")))
                if row.get("amount") == "0":
                    # The points that count for tiers have rows of their own.
                    assert row["qualifyingAmount"] == expected_fields["amount"]
                    continue
                assert {name: row[name] for name in expected_fields} == expected_fields
                row_count += 1
            assert row_count == MANY_ROWS
    assert fetch_value(engine, "SELECT count(*) FROM members") == MANY_ROWS
    assert fetch_value(engine, "SELECT count(*) FROM ledger_transactions") == MANY_ROWS
    assert transactions.run(engine, lambda db: verify(db, 1)) == []
