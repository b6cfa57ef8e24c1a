"""Imports of members, their balances, and events, compared with COPY and pgbench: `python -m bench.imports`.

Every member has a profile, a tier that expires and a balance that expires. The database is durable as in production,
and one process imports, without pauses. COPY then writes all rows of the same tables into tables with the same columns,
indexes and checks, but without triggers and foreign keys. Events are purchases: first they are only captured, as by
default, then a campaign evaluates them, which is compared with pgbench as in `bench.tracking`. Prints tables for
`docs/performance.md`. Trust the ratios, and the processor time if the machine is busy.

With `--workers N`, so many worker processes import the members and the balances, without pauses. Each gets an import of
its own with a part of the rows. Their other jobs are included.

With `--beside RATE`, a server tracks so many single events a second before and during the imports, which a worker
process runs with the pauses of its settings.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, text

from bench import load, single_calls, tracking
from bench.processor_time import ProcessorTime, ProcessorTimes
from bench.queue import workers
from bench.tracking import World, new_world, serving
from handlers.http.local import LocalApi
from handlers.messages.uploads import Upload
from handlers.server.garbage import collect_rarely
from handlers.services.imports.work import Importer
from handlers.settings import Settings
from persistence import transactions

CITIES = ("Rosario", "Córdoba", "Salta", "Mendoza", "Ushuaia")
NOW = datetime.now(UTC).replace(microsecond=0)

Row = dict[str, object]
Cost = tuple[float, ProcessorTime]


def member_row(number: int) -> Row:
    """The row of a member."""
    return {
        "loyaltyMemberId": f"imported-{number}",
        "name": f"Name {number}",
        "lastName": f"Last name {number}",
        "email": f"imported{number}@example.com",
        "birthdate": f"{1950 + number % 55}-{1 + number % 12:02}-{1 + number % 28:02}",
        "city": CITIES[number % len(CITIES)],
        "tags": "newsletter|app",
        "joinedAt": _moment(-1 - number % 2_000),
        "tier": "Silver",
        "tierExpiresAt": _moment(30 + number % 365),
        "customAttributes.shoeSize": 36 + number % 10,
    }


def balance_row(number: int) -> Row:
    """The row of a member's balance."""
    return {
        "loyaltyMemberId": f"imported-{number}",
        "amount": 1 + number % 5_000,
        "expiresAt": _moment(30 + number % 365),
        "systemUniqueKey": f"balance-{number}",
        "description": "Balance of the former program",
    }


def event_row(number: int) -> Row:
    """The row of a purchase of one of the members that exist before the imports."""
    order = {"externalId": f"imported-{number}", "total": 1 + number % 100}
    return {
        "loyaltyMemberId": f"m{number * 7919 % tracking.MEMBERS}",
        "eventType": "member-purchase-order-created",
        "payload": json.dumps({"order": order}),
        "externalEventDate": _moment(-1 - number % 300),
        "systemUniqueKey": f"imported-{number}",
    }


def _moment(days: int) -> str:
    return f"{NOW + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


KINDS: tuple[tuple[str, Callable[[int], Row]], ...] = (("members", member_row), ("balances", balance_row))
# So long is measured at a time while an import is under way.
_CHUNK_SECONDS = 10
# Workers need so long to start.
_START_SECONDS = 5


