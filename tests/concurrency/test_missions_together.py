"""Missions under many threads: every event counts once, and nothing is achieved more often than allowed."""

from __future__ import annotations

from functools import partial

from tests.builders.missions import advance, balance, create, times_and_count
from tests.builders.tracking import event
from tests.concurrency.together import together


def test_events_of_one_member_count_each_once(shop):
    mission = create(shop, goalCount=7, pointsAccrual=10)
    ana = shop.member()

    def rounds(count):
        return [result for _ in range(count) for result in shop.track(event(ana), event(ana))]

    results = [result for batch in together([partial(rounds, 15)] * 2) for result in batch]
    moves = [result["missions"][0] for result in results]
    assert sorted(move["newCounter"] for move in moves) == sorted(number % 7 + 1 for number in range(60))
    assert sorted(move["timesAchieved"] for move in moves if move["achieved"]) == list(range(1, 9))
    assert times_and_count(shop, ana, mission) == (8, 4)
    assert shop.balance(ana) == 80
    shop.check_ledger()


def test_32_threads_achieve_exactly_as_often_as_allowed(shop):
    mission = create(shop, goalCount=2, maxRepetitions=10, pointsAccrual=1)
    daily = create(shop, goalCount=1, repetitionPeriod="daily", periodLimit=3, pointsAccrual=100)
    ana = shop.member()
    together([partial(shop.track_one, event(ana, externalEventDate="2026-03-02T08:00:00Z")) for _ in range(32)])
    assert times_and_count(shop, ana, mission) == (10, 2)
    assert times_and_count(shop, ana, daily) == (3, 1)
    assert shop.balance(ana) == 10 + 300
    assert sum(row.counted for row in shop.rows("mission_trackings", "counted")) == 20 + 3


def test_one_request_that_is_sent_by_many_acts_once(shop):
    mission = create(shop, goalCount=2, pointsAccrual=5)
    ana = shop.member()
    send = partial(advance, shop, ana, mission["missionId"], 5, systemUniqueKey="card-1")
    answers = together([send] * 16)
    assert all(answer == answers[0] for answer in answers)
    assert times_and_count(shop, ana, mission) == (2, 1)
    assert shop.balance(ana) == 10


def test_counting_and_cancelling_at_once_leave_the_count_of_active_events(shop):
    mission = create(shop, goalCount=3, pointsAccrual=10)
    ana = shop.member()
    first = shop.track(*(event(ana) for _ in range(12)))

    def cancel(result):
        shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)

    together(
        [
            *(partial(cancel, tracked) for tracked in first[::2]),
            *(partial(shop.track_one, event(ana)) for _ in range(6)),
        ]
    )
    standing = shop.rows("mission_trackings", "counted, achieved, reversal_loyalty_event_id IS NULL AS stands")
    achieved = sum(row.achieved for row in standing if row.stands)
    assert sum(row.counted for row in standing if row.stands) == 12
    assert balance(shop, ana, mission["missionKey"])["timesAchieved"] == achieved
    assert times_and_count(shop, ana, mission)[1] == 3
    assert shop.balance(ana) == 10 * achieved
    shop.check_ledger()
