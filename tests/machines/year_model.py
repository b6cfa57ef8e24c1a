"""A program whose rules depend on time, as simple as possible: no database, no code of the product.

Points expire three months after they were earned, by the calendar of Madrid. A member who earns enough points in a
calendar year has a tier until the year ends. Purchases between 14:00 and 18:00 earn a bonus.
"""

from __future__ import annotations

import random
from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MADRID = ZoneInfo("Europe/Madrid")
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
MONTHS = 3
OPENS, CLOSES, BONUS = 14, 18, 7
TIERS = {"Silver": 150, "Gold": 350}
EFFECTS = ("earn", "bonus", "spend", "refuse", "expire", "reach a tier", "lose a tier")


@dataclass(frozen=True)
class Step:
    """The clock advances to `at`; then a member buys for `bought`, or spends `spent` points."""

    at: datetime
    member: str
    bought: int = 0
    spent: int = 0


def random_year(seed: int, members: Sequence[str], steps: int) -> list[Step]:
    """Random steps that are spread over about 430 days."""
    chance, at, year = random.Random(seed), START, []
    for _ in range(steps):
        at += timedelta(seconds=chance.randrange(1, 2 * 430 * 86400 // steps))
        member = chance.choice(members)
        if chance.random() < 0.7:
            year.append(Step(at, member, bought=chance.randrange(1, 120)))
        else:
            year.append(Step(at, member, spent=chance.randrange(1, 200)))
    return year


def months_later(moment: datetime) -> datetime:
    """The same time of day in Madrid three months later; a day that the month lacks is its last one."""
    local = moment.astimezone(MADRID)
    month = local.month - 1 + MONTHS
    year, month = local.year + month // 12, month % 12 + 1
    day = min(local.day, monthrange(year, month)[1])
    return local.replace(year=year, month=month, day=day, fold=0).astimezone(UTC)


@dataclass
class Member:
    """A member: lots (expiry and amount), the points earned in each year, and the expired points by moment."""

    lots: list[tuple[datetime, int]] = field(default_factory=list)
    earned: Counter[int] = field(default_factory=Counter)
    expired: Counter[datetime] = field(default_factory=Counter)

    def pass_time(self, now: datetime) -> None:
        """Expire lots up to a moment."""
        for end, amount in self.lots:
            if end <= now and amount:
                self.expired[end] += amount
        self.lots = [(end, amount) for end, amount in self.lots if end > now]

    @property
    def balance(self) -> int:
        """The points that can be spent."""
        return sum(amount for _, amount in self.lots)

    def earn(self, amount: int, now: datetime) -> None:
        """Earn points."""
        self.lots.append((months_later(now), amount))
        self.earned[now.astimezone(MADRID).year] += amount

    def spend(self, amount: int) -> bool:
        """Spend points, the earliest to expire first; False if there are fewer."""
        if amount > self.balance:
            return False
        rest = []
        for end, remaining in sorted(self.lots):
            part = min(remaining, amount)
            amount -= part
            rest.append((end, remaining - part))
        self.lots = rest
        return True

    def tier(self, now: datetime) -> str:
        """The tier by the points that were earned in the current year."""
        earned_points = self.earned[now.astimezone(MADRID).year]
        reached_tiers = ((minimum, name) for name, minimum in TIERS.items() if earned_points >= minimum)
        return max(reached_tiers, default=(0, "Basic"))[1]


def points_of(step: Step) -> int:
    """The points that a purchase earns."""
    hour = step.at.astimezone(MADRID).hour
    return step.bought + (BONUS if OPENS <= hour < CLOSES else 0)
