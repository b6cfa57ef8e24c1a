"""Simulations compared with dry runs: `python -m bench.simulations`.

Two organizations as in `bench.campaigns`, with 1 campaign and with 40, each also with 20 coupon books. A purchase is
simulated for a member, for a newcomer, and with single parts of the response, and tracked as a dry run, by the handler
itself, in one thread and in turns. Prints a table for `docs/performance.md`: the processor time of a call in this
process, the median of all rounds, as a ratio to that of the dry run. Trust the ratios: machines differ, and are shared.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Engine

from bench.campaigns import ACTIONS, Program, programs, restrictions
from bench.databases import new_database
from bench.tracking import new_event

CAMPAIGNS = 40
BOOKS = 20
WARM_UP = 10
PARTS = ("earn", "redeem", "next", "explain")


def organizations(engine: Engine, url: str) -> Iterator[tuple[str, Program]]:
    """The organizations, by name."""
    yield next(programs(engine, url))
    many = Program(engine, url)
    for number in range(CAMPAIGNS):
        many.add(number, ACTIONS, **restrictions(number))
    yield f"{CAMPAIGNS} campaigns, {CAMPAIGNS * ACTIONS} actions", many


def add_books(program: Program) -> None:
    """Add coupon books that cost points."""
    settings = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    ledger_id = program.world.organization.ledger_id
    account = program.call("administration", "createLedgerAccount", settings, ledgerId=ledger_id)["ledgerAccount"]
    points = {name: account[name] for name in ("ledgerKey", "ledgerAccountKey")}
    for number in range(BOOKS):
        body = {"name": f"Book {number}", "type": "codeless", "publishingStatus": "published"}
        price = {"usageRequiredPoints": 10 * number + 10, "requiredPointsConfig": points}
        program.call("integration", "createCouponBook", {**body, **price})


def calls_of(program: Program) -> Mapping[str, Callable[[], Any]]:
    """The measured calls by name; the dry run comes first."""
    numbers, chance = itertools.count(1), random.Random(1)

    def dry_run() -> None:
        body = {"events": [new_event(numbers, chance)], "executionMode": "dryRun"}
        program.call("integration", "trackEvents", body)

    def simulate(*parts: str, is_member: bool = True) -> None:
        event = new_event(numbers, chance)
        body: dict[str, Any] = {"order": {"total": event["payload"]["order"]["total"]}}
        if is_member:
            body["loyaltyMemberId"] = event["loyaltyMemberId"]
        program.call("integration", "simulate", {**body, **({"include": list(parts)} if parts else {})})

    single = {f"`simulate`, only `{part}`": lambda part=part: simulate(part) for part in PARTS}
    return {
        "dry run": dry_run,
        "`simulate`": simulate,
        "`simulate` for a newcomer": lambda: simulate(is_member=False),
        **single,
    }


def measure(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median of the seconds of processor time of each call."""
    durations: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(WARM_UP + rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if number >= WARM_UP:
                durations[name].append(time.process_time() - start)
    return {name: statistics.median(seconds) for name, seconds in durations.items()}


def main() -> None:
    """Make the organizations, measure them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="how many calls of each kind are measured")
    rounds = parser.parse_args().rounds
    with new_database() as (engine, url):
        columns: dict[str, dict[str, float]] = {}
        for name, program in organizations(engine, url):
            add_books(program)
            columns[name] = measure(calls_of(program), rounds)
    print(f"| call | {' | '.join(columns)} |")
    print(f"|{'---|' * (1 + len(columns))}")
    for call in next(iter(columns.values())):
        ratios = (f"{column[call] / column['dry run']:.2f}" for column in columns.values())
        print(f"| {call} | {' | '.join(ratios)} |")
    times = (f"{1000 * column['dry run']:.1f} ms" for column in columns.values())
    print(f"\nA dry run took {' and '.join(times)}.")


if __name__ == "__main__":
    main()
