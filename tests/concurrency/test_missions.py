"""Missions during calls of many threads: each event counts once, and no mission is achieved more often than allowed."""

from __future__ import annotations

from functools import partial

from tests.builders.missions import advance, create, progress_of, times_and_count
from tests.builders.tracking import event
from tests.concurrency.simultaneous import run_simultaneously


def test_each_of_many_events_of_one_member_counts_once(shop):
    mission = create(shop, goalCount=7, pointsAccrual=10)
    ana = shop.member()

    def track_pairs(count):
        """Track so many pairs of events, one pair after the other; return all results."""
        return [result for _ in range(count) for result in shop.track(event(ana), event(ana))]

    results = [result for results in run_simultaneously([partial(track_pairs, 15)] * 2) for result in results]
    progress = [result["missions"][0] for result in results]
    # 60 events achieve the goal of 7 eight times, and 4 of them are left.
    assert sorted(step["newCounter"] for step in progress) == sorted(number % 7 + 1 for number in range(60))
    assert sorted(step["timesAchieved"] for step in progress if step["achieved"]) == list(range(1, 9))
    assert times_and_count(shop, ana, mission) == (8, 4)
    assert shop.balance(ana) == 8 * 10
    shop.check_ledger()


def test_32_events_at_the_same_time_achieve_a_mission_exactly_as_often_as_allowed(shop):
    mission = create(shop, goalCount=2, maxRepetitions=10, pointsAccrual=1)
    daily_mission = create(shop, goalCount=1, repetitionPeriod="daily", periodLimit=3, pointsAccrual=100)
    ana = shop.member()
    run_simultaneously(
        [partial(shop.track_one, event(ana, externalEventDate="2026-03-02T08:00:00Z")) for _ in range(32)]
    )
    # Ten achievements with 2 events each, and three with 1; no event counts after the last one.
    assert times_and_count(shop, ana, mission) == (10, 2)
    assert times_and_count(shop, ana, daily_mission) == (3, 1)
    assert shop.balance(ana) == 10 * 1 + 3 * 100
    assert sum(row.counted for row in shop.rows("mission_trackings", "counted")) == 10 * 2 + 3 * 1


def test_one_request_that_many_threads_send_advances_a_mission_once(shop):
    mission = create(shop, goalCount=2, pointsAccrual=5)
    ana = shop.member()
    send = partial(advance, shop, ana, mission["missionId"], amount=5, systemUniqueKey="card-1")
    responses = run_simultaneously([send] * 16)
    assert all(response == responses[0] for response in responses)
    # A count of 5 achieves the goal of 2 two times, and 1 is left.
    assert times_and_count(shop, ana, mission) == (2, 1)
    assert shop.balance(ana) == 2 * 5


def test_events_and_cancellations_at_the_same_time_leave_the_count_of_the_active_events(shop):
    mission = create(shop, goalCount=3, pointsAccrual=10)
    ana = shop.member()
    first_results = shop.track(*(event(ana) for _ in range(12)))

    def cancel(result):
        shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)

    run_simultaneously(
        [
            *(partial(cancel, tracked_event) for tracked_event in first_results[::2]),
            *(partial(shop.track_one, event(ana)) for _ in range(6)),
        ]
    )
    trackings = shop.rows("mission_trackings", "counted, achieved, reversal_loyalty_event_id IS NULL AS active")
    achievement_count = sum(row.achieved for row in trackings if row.active)
    assert sum(row.counted for row in trackings if row.active) == 12 - 6 + 6
    assert progress_of(shop, ana, mission["missionKey"])["timesAchieved"] == achievement_count
    # 12 is a multiple of the goal of 3.
    _, count = times_and_count(shop, ana, mission)
    assert count == 3
    assert shop.balance(ana) == 10 * achievement_count
    shop.check_ledger()
