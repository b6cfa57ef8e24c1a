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


def statements(shop, call):
    """How many statements a call executes, and how many of them are about badges."""
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

        return statements(shop, track)

    track_events(20)
    # Ids are reserved in numbers that double, so that more events need some more statements for them.
    small, large = track_events(1), track_events(100)
    assert large[0] - small[0] <= 10
    assert large[1] - small[1] <= 10
    with count_statements(shop.organization.api.engine) as texts:
        shop.track(*(event(members[n % 20]) for n in range(100)))
    assert sum("badge" in statement and "nextval" not in statement for statement in texts) == 3


def test_events_in_an_organization_without_badges_take_no_statement_about_badges(shop):
    shop.campaign(running(mint(1)))
    member = shop.member()
    shop.track(event(member))
    results = []
    assert statements(shop, lambda: results.append(shop.track_one(event(member))))[1] == 0
    cancel = f"/events/{results[0]['loyaltyEventKey']}/cancel"
    assert statements(shop, lambda: shop.integration.post(cancel, {}, expect=200))[1] == 0
