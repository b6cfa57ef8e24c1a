"""Single calls compared with the database: `python -m bench.single_calls`.

The world of `bench.tracking`, durable as in production. Each client sends one event, mint, assignment or use of a
coupon, or new member a call, and waits for the response. As many clients of pgbench write the rows of one in a
database transaction each, in the same run. Then the greatest rate of events is offered at 50, 75 and 90 %, and members
are read, compared with bare Flask that queries the same. Prints tables for `docs/performance.md`, with the processor
time of a call. Trust the ratios and the processor time: machines differ, and are shared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, text

from bench import coupon_usages, enrolling, ledger, load, tracking
from bench.processor_time import ProcessorTimes
from bench.tracking import World, add_campaign, new_world, serving, serving_bare_flask

CLIENTS = (1, 8, 32, 128)


def events_of(world: World, numbers: Iterator[int], size: int = 1) -> load.MakeRequest:
    """Requests of `trackEvents` with new purchases."""
    chance = random.Random(1)

    def make() -> bytes:
        body = {"events": [tracking.new_event(numbers, chance, world.members) for _ in range(size)]}
        return load.request("POST", "/v2/events/track", world.token, json.dumps(body).encode())

    return make


def reads_of(world: World) -> load.MakeRequest:
    """Requests of `getMember`."""
    chance = random.Random(1)
    return lambda: load.request("GET", f"/v2/members/m{chance.randrange(world.members)}", world.token)


def mints_of(world: World) -> load.MakeRequest:
    """Requests of `mintMemberPoints`."""
    chance = random.Random(1)
    members = f"/v2/organizations/{world.organization.organization_id}/members/by-loyalty-member-id"

    def make() -> bytes:
        path = f"{members}/m{chance.randrange(world.members)}/mint"
        return load.request("POST", path, world.token, b'{"amount": 1}')

    return make


@dataclass(frozen=True)
class Book:
    """A codeless book; `holders` are members to whom a coupon was assigned and who have not used it."""

    record: Mapping[str, Any]
    coupon_id: int
    holders: deque[int]

    def assignments(self, world: World) -> load.MakeRequest:
        """Requests of `assignCoupon`."""
        chance = random.Random(1)

        def make() -> bytes:
            self.holders.append(chance.randrange(world.members))
            return load.request("POST", self._path(self.holders[-1], "assign"), world.token, b"{}")

        return make

    def uses(self, world: World) -> load.MakeRequest:
        """Requests of `useCoupon`, each by a member to whom an earlier request has assigned a coupon."""
        return lambda: load.request("POST", self._path(self.holders.popleft(), "use"), world.token, b"{}")

    def _path(self, member: int, action: str) -> str:
        return f"/v2/members/m{member}/coupon-books/{self.record['couponBookKey']}/{action}"


def add_book(client: tracking.Client, world: World, engine: Engine) -> Book:
    """Create the book; none of its coupons is assigned yet."""
    body = {"name": "Coffee", "type": "codeless", "publishingStatus": "published"}
    book = client.call("POST", "/v2/coupon-books", body)["couponBook"]
    query = text("SELECT coupon_id FROM coupons WHERE organization_id = :id AND coupon_book_id = :book")
    with engine.connect() as db:
        values = {"id": world.organization.organization_id, "book": book["couponBookId"]}
        return Book(book, db.execute(query, values).scalar_one(), deque())


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=8, help="how long each measurement takes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, nargs="*", default=CLIENTS)
    options = parser.parse_args()
    with new_world() as (world, engine):
        _report(world, engine, options.seconds, options.workers, options.clients)


def _report(world: World, engine: Engine, seconds: int, workers: int, clients: list[int]) -> None:
    """Measure each kind of call and print it as a row, with its limit by pgbench; then events at a rate, and reads."""
    numbers = itertools.count(1)
    times = ProcessorTimes(engine)
    with serving(world, workers) as port:
        client = tracking.Client(port, world, numbers)
        add_campaign(client, world)
        book = add_book(client, world, engine)
        ids = {"organization": world.organization.organization_id, "account": world.organization.ledger_account_id}
        wallets = world.first_wallet, world.first_wallet + world.members - 1
        coupons = {
            **ids,
            "book": book.record["couponBookId"],
            "coupon": book.coupon_id,
            "first": world.first_member,
            "last": world.first_member + world.members - 1,
        }

        def pgbench(script: str, variables: Mapping[str, object]) -> Callable[[int], load.Load]:
            return lambda count: load.by_pgbench(world.url, script, variables, seconds, count)

        kinds: dict[str, tuple[load.MakeRequest, Callable[[int], load.Load]]] = {
            "event": (events_of(world, numbers), lambda count: tracking.limit(world, seconds, count)),
            "mint": (mints_of(world), pgbench(ledger.pgbench_script("mint", *wallets), ids)),
            "assignment": (book.assignments(world), pgbench(coupon_usages.pgbench_script("assign"), coupons)),
            "use": (book.uses(world), pgbench(coupon_usages.pgbench_script("use"), coupons)),
            "new member": (
                enrolling.enrolments_of(world, numbers, "createMember", 1),
                pgbench(enrolling.PGBENCH_SCRIPT, {**ids, "ledger": world.organization.ledger_id}),
            ),
        }
        load.closed_loop(port, 8, 3, kinds["event"][0])
        print(
            "| call | clients | pgbench/s | pgbench p50 ms | pgbench p99 ms "
            "| calls/s | of pgbench | server p50 ms | server p99 ms | failures "
            "| CPU ms: server | PostgreSQL | PostgreSQL by pgbench |"
        )
        print(13 * "|---" + "|", flush=True)
        max_rate = 0.0
        for count in clients:
            for kind, (make, limit) in kinds.items():
                if kind == "use":
                    # Enough for all uses, whatever came of the last ones.
                    load.closed_loop(port, count, seconds, book.assignments(world))
                result, cost = times.measure(load.closed_loop, port, count, seconds, make)
                bound, bound_cost = times.measure(limit, count)
                max_rate = max(max_rate, result.rate) if kind == "event" else max_rate
                print(
                    f"| {kind} | {count} | {bound.rate:.0f} | {bound.percentile(50):.1f} | {bound.percentile(99):.1f} "
                    f"| {result.rate:.0f} | {result.rate / bound.rate:.2f} | {result.percentile(50):.1f} "
                    f"| {result.percentile(99):.1f} | {result.failures} "
                    f"| {cost.columns(result.calls)} | {bound_cost.columns(bound.calls).split(' | ')[1]} |",
                    flush=True,
                )
        print("\n| offered | events/s | p50 ms | p99 ms | failures |")
        print("|---|---|---|---|---|")
        for share in (0.5, 0.75, 0.9):
            result = load.at_rate(port, max(clients), seconds, kinds["event"][0], share * max_rate)
            print(
                f"| {share:.0%} | {result.rate:.0f} | {result.percentile(50):.1f} | {result.percentile(99):.1f} "
                f"| {result.failures} |",
                flush=True,
            )
        make = reads_of(world)
        reads = {count: times.measure(load.closed_loop, port, count, seconds, make) for count in clients}
    with serving_bare_flask(world, workers) as port:
        print(
            "\n| clients | bare Flask/s | bare Flask p50 ms | bare Flask p99 ms "
            "| reads/s | of bare Flask | server p50 ms | server p99 ms | failures "
            "| CPU ms: server | PostgreSQL |"
        )
        print(11 * "|---" + "|", flush=True)
        for count, (result, cost) in reads.items():
            bare = load.closed_loop(port, count, seconds, reads_of(world))
            print(
                f"| {count} | {bare.rate:.0f} | {bare.percentile(50):.1f} | {bare.percentile(99):.1f} "
                f"| {result.rate:.0f} | {result.rate / bare.rate:.2f} | {result.percentile(50):.1f} "
                f"| {result.percentile(99):.1f} | {result.failures} | {cost.columns(result.calls)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
