"""Random orders on a test clock, compared with a model after each step: points, budgets, winners and allocations."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running
from tests.machines.effects import Effects
from tests.machines.offer_model import AMOUNT, DAYS, MONEY, PERCENT, POINTS, OfferModel
from tests.machines.year_model import MONTHS, START

MEMBERS = ("ana", "ben")
RULES = (
    *("available", "expired", "extended", "points cut", "discount cut", "percentage", "amount", "spent", "refused"),
    *("voucher", "voucher cut"),
)
CANCELLED = ("cancelled", "cancelled while waiting")


@pytest.fixture
def api(api_without_validation):
    return api_without_validation


class Offers:
    """The program of the model on the server, and the keys of the events of its sales."""

    def __init__(self, api):
        self.clock, self.now = Clock.new(api, starts_at=START.isoformat()), START
        organization = self.clock.organization
        self.shop = Shop(organization)
        organization.administration.put("", {"defaultLocale": "en", "currency": "EUR"})
        [account] = organization.administration.get(f"/ledgers/{organization.defaults.ledger_id}/accounts")["results"]
        self.points = Points(organization, account)
        body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
        organization.administration.put(self.points.path, {**body, "expiresInMonths": MONTHS})
        group = organization.administration.post("/stacking-groups", {"name": "Best", "mode": "best"})
        in_group = {"stackingGroupKey": group["stackingGroup"]["stackingGroupKey"]}
        percentage = running(effect("discount", type="percentage", value=PERCENT), name="percentage", **in_group)
        amount = running(effect("discount", type="amount", value=AMOUNT), name="amount", **{**in_group, "priority": 2})
        waiting = running(mint(("=", "floor(order.total)"), availableAfter=f"P{DAYS}D"))
        limits = [
            [{"scope": "campaign", "type": kind, "period": "total", "limit": limit, "sharedKey": kind}]
            for kind, limit in (("points", POINTS), ("money", MONEY))
        ]
        self.campaigns = [
            self.shop.campaign(
                *actions,
                eventType=ORDER_CREATED,
                allowPartialApplicationOnLimit=True,
                limitRules=rules,
            )
            for actions, rules in zip(([waiting], [percentage, amount]), limits, strict=True)
        ]
        self.shop.campaign(
            running(effect("discount", type="amount", value=AMOUNT)),
            eventType=GENERIC,
            allowPartialApplicationOnLimit=True,
            limitRules=limits[1],
        )
        self.members = {name: organization.member(name) for name in MEMBERS}
        self.keys = {}

    def holds(self, name):
        """The balance, the waiting points, and the next points to become available, as `OfferModel.holds`."""
        [balance] = self.shop.integration.get(f"/members/{name}")["loyaltyMember"]["ledgerBalances"]
        coming = balance.get("nextAvailable")
        coming = coming and (coming["amount"], datetime.fromisoformat(coming["availableAt"]))
        return balance["balance"], balance["pending"], coming

    def budget_counts(self):
        """The used points and the used money of the budgets."""
        paths = [f"/campaigns/{campaign['campaignId']}" for campaign in self.campaigns]
        rows = [self.shop.administration.get(path, include="limits")["campaign"]["limits"][0] for path in paths]
        assert [Decimal(row["used"]) + Decimal(row["left"]) for row in rows] == [POINTS, MONEY]
        return tuple(Decimal(row["used"]) for row in rows)

    def buy(self, name, totals):
        """Track an order; return the event's key, the action that won, its discount, and the share of each item."""
        items = [{"productCode": f"p-{n}", "quantity": 1, "total": total} for n, total in enumerate(totals)]
        result = self.shop.track_one(order(name, sum(totals), items=items))
        discounts = [effect for effect in result["effects"] if effect.get("discountAmount")]
        assert len(discounts) <= 1
        if not discounts:
            return result["loyaltyEventKey"], None, Decimal(0), []
        shares = {share["itemIndex"]: Decimal(share["amount"]) for share in discounts[0]["allocation"]}
        allocation = [shares.get(place, Decimal(0)) for place in range(len(totals))]
        return (
            result["loyaltyEventKey"],
            discounts[0]["actionName"],
            Decimal(discounts[0]["discountAmount"]),
            allocation,
        )


