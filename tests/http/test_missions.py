"""Missions: what can be saved, what counts, what is paid, and what is taken back."""

from __future__ import annotations

import pytest

from tests.builders.missions import balance, create
from tests.builders.tracking import Shop, event


@pytest.fixture
def shop(organization):
    return Shop(organization)


def counters(result):
    return [
        (each["currentCounter"], each["newCounter"], each["achieved"], each["timesAchieved"])
        for each in result["missions"]
    ]


def test_events_count_until_the_goal_is_reached_and_begin_again(shop):
    mission = create(shop, pointsAccrual=50)
    ana = shop.member()
    seen = [counters(each) for each in shop.track(*(event(ana) for _ in range(5)))]
    assert seen == [[(0, 1, False, 0)], [(1, 2, False, 0)], [(2, 3, True, 1)], [(0, 1, False, 1)], [(1, 2, False, 1)]]
    assert shop.balance(ana) == 50
    found = balance(shop, ana, mission["missionKey"])
    assert (found["timesAchieved"], found["currentCounterCount"], found["lastCounterCountWhenAchieved"]) == (1, 2, 3)
    assert found["lastAchievedAt"] is not None
    shop.check_ledger()
