"""Partial returns of an order whose points are spent, and a model of five numbers: both have the same balance."""

from __future__ import annotations

from random import Random

from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.tracking import ORDER_CREATED, Shop, order, running
from tests.machines.effects import Effects

HISTORIES, STEPS, TOTAL = 34, 16, 100
RULES = ("return", "return of spent points", "burn", "revert of a burn", "repayment", "mint")


class History:
    """One member with one order of TOTAL, which gives a point for each unit of money."""

    def __init__(self, shop: Shop, chance: Random, effects: Effects) -> None:
        self.shop, self.chance, self.effects = shop, chance, effects
        self.points = Points.default(shop.organization)
        self.member = shop.member()
        for status in ("created", "confirmed"):
            shop.track_one(order(self.member, TOTAL, status=status, external_id=self.member))
        self.balance = TOTAL
        self.returned_total = self.taken_points = 0
        # The unreverted burns: transaction id and amount. The older ones were made before the last return that found
        # too few points.
        self.older_burns: list[tuple[int, int]] = []
        self.newer_burns: list[tuple[int, int]] = []

    @property
    def missing_points(self) -> int:
        """The points of returned goods that have not been taken back."""
        return self.returned_total - self.taken_points

    def take(self, limit: int) -> None:
        """Take the missing points, at most `limit`."""
        amount = min(self.missing_points, limit)
        self.balance -= amount
        self.taken_points += amount

    def return_part(self) -> None:
        """Return goods, but not the last piece, so that the order stays open."""
        worth = self.chance.randint(1, 20)
        if self.returned_total + worth >= TOTAL:
            return
        self.shop.track_one(order(self.member, worth, status="partially-returned", external_id=self.member))
        self.returned_total += worth
        self.take(self.balance)
        if self.missing_points:
            self.older_burns += self.newer_burns
            self.newer_burns = []
        self.effects["return of spent points" if self.missing_points else "return"] += 1

    def burn(self) -> None:
        """Burn some of the points, or all."""
        if self.balance:
            amount = self.chance.choice([self.balance, self.chance.randint(1, self.balance)])
            transaction = self.shop.take(self.member, amount)
            self.newer_burns.append((transaction["ledgerTransactionId"], amount))
            self.balance -= amount
            self.effects["burn"] += 1

    def revert_burn(self) -> None:
        """Revert a burn: missing points are taken from its points if it was made before they were missing."""
        burns = self.older_burns or self.newer_burns
        if burns:
            transaction_id, amount = burns.pop(self.chance.randrange(len(burns)))
            self.points.revert(transaction_id)
            self.balance += amount
            self.effects["revert of a burn"] += 1
            if burns is self.older_burns and self.missing_points:
                self.take(amount)
                self.effects["repayment"] += 1

    def mint(self) -> None:
        """Mint a few points, which only the next return can take."""
        amount = self.chance.randint(1, 20)
        self.shop.give(self.member, amount)
        self.balance += amount
        self.effects["mint"] += 1

    def step(self) -> None:
        """Do something at random, and compare the balances."""
        self.chance.choice([self.return_part, self.burn, self.burn, self.revert_burn, self.mint])()
        balance = self.shop.balance(self.member)
        assert balance == self.balance


def test_balances_after_partial_returns_are_those_of_the_model(api):
    shop, effects, chance = Shop(api.organization()), Effects(), Random(1)
    shop.campaign(running(mint(("=", "order.total"))), eventType=ORDER_CREATED)
    for _ in range(HISTORIES):
        history = History(shop, chance, effects)
        for _ in range(STEPS):
            history.step()
    effects.check(RULES)
    shop.check_ledger()
