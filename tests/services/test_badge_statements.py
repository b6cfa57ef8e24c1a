"""Statements about badges: the same number for 1 event and for 100, and none in an organization without badges."""

from __future__ import annotations

import pytest

from tests.builders.badges import Badges, assigns, unassigns
from tests.builders.campaigns import mint
from tests.builders.statements import count_statements
from tests.builders.tracking import GENERIC, Shop, event, running


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def count_statements_of(shop, call):
    """The number of statements that a call executes, and the number of those about badges."""
    with count_statements(shop.organization.api.engine) as texts:
        call()
    return len(texts), sum("badge" in statement for statement in texts)


@pytest.mark.slow
def test_effects_on_badges_take_about_as_many_statements_for_1_event_as_for_100(shop):
    badges = Badges(shop)
    badge_keys = [badges.create(maxAmount=10**6) for _ in range(3)]
    shop.campaign(running(*map(assigns, badge_keys), unassigns(badge_keys[0])), eventType=GENERIC)
    members = [shop.member() for _ in range(20)]

    def track_events(size):
        def track():
            for result in shop.track(*(event(members[n % 20]) for n in range(size))):
                assert {effect["status"] for effect in result["effects"]} == {"executed"}

        return count_statements_of(shop, track)

    track_events(20)
    # Ids are reserved in numbers that double, so that more events need some more statements for them.
    statements_of_1, badge_statements_of_1 = track_events(1)
    statements_of_100, badge_statements_of_100 = track_events(100)
    assert statements_of_100 - statements_of_1 <= 10
    assert badge_statements_of_100 - badge_statements_of_1 <= 10
    with count_statements(shop.organization.api.engine) as texts:
        shop.track(*(event(members[n % 20]) for n in range(100)))
    # Without the statements that reserve ids.
    assert sum("badge" in statement and "nextval" not in statement for statement in texts) == 3


def test_events_in_an_organization_without_badges_take_no_statement_about_badges(shop):
    shop.campaign(running(mint(1)))
    member = shop.member()
    shop.track(event(member))
    results = []
    _, badge_statements = count_statements_of(shop, lambda: results.append(shop.track_one(event(member))))
    assert badge_statements == 0
    cancel = f"/events/{results[0]['loyaltyEventKey']}/cancel"
    _, badge_statements = count_statements_of(shop, lambda: shop.integration.post(cancel, {}, expect=200))
    assert badge_statements == 0
