"""Random histories of events and cancellations through the API, compared with a list of the uncancelled events."""

from __future__ import annotations

import random

import pytest

from tests.builders.missions import create, times_and_count
from tests.builders.tracking import Shop, event

DAYS = [f"2026-03-0{day}T12:00:00Z" for day in range(1, 5)]


class Model:
    """The events of one member that were not cancelled, in the order in which they counted.

    `achievements_by_event` has the day and the number of achievements for the key of each event.
    """

    def __init__(self, goal, max_repetitions, daily_limit):
        self.goal, self.max_repetitions, self.daily_limit = goal, max_repetitions, daily_limit
        self.achievements_by_event = {}

    @property
    def times_achieved(self):
        """How often the mission is achieved."""
        return sum(times for _, times in self.achievements_by_event.values())

    def count(self, key, day):
        """Count an event; return how many achievements it completes, or None if it does not count."""
        remaining = self.max_repetitions - self.times_achieved
        if self.daily_limit is not None:
            times_on_day = sum(times for when, times in self.achievements_by_event.values() if when == day)
            remaining = min(remaining, self.daily_limit - times_on_day)
        if remaining <= 0:
            return None
        due_achievements = (len(self.achievements_by_event) + 1) // self.goal - self.times_achieved
        self.achievements_by_event[key] = (day, min(remaining, max(0, due_achievements)))
        return self.achievements_by_event[key][1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "max_repetitions", "daily_limit"), [(1, 6, None), (3, 1000, None), (2, 4, 1), (3, 1000, 2)]
)
def test_progress_and_points_depend_only_on_the_events_that_were_not_cancelled(
    organization, goal, max_repetitions, daily_limit
):
    shop, model = Shop(organization), Model(goal, max_repetitions, daily_limit)
    # Another random history for each case.
    rng = random.Random(goal * 100 + max_repetitions)
    limits = {} if daily_limit is None else {"repetitionPeriod": "daily", "periodLimit": daily_limit}
    mission = create(shop, goalCount=goal, maxRepetitions=max_repetitions, pointsAccrual=10, **limits)
    ana, keys = shop.member(), []
    for _ in range(25):
        if keys and rng.random() < 0.4:
            key = keys.pop(rng.randrange(len(keys)))
            shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
            model.achievements_by_event.pop(key, None)
        else:
            days = [rng.choice(DAYS) for _ in range(rng.randint(1, 4))]
            for day, result in zip(days, shop.track(*(event(ana, externalEventDate=day) for day in days)), strict=True):
                keys.append(result["loyaltyEventKey"])
                expected_achievements = model.count(keys[-1], day)
                assert [len(entry["rewards"]) for entry in result["missions"]] == (
                    [] if expected_achievements is None else [int(expected_achievements > 0)]
                )
                if expected_achievements is not None:
                    assert result["missions"][0]["timesAchieved"] == model.times_achieved
        # After each batch or cancellation, the count is the position in the present goal, from 1 to the goal.
        count = len(model.achievements_by_event)
        assert times_and_count(shop, ana, mission) == (model.times_achieved, (count - 1) % goal + 1 if count else 0)
        assert shop.balance(ana) == 10 * model.times_achieved
    for key in keys:
        shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
    assert (times_and_count(shop, ana, mission), shop.balance(ana)) == ((0, 0), 0)
    shop.check_ledger()
