"""Asynchronous tracking: events accepted, events worked off, and the time from acceptance to result.

The organization, its campaign and its purchases are those of `bench.tracking`. The comparison is synchronous tracking
in batches of 100, on the same database, durable as in production.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text

from bench.databases import new_database
from bench.tracking import CLIENTS, Client, World, add_campaign, make_world, measure, new_event, serving

ACCEPTED_AT_ONCE = 500
SYNCHRONOUS_AT_ONCE = 100

# The time of an event is from its acceptance until its result was stored.
TIMES = """
SELECT extract(epoch FROM updated_at - created_at) * 1000 FROM events
WHERE organization_id = :organization AND created_at >= :since AND status = 'success'
    AND event_type = 'member-purchase-order-created'
"""


class Sender(Client):
    """A client that queues events over one kept connection."""

    def track(self, count: int) -> None:
        """Queue `count` new purchases and wait for the response."""
        events = [new_event(self._numbers, self._random) for _ in range(count)]
        self.call("POST", "/v2/events/track-async", {"events": events})


@contextmanager
def workers(world: World, count: int) -> Iterator[None]:
    """Run `count` `loyalty worker` processes."""
    environment = {**os.environ, "LOYALTY_DATABASE_URL": world.url, "LOYALTY_LOG_LEVEL": "warning"}
    command = [sys.executable, "-m", "handlers", "worker"]
    processes = [subprocess.Popen(command, env=environment) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def count_queued(engine: Engine) -> int:
    """The number of queued events."""
    with engine.connect() as db:
        return db.execute(text("SELECT count(*) FROM queued_events")).scalar_one()


def rate_of_acceptance(port: int, world: World, numbers: Iterator[int], seconds: float) -> float:
    """Events a second that the server accepts while no worker runs."""
    senders = [Sender(port, world, numbers) for _ in range(2)]
    measure(senders, ACCEPTED_AT_ONCE, 1)
    return measure(senders, ACCEPTED_AT_ONCE, seconds).events_a_second


def fill(port: int, world: World, numbers: Iterator[int], count: int) -> None:
    """Queue `count` events."""
    sender = Sender(port, world, numbers)
    for _ in range(count // ACCEPTED_AT_ONCE):
        sender.track(ACCEPTED_AT_ONCE)


def rate_of_workers(engine: Engine, world: World, count: int) -> float:
    """Events a second that `count` workers work off, from their first batch to the last."""
    before = count_queued(engine)
    with workers(world, count):
        while count_queued(engine) > before - 200 * count:
            time.sleep(0.005)
        started, event_count = time.perf_counter(), count_queued(engine)
        while count_queued(engine):
            time.sleep(0.02)
        return event_count / (time.perf_counter() - started)


def times_to_result(
    engine: Engine, port: int, world: World, numbers: Iterator[int], rate: float, seconds: float
) -> list[float]:
    """Milliseconds from acceptance to result of single purchases at a steady rate, with one worker."""
    with workers(world, 1):
        time.sleep(3)
        senders = [Sender(port, world, numbers) for _ in range(CLIENTS)]
        measure(senders, 1, 1, rate)
        with engine.connect() as db:
            since = db.execute(text("SELECT clock_timestamp()")).scalar_one()
        measure(senders, 1, seconds, rate)
        while count_queued(engine):
            time.sleep(0.02)
    with engine.connect() as db:
        rows = db.execute(text(TIMES), {"organization": world.organization.organization_id, "since": since})
        return [float(row[0]) for row in rows]


def main() -> None:
    """Run everything and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="how long each measurement takes")
    parser.add_argument("--rate", type=float, default=50, help="single events a second of the time from end to end")
    arguments = parser.parse_args()
    with new_database() as (engine, url):
        _report(engine, make_world(engine, url), arguments.seconds, arguments.rate)


def _report(engine: Engine, world: World, seconds: int, rate: float) -> None:
    """Measure how fast events are accepted and worked off, and how long one takes from end to end; print that."""
    numbers = itertools.count(1)
    with serving(world, 1) as port:
        clients = [Client(port, world, numbers) for _ in range(2)]
        add_campaign(clients[0], world)
        measure(clients, SYNCHRONOUS_AT_ONCE, 1)
        synchronous = measure(clients, SYNCHRONOUS_AT_ONCE, seconds).events_a_second
        print(f"Synchronous tracking in batches of {SYNCHRONOUS_AT_ONCE}: {synchronous:.0f} events/s", flush=True)
        events_accepted = rate_of_acceptance(port, world, numbers, seconds)
        share = events_accepted / synchronous
        print(f"Accepted in batches of {ACCEPTED_AT_ONCE}: {events_accepted:.0f} events/s, {share:.2f} of that")
        for count in (1, 2):
            fill(port, world, numbers, int(synchronous * seconds))
            worker_rate = rate_of_workers(engine, world, count)
            print(
                f"Worked off by {count}: {worker_rate:.0f} events/s, {worker_rate / synchronous:.2f} of that",
                flush=True,
            )
        times = times_to_result(engine, port, world, numbers, rate, seconds)
        response_times = measure([Client(port, world, numbers) for _ in range(CLIENTS)], 1, seconds, rate)
        percentiles = statistics.quantiles(times, n=100)
        print(f"From acceptance to result at {rate:.0f}/s: p50 {percentiles[49]:.0f} ms, p99 {percentiles[98]:.0f} ms")
        print(
            f"Response of synchronous tracking at that rate: p50 {response_times.percentile(50):.0f} ms, "
            f"p99 {response_times.percentile(99):.0f} ms"
        )


if __name__ == "__main__":
    main()
