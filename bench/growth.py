"""What a purchase adds to a large database: `python -m bench.growth`.

The large database of `bench.scale`, by default with a tenth of its records. Eight clients of a server track single
purchases of random members, with several settings of PostgreSQL, each right after a checkpoint. Prints tables for
`docs/performance.md`: the bytes on disk, the part of them that calls read at random places, the bytes of the
write-ahead log (WAL), and the processor time.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import ExitStack

from sqlalchemy import Connection, text

from bench import load, scale, single_calls
from bench.processor_time import ProcessorTimes
from bench.scale import ServedWorld
from persistence.engine import autocommit

SETTINGS: tuple[Mapping[str, str], ...] = (
    {"full_page_writes": "on", "wal_compression": "off"},
    {"full_page_writes": "on", "wal_compression": "pglz"},
    {"full_page_writes": "off", "wal_compression": "off"},
)

# Indexes whose first column after the organization grows with time are read and written at their end.
_INDEX_BYTES = """
SELECT sum(pg_relation_size(i.indexrelid)),
    sum(pg_relation_size(i.indexrelid)) FILTER (WHERE abs(s.correlation) < 0.9)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[1]
LEFT JOIN pg_stats s ON s.tablename = c.relname AND s.attname = a.attname
WHERE c.relname = ANY(:tables)
"""


def main() -> None:
    """Fill a database with purchases, measure its size and the cost of a purchase, and print both as tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--purchases", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=8, help="how long each measurement takes")
    options = parser.parse_args()
    with ExitStack() as stack:
        served = scale.serve_world(
            stack, lambda engine, world: scale.fill(engine, world, options.members, options.purchases)
        )
        with autocommit(served.engine).connect() as db:
            total = sum(scale.sizes(served.engine).values())
            indexes, random_indexes = db.execute(text(_INDEX_BYTES), {"tables": list(scale.GROWING)}).one()
            print("| what | bytes for each purchase |\n|---|---|")
            for name, size in (("all", total), ("indexes", indexes), ("indexes read at random", random_indexes)):
                print(f"| {name} | {size / options.purchases:.0f} |")
            print(
                "\n| settings | purchases | WAL KB of a purchase | CPU ms: server | PostgreSQL |\n|---|---|---|---|---|"
            )
            for settings in SETTINGS:
                _measure(db, served, settings, options.seconds)


def _measure(db: Connection, served: ServedWorld, settings: Mapping[str, str], seconds: float) -> None:
    """Track purchases with these settings of PostgreSQL after a checkpoint; print them as a row."""
    for name, value in settings.items():
        db.execute(text(f"ALTER SYSTEM SET {name} = {value}"))
    db.execute(text("SELECT pg_reload_conf()"))
    db.execute(text("CHECKPOINT"))
    before = db.execute(text("SELECT pg_current_wal_insert_lsn()")).scalar_one()
    make_request = single_calls.events_of(served.world, served.numbers)
    result, time = ProcessorTimes(served.engine).measure(load.closed_loop, served.port, 8, seconds, make_request)
    log_bytes = db.execute(
        text("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), :before)"), {"before": before}
    ).scalar_one()
    names = ", ".join(f"{name} = {value}" for name, value in settings.items())
    print(f"| {names} | {result.calls} | {log_bytes / result.calls / 1024:.1f} | {time.columns(result.calls)} |")


if __name__ == "__main__":
    main()
