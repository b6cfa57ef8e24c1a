"""The cost of many campaigns: `python -m bench.campaigns`.

An organization with 200 active campaigns and 1,000 actions, as a large program has them: of several event types, with
dates, days, places, least spends and limits, most of which do not apply to a given purchase. Batches of 100 purchases
are tracked by the handler itself, in one thread, on a durable database. The same is measured for one campaign with one
action, and for 200 campaigns that all look at other events. Prints a table for `docs/performance.md`: events a second,
and the share of the time that the evaluation takes. Trust the ratios: machines differ, and are shared.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine

from bench.databases import new_database
from bench.tracking import World, make_world, new_event
from domain.campaigns.evaluation import Evaluator
from handlers.call import Caller, Request, Response
from handlers.http.dispatch import Dispatcher
from handlers.settings import Settings

ORDER_CREATED = "member-purchase-order-created"
CAMPAIGNS, ACTIONS = 200, 5
BATCH = 100


class Program:
    """An organization of its own, with calls of its operations without HTTP."""

    def __init__(self, engine: Engine, url: str) -> None:
        self.world: World = make_world(engine, url)
        self._dispatch = Dispatcher(Settings(database_url=url), engine)
        organization_id = self.world.organization.organization_id
        self._caller = Caller("benchmark", organization_id, frozenset(), is_admin=True)
        self._numbers = itertools.count(1)
        self._chance = random.Random(1)
        nobody = {"name": "Nobody", "matcherType": "list-matcher"}
        self._audience_key: str = self.call("administration", "createAudience", nobody)["audience"]["audienceKey"]

    def call(self, surface: str, operation: str, body: dict[str, Any], **address: Any) -> dict[str, Any]:
        """Call an operation; anything but success ends the benchmark."""
        path = {} if surface == "integration" else {"organizationId": self.world.organization.organization_id}
        [response] = self._dispatch(
            [Request(surface, operation, {**path, **address}, {}, body, self._caller, "benchmark", {})]
        )
        assert isinstance(response, Response)
        if response.status >= 300:
            raise SystemExit(f"{operation} returned {response.status}: {response.body!r}"[:500])
        return response.body

    def add(self, number: int, actions: int, **restrictions: Any) -> None:
        """Add a campaign with this many actions."""
        body = {"code": f"campaign-{number}", "name": f"Campaign {number}", **restrictions}
        campaign = self.call("administration", "createCampaign", body)["campaign"]
        for index in range(actions):
            body = action(number, index, self._audience_key)
            self.call("administration", "createAction", body, campaignId=campaign["campaignId"])

    def track(self) -> float:
        """Track a batch of purchases. Returns the seconds that it took."""
        events = [new_event(self._numbers, self._chance) for _ in range(BATCH)]
        for event in events:
            event["payload"]["order"] |= {
                "locationCode": self._chance.choice(("centre", "harbour", "airport")),
                "items": [{"productCode": "p1", "categoryCode": "coffee", "quantity": 2, "total": 9}],
            }
        start = time.perf_counter()
        self.call("integration", "trackEvents", {"events": events})
        return time.perf_counter() - start


def action(number: int, index: int, audience_key: str) -> dict[str, Any]:
    """An action whose condition differs with `index`; few of the conditions hold for a purchase."""
    rules = (
        f'order.items.exists(i, i.categoryCode == "coffee" && i.productCode == "p{number}")',
        f'order.total >= {90 + number % 10} && "{audience_key}" in audiences',
        f"balances['points'] > {1000 * number + 10_000_000}",
        f'member.profile.city == "City {number}" && order.channel != "app"',
        f'event.tags.exists(t, t == "tag-{number}") || order.total > {9_000 + number}',
    )
    params = [{"id": "amount", "expression": "floor(order.total / 10)"}]
    effects = {"items": [{"effectId": "mint-points", "params": params}]}
    return {
        "status": "running",
        "priority": 1 + index,
        "rules": {"expression": rules[index % len(rules)]},
        "effects": effects,
    }


def restrictions(number: int) -> dict[str, Any]:
    """The restrictions of a campaign in a large program.

    Half of the campaigns look at purchases, and most of these campaigns do not apply to the measured purchase.
    """
    kinds: tuple[dict[str, Any], ...] = (
        {"eventType": "member-created"},
        {"eventType": ORDER_CREATED, "validTo": "2020-01-01T00:00:00Z"},
        {"eventType": "member-payment-confirmed"},
        {"eventType": ORDER_CREATED, "locationCodes": [f"shop-{number}"]},
        {"enabledTopics": ["benefit-used", "coupon-code-used"]},
        {"eventType": ORDER_CREATED, "minSpendValue": 1_000},
        {"eventType": "member-updated"},
        {"eventType": ORDER_CREATED, "daysOfWeek": [1, 2, 3, 4, 5, 6, 7], "pointsMonthlyLimitPerMember": 500},
        {"eventType": "member-generic-event"},
        {"eventType": ORDER_CREATED},
    )
    return kinds[number % len(kinds)]


@contextmanager
def time_evaluations() -> Iterator[list[float]]:
    """Yield a list, to which each evaluation in the block adds the seconds that it took."""
    durations: list[float] = []
    run = Evaluator.run

    def timed_run(self: Evaluator, *arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return run(self, *arguments)
        finally:
            durations.append(time.perf_counter() - start)

    Evaluator.run = timed_run  # type: ignore[method-assign]
    try:
        yield durations
    finally:
        Evaluator.run = run  # type: ignore[method-assign]


def measure(program: Program, rounds: int) -> tuple[float, float, float]:
    """Measure batches of a program.

    Returns the events a second (the median of the rounds), the share of the time that evaluation takes, and the
    microseconds of the evaluation of an event.
    """
    for _ in range(3):
        program.track()
    with time_evaluations() as evaluations:
        seconds = [program.track() for _ in range(rounds)]
    evaluating = sum(evaluations)
    return BATCH / statistics.median(seconds), evaluating / sum(seconds), evaluating / (BATCH * rounds) * 1e6


def programs(engine: Engine, url: str) -> Iterator[tuple[str, Program]]:
    """The organizations to compare, by name."""
    one = Program(engine, url)
    mint = {"effects": {"items": [{"effectId": "mint-points", "params": [{"id": "amount", "value": 1}]}]}}
    campaign = one.call("administration", "createCampaign", {"code": "one", "name": "One", "eventType": ORDER_CREATED})
    one.call(
        "administration",
        "createAction",
        {"status": "running", "priority": 1, **mint},
        campaignId=campaign["campaign"]["campaignId"],
    )
    yield "1 campaign, 1 action", one
    elsewhere = Program(engine, url)
    for number in range(CAMPAIGNS):
        elsewhere.add(number, ACTIONS, eventType="member-created")
    yield "200 campaigns of other events, 1,000 actions", elsewhere
    many = Program(engine, url)
    for number in range(CAMPAIGNS):
        many.add(number, ACTIONS, **restrictions(number))
    yield "200 campaigns, 1,000 actions", many


def main() -> None:
    """Make the organizations, measure them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="how many batches are measured")
    rounds = parser.parse_args().rounds
    with new_database() as (engine, url):
        print("| campaigns | events/s | of one campaign | evaluation | of the time |")
        print("|---|---|---|---|---|")
        first = 0.0
        for name, program in programs(engine, url):
            rate, share, micros = measure(program, rounds)
            first = first or rate
            print(f"| {name} | {rate:.0f} | {rate / first:.2f} | {micros:.0f} us | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
