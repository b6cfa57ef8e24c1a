"""Updates of members that change nothing, and parts of the profile that null clears, over HTTP."""

from __future__ import annotations

import pytest

from tests.builders.tracking import Shop

PROFILE = {
    "name": "Ana",
    "govId": {"id": "30111222", "type": "national-id", "issuingCountry": "AR"},
    "address": {"addressLine": "Mitre 100", "floor": "2", "apartment": None, "zipCode": "2000"},
    "tags": ["a", "b"],
}

# The field with the member in the responses of each surface.
MEMBER_FIELD = {"integration": "loyaltyMember", "administration": "loyalMember"}


@pytest.fixture
def shop(organization):
    return Shop(organization)


def test_an_update_that_changes_nothing_reports_no_event(shop):
    ana = shop.organization.member(
        "ana", profile=PROFILE, customAttributes={"a": 1, "b": {"c": [1, 2]}}, memberType="vip"
    )
    administration_path = f"/members/{ana['memberId']}"
    bodies_without_changes = [
        {},
        {"memberType": "vip"},
        {"loyaltyMemberId": "ana", "active": True},
        {"profile": {}},
        {"profile": {"name": "Ana", "govId": {"id": "30111222"}, "address": {}, "tags": ["a", "b"]}},
        {"profile": {"lastName": None, "emails": []}},
        {"customAttributes": {"b": {"c": [1, 2]}, "a": 1}, "notifications": {"push": None}},
        {"publicLoyaltyMemberId": None, "updateReason": "Only looked"},
    ]
    for body in bodies_without_changes:
        assert shop.integration.patch("/members/ana", body)["loyaltyMember"] == ana
        assert shop.administration.patch(administration_path, body)["loyalMember"] == ana
    assert shop.events("ana") == []
    # true is not 1, and the order of tags counts.
    for changes in ({"customAttributes": {"a": True, "b": {"c": [1, 2]}}}, {"profile": {"tags": ["b", "a"]}}):
        member = shop.integration.patch("/members/ana", changes)["loyaltyMember"]
        assert member["updatedAt"] > ana["updatedAt"]
    assert member["customAttributes"]["a"] is True
    assert [event["eventType"] for event in shop.events("ana")] == ["member-updated"] * 2


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_null_clears_a_government_id_and_an_address(shop, surface):
    ana = shop.organization.member("ana", profile=PROFILE)
    path = "/members/ana" if surface == "integration" else f"/members/{ana['memberId']}"

    def updated_profile(changes):
        """Update the profile of Ana; return the new profile."""
        response = getattr(shop, surface).patch(path, {"profile": changes})
        return response[MEMBER_FIELD[surface]]["profile"]

    assert "govId" not in updated_profile({"govId": None})
    new_profile = updated_profile({"address": None})
    assert "govId" not in new_profile
    assert "address" not in new_profile
    assert new_profile["name"] == "Ana"
    assert updated_profile({"govId": {"id": "7"}})["govId"] == {"id": "7", "type": None, "issuingCountry": None}
    assert shop.integration.get("/members", govId="30111222")["total"] == 0


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_a_member_is_enrolled_with_null_as_government_id_and_address(shop, surface):
    body = {"loyaltyMemberId": "ben", "profile": {"govId": None, "address": None, "name": "Ben"}}
    profile = getattr(shop, surface).post("/members", body)[MEMBER_FIELD[surface]]["profile"]
    assert "govId" not in profile
    assert "address" not in profile
    assert profile["name"] == "Ben"
