"""Bodies without a required field may be left out: a missing body is then the same as `{}`."""

from __future__ import annotations

import pytest

import openapi
from tests.builders.badges import Badges
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import Shop, event

# Operations whose fields are all optional, but which need at least one.
NEED_ANY_FIELD = {"setUserPermissions", "simulate"}
METHODS = ("post", "put", "patch", "delete")


def documented_bodies(surface):
    """For each documented body: the operationId, whether the body is required, and its schema."""
    document = openapi.bundle(surface)
    for item in document["paths"].values():
        for method in METHODS:
            body = item.get(method, {}).get("requestBody")
            for content in [] if body is None else body["content"].values():
                schema = content["schema"]
                while "$ref" in schema:
                    schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                yield item[method]["operationId"], body["required"], schema


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_a_body_is_required_exactly_if_one_of_its_fields_is_required(surface):
    for operation_id, is_required, schema in documented_bodies(surface):
        if schema.get("type") == "object" and not {"allOf", "oneOf", "anyOf"} & schema.keys():
            assert is_required == (bool(schema.get("required")) or operation_id in NEED_ANY_FIELD), operation_id


@pytest.mark.parametrize("body", [b"{}", b"x"])
def test_a_body_is_refused_by_operations_that_have_none(organization, body):
    key = Shop(organization).track_one(event(organization.member("ana")["loyaltyMemberId"]))["loyaltyEventKey"]
    for surface, method, path in (
        (organization.integration, "GET", "/members/ana"),
        (organization.administration, "POST", f"/events/{key}/requeue"),
    ):
        problem = surface.request(method, path, body, expect=400).json
        assert (problem["type"], problem["detail"]) == ("/problems/invalid-request", "The operation takes no body.")


def test_a_missing_body_equals_an_empty_object(organization):
    shop = Shop(organization)
    integration, administration = organization.integration, organization.administration
    record = organization.member("ana")
    badge, book = Badges(shop).create(), CouponBooks(organization).make("A-1", "A-2")
    assert integration.patch("/members/ana", None)["loyaltyMember"] == record
    assert administration.patch(f"/members/{record['memberId']}", None)["loyalMember"] == record
    assert integration.patch(f"/badges/{badge['badgeKey']}", None)["badge"]["name"] == badge["name"]
    # Without an amount, one badge is assigned.
    for surface, identifier in ((integration, badge["badgeKey"]), (administration, badge["badgeId"])):
        response = surface.post(f"/members/ana/badges/{identifier}/assign", expect=200)
        assert response["badgeTracking"]["amountAssigned"] == 1
    unassignment = integration.post(f"/members/ana/badges/{badge['badgeKey']}/unassign", expect=200)["badgeTracking"]
    assert unassignment["amountAssigned"] == -1
    member_path = f"/members/ana/coupon-books/{book['couponBookKey']}"
    integration.post(f"{member_path}/assign", expect=200)
    integration.post(f"{member_path}/use", expect=200)
    integration.patch(f"/coupon-books/{book['couponBookKey']}", None)
    key = shop.track_one(event("ana"))["loyaltyEventKey"]
    assert integration.post(f"/events/{key}/cancel", expect=200)["executionMode"] == "full"
    program = organization.defaults.loyalty_program_id
    tier_path = f"/members/{record['memberId']}/loyalty-programs/{program}/tier"
    tiers_before = integration.get("/members/ana")["loyaltyMember"]["tiers"]
    administration.put(tier_path, None)
    assert integration.get("/members/ana")["loyaltyMember"]["tiers"] == tiers_before


def test_an_empty_body_is_accepted_and_a_list_refused(organization):
    organization.member("ana")
    reply = organization.integration.request("PATCH", "/members/ana", headers={"Content-Type": "application/json"})
    assert reply.status == 200
    assert organization.integration.patch("/members/ana", [], expect=400)["type"] == "/problems/invalid-request"
