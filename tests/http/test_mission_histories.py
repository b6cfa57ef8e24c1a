"""Random histories of events and cancellations through the API, compared with a list of the uncancelled events."""

from __future__ import annotations

import random

import pytest

from tests.builders.missions import create, times_and_count
from tests.builders.tracking import Shop, event

DAYS = [f"2026-03-0{day}T12:00:00Z" for day in range(1, 5)]


class Model:
    """The uncancelled events of one member: key -> (day, achievements), in the order in which they counted."""

    def __init__(self, goal, most, limit):
        self.goal, self.most, self.limit = goal, most, limit
        self.standing = {}

    @property
    def achieved(self):
        return sum(times for _, times in self.standing.values())

    def count(self, key, day):
        """The achievements of the event; None if it does not count."""
        room = self.most - self.achieved
        if self.limit is not None:
            room = min(room, self.limit - sum(times for when, times in self.standing.values() if when == day))
        if room <= 0:
            return None
        due = (len(self.standing) + 1) // self.goal - self.achieved
        self.standing[key] = (day, min(room, max(0, due)))
        return self.standing[key][1]


@pytest.mark.parametrize(("goal", "most", "limit"), [(1, 6, None), (3, 1000, None), (2, 4, 1), (3, 1000, 2)])
def test_balances_follow_from_the_uncancelled_events(organization, goal, most, limit):
    shop, chance, model = Shop(organization), random.Random(goal * 100 + most), Model(goal, most, limit)
    limits = {} if limit is None else {"repetitionPeriod": "daily", "periodLimit": limit}
    mission = create(shop, goalCount=goal, maxRepetitions=most, pointsAccrual=10, **limits)
    ana, keys = shop.member(), []
    for _ in range(25):
        if keys and chance.random() < 0.4:
            key = keys.pop(chance.randrange(len(keys)))
            shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
            model.standing.pop(key, None)
        else:
            days = [chance.choice(DAYS) for _ in range(chance.randint(1, 4))]
            for day, result in zip(days, shop.track(*(event(ana, externalEventDate=day) for day in days)), strict=True):
                keys.append(result["loyaltyEventKey"])
                expected_achievements = model.count(keys[-1], day)
                assert [len(entry["rewards"]) for entry in result["missions"]] == (
                    [] if expected_achievements is None else [int(expected_achievements > 0)]
                )
                if expected_achievements is not None:
                    assert result["missions"][0]["timesAchieved"] == model.achieved
        count = len(model.standing)
        assert times_and_count(shop, ana, mission) == (model.achieved, (count - 1) % goal + 1 if count else 0)
        assert shop.balance(ana) == 10 * model.achieved
    for key in keys:
        shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
    assert (times_and_count(shop, ana, mission), shop.balance(ana)) == ((0, 0), 0)
    shop.check_ledger()
