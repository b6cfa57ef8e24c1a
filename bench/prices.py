"""The price of each capability of points and discounts: `python -m bench.prices`.

Organizations like that of `bench.tracking` that differ in one capability each. A purchase is tracked singly and in
batches of 100, by the handler itself, in one thread and in turns. Prints a table for `docs/performance.md`: the
processor time of an event in this process, the median of all rounds, as a ratio to that of the organization that uses
none of them. Trust the ratios: machines differ, and are shared.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Engine

from bench.campaigns import ORDER_CREATED, Program
from bench.databases import new_database
from bench.simulations import measure
from bench.tracking import new_event

BATCH = 100
POINTS = {"effectId": "mint-points", "params": [{"id": "amount", "expression": "floor(order.total)"}]}
WAITING_POINTS = {**POINTS, "params": [*POINTS["params"], {"id": "availableAfter", "value": "P14D"}]}
DISCOUNT = {
    "effectId": "discount",
    "params": [{"id": "type", "value": "percentage"}, {"id": "value", "value": 10}],
}
EXPIRY = {"expiresInMonths": 12, "expiryRounding": "quarter"}
BUDGET = {"scope": "campaign", "type": "money", "period": "total", "limit": 10**9}


def add_campaign(program: Program, *effects: Mapping[str, Any], group_key: str | None = None, **settings: Any) -> None:
    """Add a campaign on purchases with one action of these effects."""
    body = {"code": f"campaign-{time.monotonic_ns()}", "name": "Campaign", "eventType": ORDER_CREATED, **settings}
    campaign = program.call("administration", "createCampaign", body)["campaign"]
    action = {"status": "running", "priority": 1, "stackingGroupKey": group_key, "effects": {"items": list(effects)}}
    program.call("administration", "createAction", action, campaignId=campaign["campaignId"])


def add_group(program: Program) -> str:
    """Add a group of which the best discount is granted."""
    body = {"name": "Offers", "mode": "best"}
    group = program.call("administration", "createStackingGroup", body)["stackingGroup"]
    return str(group["stackingGroupKey"])


def change_account(program: Program, **settings: Any) -> None:
    """Change the account of the points."""
    path = {"ledgerId": program.world.organization.ledger_id}
    account = program.call("administration", "listLedgerAccounts", {}, **path)["results"][0]
    body = {name: account[name] for name in ("name", "active", "isRevolving", "chainSyncEnabled")} | settings
    path |= {"ledgerAccountId": account["ledgerAccountId"]}
    program.call("administration", "updateLedgerAccount", body, **path)


def set_currency(program: Program) -> None:
    """Set the currency of the organization, in which budgets are."""
    program.call("administration", "updateOrganization", {"defaultLocale": "en", "currency": "EUR"})


def add_best_of(program: Program, **settings: Any) -> None:
    """Add two campaigns with discounts, of which the better one is granted."""
    group_key = add_group(program)
    for _ in range(2):
        add_campaign(program, DISCOUNT, group_key=group_key, **settings)


def add_everything(program: Program) -> None:
    """Use all capabilities at once."""
    set_currency(program)
    change_account(program, maxBalance=10**9, **EXPIRY)
    add_campaign(program, WAITING_POINTS, cooldown="PT1S")
    add_best_of(program, limitRules=[BUDGET])


def add_budget(program: Program) -> None:
    """Add a discount under a budget."""
    set_currency(program)
    add_campaign(program, DISCOUNT, limitRules=[BUDGET])


def add_account_setting(program: Program, **settings: Any) -> None:
    """Give points on an account with these settings."""
    change_account(program, **settings)
    add_campaign(program, POINTS)


CAPABILITIES: Mapping[str, Callable[[Program], None]] = {
    "points": lambda program: add_campaign(program, POINTS),
    "pending points": lambda program: add_campaign(program, WAITING_POINTS),
    "points that expire": lambda program: add_account_setting(program, **EXPIRY),
    "a maximum balance": lambda program: add_account_setting(program, maxBalance=10**9),
    "a cooldown": lambda program: add_campaign(program, POINTS, cooldown="PT1S"),
    "a discount": lambda program: add_campaign(program, DISCOUNT),
    "a discount under a budget": add_budget,
    "the best of two discounts": add_best_of,
    "all of it": add_everything,
}


def events_of(program: Program, size: int) -> Callable[[], object]:
    """A call that tracks `size` purchases."""
    numbers, chance = itertools.count(10**6 * size), random.Random(1)

    def track() -> object:
        events = [new_event(numbers, chance) for _ in range(size)]
        return program.call("integration", "trackEvents", {"events": events})

    return track


def measure_events(programs: Mapping[str, Program], size: int, rounds: int) -> dict[str, float]:
    """The median of the seconds of processor time of an event, tracked in batches of `size`."""
    seconds = measure({name: events_of(program, size) for name, program in programs.items()}, rounds)
    return {name: seconds_of_call / size for name, seconds_of_call in seconds.items()}


def organizations(engine: Engine, url: str) -> Iterator[tuple[str, Program]]:
    """The organizations, by what they use."""
    for name, use in CAPABILITIES.items():
        program = Program(engine, url)
        use(program)
        yield name, program


def main() -> None:
    """Make the organizations, measure them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="how many calls of single events are measured")
    rounds = parser.parse_args().rounds
    with new_database() as (engine, url):
        programs = dict(organizations(engine, url))
        single = measure_events(programs, 1, rounds)
        batch = measure_events(programs, BATCH, max(1, rounds // 10))
    print(f"| an organization with | single event | event in a batch of {BATCH} |")
    print("|---|---|---|")
    for name in programs:
        print(f"| {name} | {single[name] / single['points']:.2f} | {batch[name] / batch['points']:.2f} |")
    print(f"\n1.00 is {1000 * single['points']:.2f} ms, in a batch {1000 * batch['points']:.2f} ms.")


if __name__ == "__main__":
    main()
