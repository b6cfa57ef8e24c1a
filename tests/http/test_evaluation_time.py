"""The expressions of all events of a call share one time limit."""

from __future__ import annotations

import pytest

from handlers.services.unit_of_work import evaluation
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, event, running

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
    monkeypatch.setattr(evaluation, "_call_seconds", 0.0)
    assert count_errors_of_two_events() == [1, 1]
    assert shop.balance(member) == 2 * 10


def test_rules_of_events_that_a_mint_causes_share_the_time_limit_of_the_call(shop, monkeypatch):
    shop.campaign(running(mint(10), rule=RULE_WITHOUT_PAYLOAD), eventType="ledger-transaction-created")
    member = shop.member()
    shop.give(member, 1)
    # The minted points cause further events, up to the maximum depth.
    rewarded_balance = shop.balance(member)
    assert rewarded_balance > 1
    monkeypatch.setattr(evaluation, "_call_seconds", 0.0)
    shop.give(member, 1)
    # Only the minted point: the rule of the campaign fails.
    assert shop.balance(member) == rewarded_balance + 1
