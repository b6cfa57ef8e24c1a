"""Single calls beside the database: `python -m bench.single_calls`.

The world of `bench.tracking`, durable as in production. Clients that each send one event a call, and wait for the
answer, beside pgbench with as many clients writing the rows of one event in a database transaction each, in one run.
Then the greatest rate of 32 clients is offered at 50, 75 and 90 %. Prints tables for `docs/performance.md`. Trust the
ratios: machines differ, and are shared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import load, tracking
from bench.tracking import World, add_campaign, make_world, serving
from persistence import embedded, schema
from persistence.engine import create_engine

CLIENTS = (1, 8, 32, 128)


def events_of(world: World, numbers: Iterator[int], size: int = 1) -> load.MakeRequest:
    """Requests of `trackEvents` with new purchases."""
    chance = random.Random(1)

    def make() -> bytes:
        body = {"events": [tracking.new_event(numbers, chance) for _ in range(size)]}
        return load.request("POST", "/v2/events/track", world.token, json.dumps(body).encode())

    return make


def reads_of(world: World) -> load.MakeRequest:
    """Requests of `getMember`."""
    chance = random.Random(1)
    return lambda: load.request("GET", f"/v2/members/m{chance.randrange(tracking.MEMBERS)}", world.token)


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=8, help="how long each measurement takes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, nargs="*", default=CLIENTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        with embedded.server(Path(directory) / "home") as url:
            engine = create_engine(url, threads=1)
            schema.migrate(engine)
            world = make_world(engine, url)
            engine.dispose()
            _report(world, options.seconds, options.workers, options.clients)


def _report(world: World, seconds: int, workers: int, clients: list[int]) -> None:
    numbers = itertools.count(1)
    print("| clients | pgbench/s | p50 ms | p99 ms | events/s | of pgbench | p50 ms | p99 ms | failures |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with serving(world, workers) as port:
        add_campaign(tracking.Client(port, world, numbers), world)
        make = events_of(world, numbers)
        load.closed(port, 8, 3, make)
        most = 0.0
        for count in clients:
            limit = tracking.limit(world, seconds, count)
            done = load.closed(port, count, seconds, make)
            most = max(most, done.rate)
            print(
                f"| {count} | {limit.rate:.0f} | {limit.percentile(50):.1f} | {limit.percentile(99):.1f} "
                f"| {done.rate:.0f} | {done.rate / limit.rate:.2f} | {done.percentile(50):.1f} "
                f"| {done.percentile(99):.1f} | {done.failures} |",
                flush=True,
            )
        print("\n| offered | events/s | p50 ms | p99 ms | failures |")
        print("|---|---|---|---|---|")
        for share in (0.5, 0.75, 0.9):
            done = load.at_rate(port, 32, seconds, make, share * most)
            print(
                f"| {share:.0%} | {done.rate:.0f} | {done.percentile(50):.1f} | {done.percentile(99):.1f} "
                f"| {done.failures} |",
                flush=True,
            )
        done = load.closed(port, 32, seconds, reads_of(world))
        print(f"\n`getMember`, 32 clients: {done.rate:.0f}/s, p50 {done.percentile(50):.1f} ms", flush=True)


if __name__ == "__main__":
    main()
