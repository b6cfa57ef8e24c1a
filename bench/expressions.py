"""The speed of expressions: `python -m bench.expressions`.

Prints the evaluations a second of one condition and one effect, next to hand-written Python functions that do the same
in the same run. Then it prints the time of an event with 100 conditions and 20 effects, and the time to prepare them.
CPU time, best of several rounds; on a busy machine trust the ratios rather than the last digit.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from domain.campaigns.variables import ENVIRONMENT
from domain.expressions import BOOL, DECIMAL, EVENT_COST, Budget, Program, compile_expression, from_tree, parse, to_tree

CONDITION = (
    'event.eventType == "member-purchase-order-created" && order.total >= 50'
    ' && order.items.exists(i, i.categoryCode == "coffee" && i.quantity >= 2) && "gold" in tiers'
)
EFFECT = 'round(order.items.filter(i, i.categoryCode == "coffee").map(i, i.total).sum() * 0.05 + order.total * 0.01, 2)'
ROUNDS = 5
COUNT = 20_000


def context() -> dict[str, Any]:
    """The variables of an order of five items."""
    items = [
        {"categoryCode": code, "quantity": Decimal(quantity), "total": Decimal(total), "productCode": f"p{quantity}"}
        for code, quantity, total in [
            ("tea", 1, "4.10"),
            ("cake", 1, "7.25"),
            ("tea", 2, "8.20"),
            ("coffee", 3, "33.75"),
            ("coffee", 1, "11.25"),
        ]
    ]
    return {
        "event": {"eventType": "member-purchase-order-created", "payload": {}, "tags": []},
        "order": {"total": Decimal("64.55"), "items": items, "channel": "web", "tags": ["summer"]},
        "member": {"active": True, "profile": {"city": "Madrid"}},
        "balances": {"points": Decimal(1200)},
        "tiers": ["gold"],
        "audiences": [],
        "now": datetime(2026, 1, 15, 12, tzinfo=UTC),
    }


def condition_by_hand(c: dict[str, Any]) -> bool:
    """CONDITION as a programmer would write it."""
    return (
        c["event"]["eventType"] == "member-purchase-order-created"
        and c["order"]["total"] >= 50
        and any(i["categoryCode"] == "coffee" and i["quantity"] >= 2 for i in c["order"]["items"])
        and "gold" in c["tiers"]
    )


_FIVE_PERCENT, _ONE_PERCENT, _CENT = Decimal("0.05"), Decimal("0.01"), Decimal("0.01")


def effect_by_hand(c: dict[str, Any]) -> Decimal:
    """EFFECT as a programmer would write it."""
    coffee = sum(i["total"] for i in c["order"]["items"] if i["categoryCode"] == "coffee")
    return (coffee * _FIVE_PERCENT + c["order"]["total"] * _ONE_PERCENT).quantize(_CENT, ROUND_HALF_UP)


def shortest_seconds(run: Callable[[], object], count: int) -> float:
    """Seconds of one call, the best of the rounds."""
    durations = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(count):
            run()
        durations.append((time.process_time() - start) / count)
    return min(durations)


def report(name: str, program: Program, by_hand: Callable[[dict[str, Any]], object], values: dict[str, Any]) -> None:
    """Print one line: evaluations a second, and the ratio to the hand-written function."""
    assert program.run(values) == by_hand(values)
    ours, theirs = (
        shortest_seconds(lambda: program.run(values), COUNT),
        shortest_seconds(lambda: by_hand(values), COUNT),
    )
    print(f"{name:10} {1 / ours:>10,.0f} /s   by hand {1 / theirs:>10,.0f} /s   ratio {ours / theirs:.2f}")


def event(conditions: list[Program], effects: list[Program]) -> None:
    """Evaluate all expressions of one event, on one budget."""
    values, budget = context(), Budget(EVENT_COST)
    for program in conditions:
        program.run(values, budget)
    for program in effects:
        program.run(values, budget)


def main() -> None:
    """Print the figures."""
    values = context()
    report("condition", compile_expression(parse(CONDITION), ENVIRONMENT, BOOL), condition_by_hand, values)
    report("effect", compile_expression(parse(EFFECT), ENVIRONMENT, DECIMAL), effect_by_hand, values)
    conditions = [
        compile_expression(parse(CONDITION.replace("50", str(50 + n % 30))), ENVIRONMENT, BOOL) for n in range(100)
    ]
    effects = [
        compile_expression(parse(EFFECT.replace("0.05", f"0.0{n % 9 + 1}")), ENVIRONMENT, DECIMAL) for n in range(20)
    ]
    event_seconds = shortest_seconds(lambda: event(conditions, effects), 100)
    print(f"event with 100 conditions and 20 effects: {event_seconds * 1e6:.0f} us")
    condition = compile_expression(parse("payment.total > 5 || order.total > 5"), ENVIRONMENT, BOOL)
    without = {**values, "payment": None}
    print(f"condition with an absorbed error: {shortest_seconds(lambda: condition.run(without), 2_000) * 1e6:.1f} us")
    node = parse(CONDITION)
    tree = to_tree(node)
    print(f"parse {shortest_seconds(lambda: parse(CONDITION), 200) * 1e6:.0f} us", end=", ")
    print(f"read a tree {shortest_seconds(lambda: from_tree(tree), 200) * 1e6:.0f} us", end=", ")
    print(
        f"check and compile {shortest_seconds(lambda: compile_expression(node, ENVIRONMENT, BOOL), 200) * 1e6:.0f} us"
    )


if __name__ == "__main__":
    main()
