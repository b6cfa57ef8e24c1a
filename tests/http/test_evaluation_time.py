"""The expressions of all events of a call share one time limit, and so do a queued event and what it causes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from domain.expressions.limits import CHECK_EVERY
from handlers.server.jobs import expire_points
from handlers.services.unit_of_work import deadlines, evaluation
from handlers.services.unit_of_work.participants import missions
from persistence.transactions import deadline_of_thread
from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.queue import drain, outcome, send
from tests.builders.tracking import GENERIC, Shop, event, running

# Compares each number of the payload with each other one until it finds the same.
RULE = "event.payload.numbers.all(n, event.payload.numbers.exists(m, m == n))"
NUMBERS = list(range(100))
RULE_WITHOUT_PAYLOAD = f"{NUMBERS}.all(n, {NUMBERS}.exists(m, m == n))"
PAYLOAD = {"numbers": list(range(200))}


@pytest.fixture
def shop(organization):
    return Shop(organization)


def test_rules_fail_once_the_time_of_a_call_is_used_up(shop, monkeypatch):
    shop.campaign(running(mint(10), rule=RULE))
    member = shop.member()

    def count_errors_of_two_events():
        """Track two events in one call; return the number of errors of each."""
        results = shop.track(event(member, payload=PAYLOAD), event(member, payload=PAYLOAD))
        return [len(result["errors"]) for result in results]

    assert count_errors_of_two_events() == [0, 0]
    assert shop.balance(member) == 2 * 10
    # A call has no time left for expressions.
    monkeypatch.setattr(deadlines, "_call_seconds", 0.0)
    assert count_errors_of_two_events() == [1, 1]
    assert shop.balance(member) == 2 * 10


def test_rules_of_events_that_a_mint_causes_share_the_time_limit_of_the_call(shop, monkeypatch):
    shop.campaign(running(mint(10), rule=RULE_WITHOUT_PAYLOAD), eventType="ledger-transaction-created")
    member = shop.member()
    shop.give(member, 1)
    # The minted points cause further events, up to the maximum depth.
    rewarded_balance = shop.balance(member)
    # The minted point, and 10 points of each of so many events.
    assert rewarded_balance == 1 + 10 * 5
    monkeypatch.setattr(deadlines, "_call_seconds", 0.0)
    shop.give(member, 1)
    # Only the minted point: the rule of the campaign fails.
    assert shop.balance(member) == rewarded_balance + 1


@pytest.fixture
def slow_rules(monkeypatch):
    """Let each evaluated event take half a second of CPU time, before its rules are evaluated."""
    clock = SimpleNamespace(seconds=0.0)
    take_deadline = deadlines.deadline_of

    def take_time_and_deadline(unit, tracked):
        deadline = take_deadline(unit, tracked)
        clock.seconds += 0.5
        return deadline

    monkeypatch.setattr(deadlines, "time", SimpleNamespace(thread_time=lambda: clock.seconds))
    monkeypatch.setattr(evaluation, "deadline_of", take_time_and_deadline)


def test_a_queued_event_shares_two_seconds_with_all_that_it_causes(shop, slow_rules):
    shop.campaign(running(*(mint(1) for _ in range(5)), rule=RULE_WITHOUT_PAYLOAD), eventType=GENERIC)
    shop.campaign(running(mint(100), rule=RULE_WITHOUT_PAYLOAD), eventType="ledger-transaction-created")
    member = shop.member()
    # Both events have the same origin.
    receipts = send(shop, event(member), event(member))
    drain(shop)
    assert [len(outcome(shop, receipt)["result"]["errors"]) for receipt in receipts] == [0, 0]
    # The rules of the queued event and of two caused events begin before the two seconds have passed.
    assert shop.balance(member) == 2 * (5 + 2 * 100)


# The rules of the four due events begin after 0.5, 1, 1.5 and 2 seconds; each event in time gives a point.
@pytest.mark.parametrize(("seconds", "points"), [(1.75, 3), (1.25, 2)])
def test_the_due_events_of_a_step_of_a_job_share_the_time_of_a_call(shop, slow_rules, monkeypatch, seconds, points):
    monkeypatch.setattr(deadlines, "_call_seconds", seconds)
    shop.campaign(running(mint(1), rule=RULE_WITHOUT_PAYLOAD), eventType="points-expired")
    members = [shop.member() for _ in range(4)]
    for member in members:
        shop.give(member, 10)
    expire_all = "UPDATE ledger_lots SET expires_at = created_at WHERE organization_id = :id"
    Points.default(shop.organization).change(expire_all, id=shop.organization.id)
    expire_points(shop.organization.api.engine, shop.organization.id)
    assert sum(shop.balance(member) for member in members) == points


def test_a_call_evaluates_no_further_event_after_its_deadline(shop, monkeypatch):
    evaluated_ids = []
    original = evaluation._evaluate

    def evaluate_until_the_deadline(unit, tracked, order):
        """Evaluate an event; the deadline of the call passes during the third one."""
        evaluated_ids.append(tracked.loyalty_event_id)
        if len(evaluated_ids) == 3:
            deadline_of_thread.get().expire()
        return original(unit, tracked, order)

    shop.campaign(running(mint(10)), eventType=GENERIC)
    member = shop.member()
    monkeypatch.setattr(evaluation, "_evaluate", evaluate_until_the_deadline)
    body = {"events": [event(member) for _ in range(10)]}
    shop.organization.integration.post("/events/track", body, expect=503)
    assert len(evaluated_ids) == 3
    assert shop.balance(member) == 0


def test_an_event_counts_for_no_further_mission_after_the_time_limit(shop, monkeypatch):
    mission = {"name": "Visits", "eventType": GENERIC, "maxRepetitions": 1, "goalCount": 5, "active": True}
    mission_ids = [shop.administration.post("/missions", mission)["mission"]["missionId"] for _ in range(5)]
    member = shop.member()

    def count_missions():
        """Track an event; return the missions that count it, and those with errors."""
        [result] = shop.track(event(member))
        return [[entry["missionId"] for entry in result[name]] for name in ("missions", "errors")]

    monkeypatch.setattr(deadlines, "_call_seconds", 0.0)
    # The third mission is the first one at which the clock is checked.
    monkeypatch.setattr(missions, "COUNT_COST", CHECK_EVERY // 2)
    assert count_missions() == [mission_ids[:2], mission_ids[2:]]
    monkeypatch.setattr(deadlines, "_call_seconds", 5.0)
    assert count_missions() == [mission_ids, []]
