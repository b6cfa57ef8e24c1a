"""A simple model of a loyalty program, and random histories of its members: no database, no code of the product.

All amounts are whole numbers. The model keeps what each event of a member did: to undo an event is to remove it.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.builders.campaigns import effect, mint
from tests.builders.tracking import GENERIC, ORDER_CREATED
from tests.machines.effects import Effects

ORDER_CANCELLED = "member-purchase-order-cancelled"
# The points of a bonus, and the maximum of bonuses of a member.
BONUS, BONUSES = 10, 3
# The points that a generic event burns, and the balance from which it does so.
PRICE, RICH = 30, 40
# The minimum total of an order for a badge, and the maximum of badges of a member; the same for coupons.
BADGE_TOTAL, BADGES = 30, 5
COUPON_TOTAL, COUPONS = 40, 3
# The goal of the mission, the points of its reward, and the maximum of achievements.
GOAL, REWARD, TIMES = 3, 15, 4
TIERS = {"Silver": 60, "Gold": 150}
GOLD_BONUS = 5
EFFECTS = (
    *("points", "badges", "coupons", "bonuses", "achieved", "tier", "pay", "mint", "burn", "switch"),
    *("undo points", "undo badges", "undo coupons", "undo bonuses", "undo achieved"),
)


def campaigns(gold_key: str, badge_key: str, book_key: str) -> Sequence[tuple[Mapping[str, Any], str | None, Any]]:
    """The campaigns of the program, each as its body, rule and effect."""
    limit = {"scope": "member", "type": "transactions", "period": "yearly", "limit": BONUSES}
    # Budgets that are never exhausted, to see what they count.
    points = {"scope": "campaign", "type": "points", "period": "total", "limit": 10**9, "sharedKey": "points"}
    coupons = {"scope": "location", "type": "coupons", "period": "total", "limit": 10**9}
    of_orders = {"eventType": ORDER_CREATED}
    return (
        ({**of_orders, "code": "a-dollars", "limitRules": [points]}, None, mint(("=", "floor(order.total)"))),
        ({**of_orders, "code": "b-first-orders", "limitRules": [limit]}, None, mint(BONUS)),
        (
            {**of_orders, "code": "c-badge"},
            f"order.total >= {BADGE_TOTAL}",
            effect("assign-badge", badgeKey=badge_key, amount=1),
        ),
        ({"eventType": GENERIC, "code": "d-price"}, f"balances.points >= {RICH}", effect("burn-points", amount=PRICE)),
        (
            {**of_orders, "code": "e-gold", "loyaltyTierKeys": [gold_key], "limitRules": [points]},
            None,
            mint(GOLD_BONUS),
        ),
        (
            {**of_orders, "code": "f-coupon", "limitRules": [coupons]},
            f"order.total >= {COUPON_TOTAL}",
            effect("assign-coupon", couponBookKey=book_key, amount=1),
        ),
    )


@dataclass(frozen=True)
class Operation:
    """A step of a history: a tracked `event`, a movement of `amount`, or an act on the event or campaign `key`."""

    kind: str
    member: str
    event: Mapping[str, Any] | None = None
    amount: int = 0
    key: str = ""


@dataclass
class Done:
    """What one event did."""

    points: int = 0
    badges: int = 0
    coupons: int = 0
    bonuses: int = 0
    counted: int = 0
    achieved: int = 0
    # The points that the budget of the campaigns counts.
    budget_points: int = 0


@dataclass
class Member:
    """A member, with the events and movements that are not undone, by their keys."""

    done: dict[str, Done] = field(default_factory=dict)
    moved: int = 0
    tier: str = "Basic"

    def total(self, name: str) -> int:
        """The sum of what all events did."""
        return sum(getattr(outcome, name) for outcome in self.done.values())

    @property
    def balance(self) -> int:
        return self.moved + self.total("points")

    def update_tier(self) -> None:
        """Set the tier by the balance."""
        self.tier = max((name for name in TIERS if TIERS[name] <= self.balance), key=TIERS.__getitem__, default="Basic")


@dataclass
class ProgramModel:
    """The members by name; `off` are the codes of campaigns that are switched off."""

    members: dict[str, Member]
    off: set[str] = field(default_factory=set)
    sent: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    effects: Effects = field(default_factory=Effects)

    def take(self, operation: Operation) -> None:
        """Do one step."""
        member = self.members[operation.member]
        if operation.kind == "track":
            self._track(member, operation.event or {})
        elif operation.kind == "cancel":
            self._undo(member, operation.key)
        elif operation.kind == "mint":
            member.moved += operation.amount
            self.effects["mint"] += 1
        elif operation.kind == "burn" and operation.amount <= member.balance:
            member.moved -= operation.amount
            self.effects["burn"] += 1
        elif operation.kind == "switch":
            self.off ^= {operation.key}
            self.effects["switch"] += 1
        before = member.tier
        member.update_tier()
        self.effects["tier"] += member.tier != before

    def _track(self, member: Member, event: Mapping[str, Any]) -> None:
        key = event["systemUniqueKey"]
        if key in self.sent:
            return
        self.sent[key] = event
        if event["eventType"] == ORDER_CANCELLED:
            self._undo(member, event["payload"]["order"]["externalId"])
        elif event["eventType"] == ORDER_CREATED:
            member.done[key] = self._order(member, event["payload"]["order"]["total"])
            self.effects.update(name for name, number in vars(member.done[key]).items() if number)
        else:
            pays = member.balance >= RICH and "d-price" not in self.off
            member.done[key] = Done(points=-PRICE if pays else 0)
            self.effects["pay"] += pays

    def _undo(self, member: Member, key: str) -> None:
        undone = member.done.pop(key)
        self.effects.update(f"undo {name}" for name, number in vars(undone).items() if number)

    def _order(self, member: Member, total: int) -> Done:
        outcome, on = Done(), lambda code: code not in self.off
        remaining = TIMES - member.total("achieved")
        if remaining > 0:
            outcome.counted = 1
            outcome.achieved = max(0, min(remaining, (member.total("counted") + 1) // GOAL - member.total("achieved")))
        outcome.budget_points = total * on("a-dollars")
        if on("b-first-orders") and member.total("bonuses") < BONUSES:
            outcome.bonuses = 1
            outcome.points += BONUS
        if on("c-badge") and total >= BADGE_TOTAL and member.total("badges") < BADGES:
            outcome.badges = 1
        if on("e-gold") and member.tier == "Gold":
            outcome.budget_points += GOLD_BONUS
        if on("f-coupon") and total >= COUPON_TOTAL and member.total("coupons") < COUPONS:
            outcome.coupons = 1
        outcome.points += REWARD * outcome.achieved + outcome.budget_points
        return outcome


class Histories:
    """Random steps that the model takes while they are drawn, so that no step needs more than the members have."""

    def __init__(self, seed: int, members: int) -> None:
        self.pick = random.Random(seed)
        self.model = ProgramModel({f"member-{number}": Member() for number in range(members)})

    def steps(self, count: int) -> list[Operation]:
        """The next `count` steps."""
        steps = []
        while len(steps) < count:
            step = self._step()
            if step is not None:
                self.model.take(step)
                steps.append(step)
        return steps

    def _step(self) -> Operation | None:
        name = self.pick.choice(list(self.model.members))
        kind = self.pick.choices(
            ("order", "generic", "undo", "mint", "burn", "repeat", "reuse", "dry-run", "capture", "switch", "jobs"),
            (50, 12, 20, 6, 7, 4, 2, 2, 2, 4, 2),
        )[0]
        if kind in ("order", "generic", "dry-run", "capture"):
            event = self._event(name, generic=kind == "generic")
            return Operation("track" if kind in ("order", "generic") else kind, name, event)
        if kind in ("mint", "burn"):
            return Operation(kind, name, amount=self.pick.randint(1, 60))
        if kind == "undo":
            return self._undo(name)
        if kind == "switch":
            return Operation(kind, name, key=self.pick.choice(("a-dollars", "b-first-orders", "c-badge", "d-price")))
        if kind == "jobs":
            return Operation(kind, name)
        return self._repetition(name, kind)

    def _event(self, name: str, *, generic: bool) -> dict[str, Any]:
        key = f"event-{uuid.UUID(int=self.pick.getrandbits(128))}"
        fields = {"loyaltyMemberId": name, "systemUniqueKey": key}
        if generic:
            return {**fields, "eventType": GENERIC, "payload": {}}
        order = {"externalId": key, "total": self.pick.randint(1, 60), "items": []}
        return {**fields, "eventType": ORDER_CREATED, "payload": {"order": order}}

    def _undo(self, name: str) -> Operation | None:
        """Cancel an event whose points are not spent, by its key, or an order by an event about it."""
        member = self.model.members[name]
        keys = [key for key, outcome in member.done.items() if outcome.points <= member.balance]
        if not keys:
            return None
        key = self.pick.choice(keys)
        if self.model.sent[key]["eventType"] == ORDER_CREATED and self.pick.random() < 0.6:
            event = {**self._event(name, generic=True), "eventType": ORDER_CANCELLED}
            return Operation("track", name, {**event, "payload": {"order": {"externalId": key}}})
        return Operation("cancel", name, key=key)

    def _repetition(self, name: str, kind: str) -> Operation | None:
        """A step that sends an earlier event again, or another event with its key."""
        events = [event for event in self.model.sent.values() if event["loyaltyMemberId"] == name]
        if not events:
            return None
        event = self.pick.choice(events)
        return Operation("track" if kind == "repeat" else kind, name, event)
