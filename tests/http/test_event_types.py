"""Event types over HTTP: the built-in ones, and those of an organization on both surfaces."""

from __future__ import annotations

import pytest

from domain.event_types import BUILT_IN_EVENT_TYPES

PATH = "/custom-event-types"
# The required fields of an event type.
CUP = {"name": "Cup", "apiCode": "cup", "schemaType": "custom"}


@pytest.fixture(params=("integration", "administration"))
def surface(organization, request):
    return getattr(organization, request.param)


def test_an_event_type_is_stored_with_all_its_fields(organization, surface):
    body = {
        **CUP,
        "description": "A cup was returned.",
        "active": False,
        "customAttributes": {"a": [1, None]},
        "externalKey": "returned",
    }
    event_type = surface.post(PATH, body)["eventType"]
    assert event_type == {
        **body,
        "organizationId": organization.id,
        "isCustomType": True,
        "createdAt": event_type["createdAt"],
        "updatedAt": event_type["createdAt"],
    }
    assert surface.get(f"{PATH}/cup") == {"eventType": event_type}


def test_events_of_a_type_with_the_schema_of_built_in_types_may_have_any_value(organization, surface):
    event_type = surface.post(PATH, {**CUP, "schemaType": "builtin"})["eventType"]
    assert (event_type["schemaType"], event_type["isCustomType"]) == ("builtin", True)
    member = organization.member()["loyaltyMemberId"]
    event = {"eventType": "cup", "loyaltyMemberId": member, "systemUniqueKey": "1", "payload": {"value": [1, "a"]}}
    [result] = organization.integration.post("/events/track", {"events": [event]}, expect=200)["results"]
    assert result["status"] == "success"


def test_missing_fields_of_an_event_type_have_defaults(surface):
    event_type = surface.post(PATH, CUP)["eventType"]
    assert (event_type["description"], event_type["active"], event_type["customAttributes"]) == (None, True, {})


@pytest.mark.parametrize("code", ["cup", BUILT_IN_EVENT_TYPES[0]])
def test_a_code_in_use_is_refused(surface, code):
    surface.post(PATH, CUP)
    assert surface.post(PATH, {**CUP, "apiCode": code}, expect=409)["type"] == "/problems/name-taken"


def test_an_update_changes_only_the_fields_it_sends_and_never_the_code(organization):
    event_type = organization.integration.post(PATH, {**CUP, "description": "A cup was returned."})["eventType"]
    updated_type = organization.integration.patch(f"{PATH}/cup", {"active": False})["eventType"]
    assert updated_type == {**event_type, "active": False, "updatedAt": updated_type["updatedAt"]}
    problem = organization.administration.put(f"{PATH}/cup", {**CUP, "apiCode": "mug"}, expect=409)
    assert problem["type"] == "/problems/api-code-fixed"


def test_the_list_of_all_event_types_has_built_in_and_active_custom_ones(organization, surface):
    surface.post(PATH, CUP)
    surface.post(PATH, {**CUP, "apiCode": "mug", "active": False})
    event_types = organization.integration.get("/event-types")["results"]
    assert [event_type["apiCode"] for event_type in event_types] == [*BUILT_IN_EVENT_TYPES, "cup"]
    assert {event_type["apiCode"] for event_type in surface.get(PATH)["results"]} == {"cup", "mug"}


def test_an_event_type_is_not_found_in_another_organization(surface, other_organization):
    surface.post(PATH, CUP)
    other_organization.integration.get(f"{PATH}/cup", expect=404)


@pytest.mark.parametrize("code", [".", "..", "..."])
def test_an_api_code_of_dots_only_is_refused(organization, code):
    problem = organization.integration.post(PATH, {**CUP, "apiCode": code}, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/apiCode"]
    assert organization.integration.post(PATH, {**CUP, "apiCode": ".cup"})["eventType"]["apiCode"] == ".cup"