def step(offers, model, chance, number):
    """Do one random act on the server and on the model; return its member."""
    name = chance.choice(MEMBERS)
    kind = chance.choices(["buy", "visit", "spend", "cancel", "extend"], [40, 20, 15, 25, 12])[0]
    if kind == "buy":
        totals = [Decimal(chance.randint(1, 4000)) / 100 for _ in range(chance.randint(1, 4))]
        sale = model.buy(name, totals, offers.now)
        key, *discount = offers.buy(name, totals)
        assert discount == [sale.winner, sale.discount, sale.allocation]
        offers.keys[id(sale)] = key
    elif kind == "visit":
        result = offers.shop.track_one(event(name))
        sale = model.visit(name)
        [voucher] = result["effects"]
        value = next(param["value"] for param in voucher["params"] if param["id"] == "value")
        status = {AMOUNT: "executed", 0: "skipped"}.get(sale.discount, "partial")
        assert (voucher["status"], value) == (status, sale.discount)
        offers.keys[id(sale)] = result["loyaltyEventKey"]
    elif kind == "spend":
        amount, balance = chance.randint(1, 40), model.holds(name)[0]
        path = f"/members/by-loyalty-member-id/{name}/burn"
        status = offers.shop.administration.request("POST", path, {"amount": amount}).status
        assert status == (200 if amount <= balance else 409)
        model.counts["spent" if status == 200 else "refused"] += 1
        if status == 200:
            model.spend(name, amount)
    elif kind == "cancel" and model.sales:
        sale = chance.choice(model.sales[-6:])
        offers.shop.integration.post(f"/events/{offers.keys[id(sale)]}/cancel", {}, expect=200)
        model.give_up(sale)
    elif kind == "extend":
        body = {"ledgerAccountId": offers.points.account_id, "memberId": offers.members[name]["memberId"]}
        body |= {"months": MONTHS, "systemUniqueKey": f"extension-{number}"}
        extension = offers.shop.administration.post("/expiry-extensions", body, expect=200)
        assert extension["lots"] == model.extend(name)
    return name


def advance(offers, model, chance):
    """Advance the clock, often to the moment at which points become available or expire, or to a second before it."""
    now = offers.now
    lots = [lot for lots in model.lots.values() for lot in lots if lot.amount]
    moments = [lot.available if lot.is_waiting else lot.ends for lot in lots]
    moments = [moment - chance.choice([timedelta(0), timedelta(seconds=1)]) for moment in moments]
    later = now + timedelta(hours=chance.choice([0, 1, 40, 24 * 12]))
    soon = min((moment for moment in moments if moment > now), default=later)
    moment = chance.choice([soon, later])
    if moment > now:
        offers.clock.advance(moment.isoformat())
        offers.now = moment
        model.pass_time(moment)


def run(api, seed, steps):
    """Run a random history; return how many times each rule had an effect.

    After each step the points of its member are compared, and all points and budgets that have changed; in the end all.
    """
    chance, offers = random.Random(seed), Offers(api)
    model = OfferModel({name: [] for name in MEMBERS})
    counts, points = model.budget_counts(), {name: model.holds(name) for name in MEMBERS}
    for number in range(steps):
        advance(offers, model, chance)
        member, points_before = step(offers, model, chance, number), points
        points = {name: model.holds(name) for name in MEMBERS}
        for name in MEMBERS:
            if name == member or points[name] != points_before[name]:
                assert offers.holds(name) == points[name]
        if model.budget_counts() != counts:
            counts = model.budget_counts()
            assert offers.budget_counts() == counts
    assert {name: offers.holds(name) for name in MEMBERS} == points
    assert offers.budget_counts() == counts
    offers.shop.check_ledger()
    return model.counts


def test_points_budgets_and_discounts_after_random_steps_equal_the_model(api):
    Effects.of_all(run(api, seed, steps=100) for seed in (1, 2)).check((*RULES, *CANCELLED), minimum=2)


@pytest.mark.stress
def test_points_budgets_and_discounts_after_many_random_steps_equal_the_model(api):
    Effects.of_all(run(api, seed, steps=200) for seed in range(100, 140)).check((*RULES, *CANCELLED))