class Imports:
    """Imports into the organization of a world."""

    def __init__(self, world: World, engine: Engine) -> None:
        settings = Settings(database_url="", import_share=100)
        self._api = LocalApi(settings, engine, "benchmark")
        self._importer = Importer(engine, settings)
        self._times = ProcessorTimes(engine, includes_self=True)
        self._engine = engine
        self._organization_id = world.organization.organization_id

    def call(self, operation_id: str, body: Any = None, **path: Any) -> Any:
        """The response of an operation."""
        return transactions.run(
            self._engine,
            lambda db: self._api.calls_within(db, self._organization_id).administration(operation_id, body, **path),
        )

    def add_campaign(self) -> None:
        """Add the campaign of `tracking.add_campaign`."""
        campaign_id = self.call("createCampaign", tracking.CAMPAIGN)["campaign"]["campaignId"]
        self.call("createAction", tracking.ACTION, campaignId=campaign_id)

    def start(self, kind: str, make: Callable[[int], Row], count: int, emits: bool = False) -> int:
        """Upload so many rows and start their import; campaigns evaluate it if it `emits` events. Returns its id."""
        import_id, parts = self._upload(kind, make, range(count), emits)
        self.call("startImport", {"parts": parts}, importId=import_id)
        return import_id

    def _upload(self, kind: str, make: Callable[[int], Row], numbers: range, emits: bool = False) -> tuple[int, int]:
        """Upload the rows with these numbers; returns the id of their import and the number of parts."""
        body = {"kind": kind, "format": "csv", "emitEvents": emits}
        import_id = self.call("createImport", body)["import"]["importId"]
        parts = 0
        for parts, content in enumerate(_parts(make, numbers), 1):
            with closing(Upload()) as part:
                part.append(content)
                self.call("uploadImportPart", part, importId=import_id, partNumber=parts)
        return import_id, parts

    def is_done(self, import_id: int, count: int) -> bool:
        """True if an import has ended; it must have imported so many rows without a fault."""
        record = self.call("getImport", importId=import_id)["import"]
        if record["status"] in ("queued", "running"):
            return False
        assert (record["status"], record["rowsDone"]) == ("done", count), record
        return True

    def run(self, kind: str, make: Callable[[int], Row], count: int, emits: bool = False) -> Cost:
        """Import so many rows; returns the seconds, and the processor time."""
        import_id = self.start(kind, make, count, emits)
        collect_rarely()
        cost = self._times.measure(self._work)
        assert self.is_done(import_id, count)
        return cost

    def run_by_workers(self, world: World, kind: str, make: Callable[[int], Row], count: int, processes: int) -> Cost:
        """Import so many rows by worker processes, an import for each; returns the seconds, and the processor time."""
        size = count // processes
        uploads = [self._upload(kind, make, range(begin, begin + size)) for begin in range(0, count, size)]

        def run() -> float:
            began = time.perf_counter()
            for import_id, parts in uploads:
                self.call("startImport", {"parts": parts}, importId=import_id)
            while not all(self.is_done(import_id, size) for import_id, _ in uploads):
                time.sleep(0.05)
            return time.perf_counter() - began

        with workers(world, processes):
            time.sleep(_START_SECONDS)
            return self._times.measure(run)

    def _work(self) -> float:
        """Import until nothing is left; returns the seconds."""
        began = time.perf_counter()
        while self._importer.step():
            pass
        return time.perf_counter() - began


def _parts(make: Callable[[int], Row], numbers: range) -> Iterator[bytes]:
    """A CSV file of the rows with these numbers, in parts of 100,000 rows."""
    for begin in range(0, len(numbers), 100_000):
        part = io.StringIO()
        writer = csv.DictWriter(part, list(make(0)))
        if not begin:
            writer.writeheader()
        for number in numbers[begin : begin + 100_000]:
            writer.writerow(make(number))
        yield part.getvalue().encode()


def rows_of(engine: Engine) -> dict[str, int]:
    """The number of rows of each table."""
    with engine.begin() as db:
        names = db.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")).all()
        return {name: db.scalar(text(f'SELECT count(*) FROM "{name}"')) or 0 for name in names}


def copy_rows(engine: Engine, times: ProcessorTimes, tables: list[str]) -> tuple[float, float]:
    """Have COPY write all rows of tables into tables like them, in one transaction each.

    Returns the seconds that COPY took, and the seconds of processor time of PostgreSQL.
    """
    seconds = processor_seconds = 0.0
    with closing(engine.raw_connection()) as connection:
        driver: Any = connection.driver_connection
        with driver.cursor() as cursor:

            def write(table: str, copied_rows: io.BytesIO) -> float:
                began = time.perf_counter()
                cursor.copy_expert(f'COPY "copy_of_{table}" FROM STDIN', copied_rows)
                driver.commit()
                return time.perf_counter() - began

            for table in tables:
                copied_rows = io.BytesIO()
                cursor.copy_expert(f'COPY "{table}" TO STDOUT', copied_rows)
                cursor.execute(f'CREATE TABLE "copy_of_{table}" (LIKE "{table}" INCLUDING ALL)')
                driver.commit()
                copied_rows.seek(0)
                copy_seconds, cost = times.measure(write, table, copied_rows)
                seconds += copy_seconds
                processor_seconds += cost.database
                cursor.execute(f'DROP TABLE "copy_of_{table}"')
                driver.commit()
    return seconds, processor_seconds


