"""Random programs with waiting points, budgets, groups, payments and coupons, and requests of their members.

A request that the rules refuse changes nothing. Each response is counted by name, so that a test can check that every
rule applied.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, running
from tests.machines.effects import Effects

MEMBERS = ("ana", "ben", "cora")
CENT = Decimal("0.01")
# The first campaign gives points for orders with at least this total.
MIN_TOTAL = 20
START = "2026-03-01T09:00:00Z"
# Points wait for their order to be confirmed, or for a visit of their member.
AWAITED = {"eventTypes": ["member-purchase-order-confirmed", GENERIC], "cancelAfter": "P12D"}
WAITS = (
    None,
    {"availableAfter": "P3D"},
    {"availableAfter": "PT30H", "availableRounding": "day"},
    {"availableOn": AWAITED, "availableAfter": "P1D"},
)


@dataclass
class Order:
    """An order that may still be cancelled: the key of its event, and `left`, the total that is not returned."""

    member: str
    external_id: str
    event_key: str
    left: Decimal
    is_confirmed: bool = False
    is_returned: bool = False


@dataclass
class Program:
    """A random program, its clock, and the records of its members that can still be reverted, used or released."""

    clock: Clock
    chance: random.Random
    points: Points
    stars: Points
    books: list[dict[str, Any]]
    campaigns: list[dict[str, Any]] = field(default_factory=list)
    wallets: dict[str, int] = field(default_factory=dict)
    member_ids: dict[str, int] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    visits: list[str] = field(default_factory=list)
    movements: list[tuple[Points, str]] = field(default_factory=list)
    payments: list[str] = field(default_factory=list)
    usages: list[str] = field(default_factory=list)
    waiting: list[tuple[Points, str]] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    locks: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    counts: Effects = field(default_factory=Effects)
    reevaluates: bool = False
    serial: int = 0

    @classmethod
    def new(cls, api: Any, seed: int) -> Program:
        """Set up the program of a seed."""
        chance = random.Random(seed)
        clock = Clock.new(api, starts_at=START)
        clock.organization.administration.put("", {"defaultLocale": "en", "currency": "EUR"})
        coupon_books = CouponBooks(clock.organization)
        books = [
            coupon_books.make(type="codeless", isValueCoupon=True, faceValue=12, maxCouponCount=30),
            coupon_books.make(type="codeless", restoreOnCancel=False, maxCouponCount=30),
        ]
        accounts = _accounts(clock, chance)
        program = cls(clock, chance, *accounts, books)
        for name in MEMBERS:
            member = clock.organization.member(name)
            program.wallets[name], program.member_ids[name] = member["ledgerWalletId"], member["memberId"]
        _add_campaigns(program)
        return program

    @property
    def shop(self) -> Shop:
        return Shop(self.clock.organization)

    @property
    def integration(self) -> Any:
        return self.clock.organization.integration

    @property
    def administration(self) -> Any:
        return self.clock.organization.administration

    def name(self) -> str:
        """A new unique name."""
        self.serial += 1
        return f"n-{self.serial}"

    def ask(self, what: str, surface: Any, path: str, body: Any, *refusals: str) -> Any:
        """Send a request and count it; None if it was refused by one of the `refusals`, which are slugs."""
        reply = surface.request("POST", path, body)
        if reply.status >= 400:
            slug = reply.json["type"].removeprefix("/problems/")
            assert slug in refusals, (what, body, reply.text)
            self.counts[f"{what}: {slug}"] += 1
            return None
        self.counts[what] += 1
        return reply.json

    def track(self, what: str, *events: Any, **more: Any) -> list[dict[str, Any]]:
        """Track events, check that they succeed, and count their effects by status and reason."""
        results = self.shop.track(*events, **more)
        assert {result["status"] for result in results} == {"success"}, results
        self.counts[what] += 1
        for result in results:
            for outcome in result["effects"]:
                reason = outcome.get("error", {}).get("type", "").removeprefix("/problems/")
                self.counts[f"{outcome['effectId']} {outcome['status']} {reason}".strip()] += 1
                self.counts["waiting effect"] += outcome.get("availableAt") is not None
            _check_discounts(events, result)
        return results


def _accounts(clock: Clock, chance: random.Random) -> tuple[Points, Points]:
    """The default account, whose points may wait, expire and pay, and another one with an overdraft."""
    organization = clock.organization
    [default] = organization.administration.get(f"/ledgers/{organization.defaults.ledger_id}/accounts")["results"]
    months = chance.choice([None, 1, 2])
    body = {
        "name": "Points",
        "alias": "points",
        "active": True,
        "isRevolving": True,
        "chainSyncEnabled": False,
        "pointTrackingEnabled": True,
        "fiatPerPoint": Decimal("0.05"),
        "redemption": {"pointsPerUnit": 3, "currency": "EUR", "multipleOf": chance.choice([1, 2]), "maxShare": 0.5},
        "maxBalance": chance.choice([None, 100, 200]),
        "restoredExpiryDays": chance.choice([0, 15]),
        "defaultAvailability": chance.choice(WAITS),
    }
    if months:
        body |= {"expiresInMonths": months, "expiryRounding": chance.choice(["none", "month"])}
    points = Points(organization, default)
    points.account.update(organization.administration.put(points.path, body)["ledgerAccount"])
    if chance.random() < 0.3:
        organization.administration.put(f"{points.path}/max-supply", {"maxSupply": 700})
    return points, Points.new(organization, alias="stars", overdraftLimit=20)


def _cents(number: int) -> Decimal:
    return Decimal(number) / 100


def _add_campaigns(program: Program) -> None:
    chance, shop = program.chance, program.shop

    def add(*actions: Any, **body: Any) -> None:
        program.campaigns.append(shop.campaign(*actions, **{"eventType": ORDER_CREATED, **body}))

    shared_limit = {"scope": "campaign", "type": "points", "period": "total", "limit": 400, "sharedKey": "points"}
    partial = {"allowPartialApplicationOnLimit": chance.random() < 0.7}
    wait = {
        "availableAfter": chance.choice(["P2D", "PT50H", "P10D"]),
        "availableRounding": chance.choice(["none", "day"]),
    }
    if chance.random() < 0.4:
        wait = {"availableOn": AWAITED}
    program.reevaluates = chance.random() < 0.5
    returns = {"onReturn": "reevaluate" if program.reevaluates else "prorate"}
    add(
        running(mint(("=", "floor(order.moneyTotal)"), **wait), rule=f"order.total >= {MIN_TOTAL}.0"),
        limitRules=[shared_limit],
        **partial,
        **returns,
    )
    monthly = {"scope": "member", "type": "points", "period": "monthly", "limit": 60}
    add(running(mint(("=", "floor(order.total / 3.0)"))), limitRules=[monthly, shared_limit], **partial)
    add(
        running(mint(5, ledgerAccountKey=program.stars.account["ledgerAccountKey"])),
        limitRules=[{"scope": "member", "type": "transactions", "period": "weekly", "limit": 2}],
        cooldown=chance.choice(["PT24H", "P3D"]),
    )
    group = {"name": "Offers", "mode": chance.choice(["first", "best", "worst", "all"])}
    group["scope"] = chance.choice(["order", "item"]) if group["mode"] != "all" else "order"
    stacking_group = program.administration.post("/stacking-groups", group)["stackingGroup"]
    offers = [
        effect("discount", type="percentage", value=chance.randint(5, 60), base=chance.choice(["reduced", "initial"])),
        effect(
            "discount", type="amount", value=Decimal(chance.randint(1, 900)) / 100, per=chance.choice(["order", "item"])
        ),
        effect("discount", type="percentage", value=40, maxAmount=7, itemFilter=("=", 'item.productCode != "p-1"')),
    ]
    budgets = [
        {"scope": "campaign", "type": "money", "period": "total", "limit": 120},
        {"scope": "location", "type": "money", "period": "monthly", "limit": 40, "locationLimits": {"MAD": 25}},
    ]
    in_group = {"stackingGroupKey": stacking_group["stackingGroupKey"]}
    actions = [running(offer, priority=n, **in_group) for n, offer in enumerate(offers, 1)]
    if stacking_group["mode"] in ("best", "worst") and stacking_group["scope"] == "order":
        actions.append(running(mint(30), priority=9, **in_group))
    add(*actions, limitRules=budgets, allowPartialApplicationOnLimit=chance.random() < 0.6, **returns)
    add(
        running(effect("discount", type="percentage", value=15), priority=20),
        code="fifteen",
        exclusive=chance.random() < 0.1,
    )
    first, second = (book["couponBookKey"] for book in program.books)
    coupons = {"scope": "location", "type": "coupons", "period": "total", "limit": 8}
    add(
        running(effect("assign-coupon", couponBookKey=first, amount=1), rule="order.total >= 40.0"),
        limitRules=[coupons],
    )
    use = effect("use-coupon", couponBookKey=second)
    add(running(effect("assign-coupon", couponBookKey=second, amount=1), use, rule="order.total >= 90.0"))
    extend = effect("extend-expiry", months=1)
    add(running(extend, effect("burn-points", amount=4)), eventType=GENERIC)


def _check_discounts(events: Any, result: dict[str, Any]) -> None:
    """Check that each discount is allocated to the cent, and that all of them take at most the total of each item."""
    discounts = [outcome for outcome in result["effects"] if outcome.get("discountAmount")]
    tracked_event = next(candidate for candidate in events if candidate["systemUniqueKey"] == result["systemUniqueKey"])
    details = tracked_event.get("payload", {}).get("order", {})
    items = [Decimal(item["total"]) for item in details.get("items", ())]
    discount_by_item: Counter[int] = Counter()
    for discount in discounts:
        shares = discount.get("allocation") or []
        assert not items or sum(Decimal(share["amount"]) for share in shares) == discount["discountAmount"]
        for share in shares:
            discount_by_item[share["itemIndex"]] += Decimal(share["amount"])
    assert all(discount_by_item[place] <= items[place] for place in discount_by_item)
    if discounts:
        assert sum(Decimal(discount["discountAmount"]) for discount in discounts) <= details["total"]
