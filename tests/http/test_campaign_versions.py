"""Versions of campaigns: every change creates one, effects name it, and a change may require the current one."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, event, running


@pytest.fixture
def shop(organization):
    return Shop(organization)


def versions(shop, campaign):
    """The versions that the campaign and its actions report: 1 when it is created, 2 after its first action."""
    path = f"/campaigns/{campaign['campaignId']}"
    action_versions = [result["campaignVersionId"] for result in shop.administration.get(f"{path}/actions")["results"]]
    return shop.administration.get(path)["campaign"]["campaignVersionId"], action_versions


def test_every_change_creates_a_new_version_of_the_campaign_with_all_its_actions(shop):
    campaign = shop.campaign()
    other_campaign = shop.campaign(running(mint(1)))
    path = f"/campaigns/{campaign['campaignId']}"
    assert versions(shop, campaign) == (1, [])
    first_action = shop.administration.post(f"{path}/actions", running(mint(1)))["action"]
    assert versions(shop, campaign) == (2, [2])
    shop.administration.post(f"{path}/actions", running(mint(1)))
    assert versions(shop, campaign) == (3, [3, 3])
    updated_action = shop.administration.put(f"{path}/actions/{first_action['actionId']}", running(mint(2)))["action"]
    assert updated_action["campaignVersionId"] == 4
    assert versions(shop, campaign) == (4, [4, 4])
    updated_campaign = shop.administration.put(path, {"code": campaign["code"], "name": "New"})["campaign"]
    assert updated_campaign["campaignVersionId"] == 5
    assert versions(shop, campaign) == (5, [5, 5])
    assert versions(shop, other_campaign) == (2, [2])


def test_a_refused_change_creates_no_version(shop):
    campaign, other_campaign = shop.campaign(running(mint(1))), shop.campaign()
    path = f"/campaigns/{campaign['campaignId']}"
    problem = shop.administration.put(path, {"code": other_campaign["code"], "name": "Taken"}, expect=409)
    assert problem["type"] == "/problems/name-taken"
    problem = shop.administration.post(f"{path}/actions", running({"effectId": "nothing", "params": []}), expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/effects/items/0/effectId"]
    assert versions(shop, campaign) == (2, [2])


def test_effects_and_explanations_name_the_version_of_their_campaign(shop):
    member = shop.member()
    campaign = shop.campaign(running(mint(1)))
    first_result = shop.track_one(event(member))
    shop.administration.put(f"/campaigns/{campaign['campaignId']}", {"code": campaign["code"], "name": "New"})
    second_result = shop.track_one(event(member))
    assert [
        [effect["campaignVersionId"] for effect in result["effects"]] for result in (first_result, second_result)
    ] == [
        [2],
        [3],
    ]
    stored_result = shop.integration.get(f"/events/{first_result['loyaltyEventKey']}")["result"]
    assert stored_result["effects"][0]["campaignVersionId"] == 2
    [dry_result] = shop.track(event(member), executionMode="dryRun")
    assert {explanation["campaignVersionId"] for explanation in dry_result["explain"]} == {3}


def test_a_change_based_on_another_version_is_refused_and_creates_no_version(shop):
    campaign = shop.campaign(running(mint(1)))
    path = f"/campaigns/{campaign['campaignId']}/actions"
    action = f"{path}/{campaign['actions'][0]['actionId']}"
    # The current version is 2.
    for version in (1, 3):
        problem = shop.administration.put(action, {**running(mint(9)), "campaignVersionId": version}, expect=409)
        assert problem["type"] == "/problems/campaign-changed"
        problem = shop.administration.post(path, {**running(mint(9)), "campaignVersionId": version}, expect=409)
        assert problem["type"] == "/problems/campaign-changed"
    assert versions(shop, campaign) == (2, [2])
    assert shop.administration.put(action, {**running(mint(9)), "campaignVersionId": 2})["action"]
    shop.administration.post(path, {**running(mint(8)), "campaignVersionId": 3})
    shop.administration.post(path, {**running(mint(7)), "campaignVersionId": None})
    assert versions(shop, campaign) == (5, [5, 5, 5])
