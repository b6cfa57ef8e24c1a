"""The expected result of a stream of events, computed in the simplest way: event by event, in dictionaries."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.builders.campaigns import effect, mint
from tests.builders.tracking import GENERIC, ORDER_CREATED

BONUS, MAX_BONUSES = 10, 3
PRICE, MIN_BALANCE = 30, 40
# A point per dollar; a bonus for the first orders; and a member with enough points pays for a generic event. So what an
# event does depends on which of the member's events came before it.
CAMPAIGNS: Sequence[tuple[Mapping[str, Any], str | None, Mapping[str, Any]]] = (
    ({"code": "a-dollars", "eventType": ORDER_CREATED}, None, mint(("=", "floor(order.total)"))),
    (
        {
            "code": "b-first-orders",
            "eventType": ORDER_CREATED,
            "limitRules": [{"scope": "member", "type": "transactions", "period": "yearly", "limit": MAX_BONUSES}],
        },
        None,
        mint(BONUS),
    ),
    (
        {"code": "c-price", "eventType": GENERIC},
        f"balances.points >= {MIN_BALANCE}",
        effect("burn-points", amount=PRICE),
    ),
)
POISON = "poison"


def new_event(member: str, pick: random.Random, poisoned: bool = False) -> dict[str, Any]:
    """The creation of an order, or sometimes a generic event; a poisoned event is always the creation of an order."""
    key = f"{POISON if poisoned else 'event'}-{uuid.UUID(int=pick.getrandbits(128))}"
    fields = {"loyaltyMemberId": member, "systemUniqueKey": key}
    if not poisoned and pick.random() < 0.3:
        return {**fields, "eventType": GENERIC, "payload": {}}
    order = {"externalId": key, "total": pick.randint(1, 50), "items": []}
    return {**fields, "eventType": ORDER_CREATED, "payload": {"order": order}}


@dataclass
class Model:
    """Balances and bonuses by member; the balances after the movements of each event, and the orders, by its key."""

    balances: dict[str, int] = field(default_factory=dict)
    bonuses: dict[str, int] = field(default_factory=dict)
    movements: dict[str, list[int]] = field(default_factory=dict)
    orders: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Model:
        """The model after these events, which happen in this order."""
        model = cls()
        for event in events:
            model._apply(event)
        return model

    def _apply(self, event: Mapping[str, Any]) -> None:
        member, key = event["loyaltyMemberId"], event["systemUniqueKey"]
        balance = self.balances.setdefault(member, 0)
        balances_after = self.movements[key] = []
        if event["eventType"] == ORDER_CREATED:
            self.orders.add(key)
            balances_after.append(balance + event["payload"]["order"]["total"])
            if self.bonuses.setdefault(member, 0) < MAX_BONUSES:
                self.bonuses[member] += 1
                balances_after.append(balances_after[-1] + BONUS)
        elif balance >= MIN_BALANCE:
            balances_after.append(balance - PRICE)
        self.balances[member] = balances_after[-1] if balances_after else balance
