"""Campaigns and actions in lists: filters and the default index."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("query", "expected_codes"),
    [
        ({"tags": "morning"}, ["a", "b"]),
        ({"tags": "morning,vip"}, ["b"]),
        ({"tags": "vip,nothing"}, []),
        ({"codes": "a,c"}, ["a", "c"]),
        ({"codes": "a", "tags": "vip"}, []),
        ({"type": "accrual"}, ["c"]),
    ],
)
def test_campaigns_are_filtered_by_all_tags_and_any_code(organization, query, expected_codes):
    campaigns = organization.administration
    for body in (
        {"code": "a", "tags": ["morning"]},
        {"code": "b", "tags": ["vip", "morning"]},
        {"code": "c", "type": "accrual"},
    ):
        campaigns.post("/campaigns", {"name": "Campaign", **body})
    page = campaigns.get("/campaigns", order="code,asc", **query)
    assert [result["code"] for result in page["results"]] == expected_codes
    assert page["totalCount"] == len(expected_codes)


def test_an_action_created_after_the_maximum_index_gets_the_same_index(organization):
    campaign = organization.administration.post("/campaigns", {"code": "full", "name": "Full"})["campaign"]
    actions = f"/campaigns/{campaign['campaignId']}/actions"
    body = {"effects": {"items": []}, "status": "draft", "priority": 1}
    last_action = organization.administration.post(actions, {**body, "actionIndex": 2**31 - 1})["action"]
    next_action = organization.administration.post(actions, body)["action"]
    assert next_action["actionIndex"] == last_action["actionIndex"]
    assert next_action["actionId"] > last_action["actionId"]
