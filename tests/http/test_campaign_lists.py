"""The filters of the list of campaigns."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"tags": "morning"}, ["a", "b"]),
        ({"tags": "morning,vip"}, ["b"]),
        ({"tags": "vip,nothing"}, []),
        ({"codes": "a,c"}, ["a", "c"]),
        ({"codes": "a", "tags": "vip"}, []),
        ({"type": "accrual"}, ["c"]),
    ],
)
def test_a_campaign_has_all_tags_and_any_code_asked_for(organization, query, found):
    campaigns = organization.administration
    for code, tags, kind in (("a", ["morning"], None), ("b", ["vip", "morning"], None), ("c", [], "accrual")):
        campaigns.post("/campaigns", {"code": code, "name": code, "tags": tags, "type": kind})
    listed = campaigns.get("/campaigns", order="code,asc", **query)
    assert [each["code"] for each in listed["results"]] == found
    assert listed["totalCount"] == len(found)