def main() -> None:
    """Import members, balances and events, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="how many rows of each kind")
    parser.add_argument("--beside", type=float, metavar="RATE", help="single events tracked a second, meanwhile")
    parser.add_argument("--workers", type=int, default=0, help="how many worker processes import, instead of this one")
    options = parser.parse_args()
    os.environ["LOYALTY_IMPORT_SHARE"] = "80" if options.beside else "100"
    with new_world() as (world, engine):
        imports = Imports(world, engine)
        program = imports.call("listLoyaltyPrograms")["loyaltyPrograms"][0]["loyaltyProgramId"]
        tier = {"name": "Silver", "minRequiredPoints": 500, "tierOrder": 2, "active": True}
        imports.call("createTier", tier, loyaltyProgramId=program)
        if options.beside:
            _report_beside(world, imports, options.rows, options.beside)
        else:
            _report(world, engine, imports, options.rows, options.workers)


def _report(world: World, engine: Engine, imports: Imports, count: int, processes: int) -> None:
    """Import each kind of rows, copy the same rows by COPY, and print both as tables; then import events.

    Imports run in this process, or with `processes` in so many workers.
    """
    times = ProcessorTimes(engine)
    columns = "CPU us of a row: worker | PostgreSQL"
    print(f"| rows | tables | import rows/s | COPY rows/s | of COPY | {columns} | PostgreSQL by COPY |")
    print(8 * "|---" + "|", flush=True)
    for kind, make in KINDS:
        before = rows_of(engine)
        if processes:
            seconds, cost = imports.run_by_workers(world, kind, make, count, processes)
        else:
            seconds, cost = imports.run(kind, make, count)
        rows_by_table = {name: rows - before[name] for name, rows in rows_of(engine).items()}
        tables = sorted(name for name, rows in rows_by_table.items() if rows >= count)
        copied, copy_cost = copy_rows(engine, times, tables)
        print(
            f"| {count:,} {kind} | {', '.join(tables)} | {count / seconds:,.0f} | {count / copied:,.0f} "
            f"| {copied / seconds:.2f} | {_microseconds(cost, count)} | {copy_cost * 1e6 / count:.0f} |",
            flush=True,
        )
    if processes:
        return
    print(f"\n| rows | rows/s | pgbench/s | of pgbench | {columns} | PostgreSQL by pgbench |")
    print(7 * "|---" + "|", flush=True)
    imports.add_campaign()
    _report_events("captured", world, imports, times, range(count))
    _report_events("evaluated", world, imports, times, range(count, 2 * count), emits=True)


def _report_events(
    what: str, world: World, imports: Imports, times: ProcessorTimes, numbers: range, emits: bool = False
) -> None:
    """Measure an import of the events with these numbers and pgbench, and print them as a row; `what` is its name."""
    count = len(numbers)
    limit, limit_cost = times.measure(tracking.limit, world, _CHUNK_SECONDS)
    seconds, cost = imports.run("events", lambda index: event_row(numbers[index]), count, emits)
    print(
        f"| {count:,} events, {what} | {count / seconds:,.0f} | {limit.rate:,.0f} | {count / seconds / limit.rate:.2f} "
        f"| {_microseconds(cost, count)} | {limit_cost.database * 1e6 / limit.calls:.0f} |",
        flush=True,
    )


def _microseconds(cost: ProcessorTime, rows: int) -> str:
    """The two columns of a table: the microseconds of a row."""
    return f"{cost.server * 1e6 / rows:.0f} | {cost.database * 1e6 / rows:.0f}"


def _report_beside(world: World, imports: Imports, count: int, rate: float) -> None:
    """Measure the tracking of `rate` events a second without imports and during imports of each kind; print a table."""
    numbers = itertools.count(1)
    print("| meanwhile | seconds | rows/s | events/s | p50 ms | p99 ms | failures |\n|---|---|---|---|---|---|---|")
    with serving(world, 1) as port:
        tracking.add_campaign(tracking.Client(port, world, numbers), world)
        make_event = single_calls.events_of(world, numbers)
        load.at_rate(port, 8, 5, make_event, rate)
        _print_beside("nothing", None, [load.at_rate(port, 8, _CHUNK_SECONDS, make_event, rate)])
        with workers(world, 1):
            for kind, make in KINDS:
                import_id, loads = imports.start(kind, make, count), []
                while not imports.is_done(import_id, count):
                    loads.append(load.at_rate(port, 8, _CHUNK_SECONDS, make_event, rate))
                _print_beside(f"{count:,} {kind}", count, loads)


def _print_beside(what: str, rows: int | None, loads: list[load.Load]) -> None:
    """Print the sum of loads as a row: `rows` were imported meanwhile, None if there was no import."""
    seconds = sum(load_part.seconds for load_part in loads)
    latencies = [latency for load_part in loads for latency in load_part.latencies]
    every = load.Load(seconds, latencies)
    print(
        f"| {what} | {seconds:.0f} | {'' if rows is None else f'{rows / seconds:,.0f}'} "
        f"| {len(latencies) / seconds:.0f} | {every.percentile(50):.1f} | {every.percentile(99):.1f} "
        f"| {sum(load_part.failures for load_part in loads)} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
