"""Portals over HTTP."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def administration(organization):
    return organization.administration


def test_a_portal_is_stored_with_all_its_fields(organization, administration):
    body = {
        "name": "Corner",
        "active": False,
        "customAttributes": {"a": [1, {"b": None}]},
        "links": {"imprint": "https://x.example"},
        "theme": {"primaryColour": "#6f4e37"},
        "forms": {"signUp": {"fields": ["email"]}},
        "metadata": {"title": "Corner"},
        "loyaltyProgramId": organization.defaults.loyalty_program_id,
        "authRedirectUrl": "https://members.corner.example:8443/callback?x=1",
        "authValidScopes": ["openid", "email"],
    }
    portal = administration.post("/portals", body)["portal"]
    assert portal == {
        **body,
        "portalId": portal["portalId"],
        "publicId": str(uuid.UUID(portal["publicId"])),
        "organizationId": organization.id,
        "createdAt": portal["createdAt"],
        "updatedAt": portal["createdAt"],
    }
    assert administration.get(f"/portals/{portal['portalId']}") == {"portal": portal}


def test_missing_fields_of_a_portal_have_defaults(administration):
    portal = administration.post("/portals", {"name": "Corner", "active": True})["portal"]
    for name in ("customAttributes", "links", "theme", "forms", "metadata"):
        assert portal[name] == {}, name
    assert (portal["loyaltyProgramId"], portal["authRedirectUrl"]) == (None, None)
    assert portal["authValidScopes"] == []


def test_portals_are_listed_newest_first_filtered_and_ordered(administration):
    corner, airport = (
        administration.post("/portals", {"name": name, "active": True})["portal"] for name in ("Corner", "Airport")
    )
    page = administration.get("/portals")
    assert page == {"totalCount": 2, "page": 0, "limit": 100, "results": [airport, corner]}
    assert administration.get("/portals", publicId=corner["publicId"])["results"] == [corner]
    assert administration.get("/portals", publicId=str(uuid.uuid4()))["totalCount"] == 0
    assert administration.get("/portals", order="name,desc")["results"] == [corner, airport]
    problem = administration.get("/portals", order="theme", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["order"]


def test_an_update_changes_only_the_fields_of_a_portal_that_it_sends(organization, administration):
    portal = administration.post("/portals", {"name": "Corner", "active": True, "theme": {"a": 1}})["portal"]
    path = f"/portals/{portal['portalId']}"
    inactive_portal = administration.put(path, {"active": False})["portal"]
    assert inactive_portal == {**portal, "active": False, "updatedAt": inactive_portal["updatedAt"]}
    changes = {"name": "Bar", "theme": {}, "loyaltyProgramId": organization.defaults.loyalty_program_id}
    updated_portal = administration.put(path, changes)["portal"]
    assert updated_portal == {**inactive_portal, **changes, "updatedAt": updated_portal["updatedAt"]}
    assert administration.get(path) == {"portal": updated_portal}


def test_a_refused_update_changes_nothing_of_a_portal(administration, other_organization):
    portal = administration.post("/portals", {"name": "Corner", "active": True})["portal"]
    path = f"/portals/{portal['portalId']}"
    for name, value in (("publicId", str(uuid.uuid4())), ("authRedirectUrl", "http://x.example/")):
        problem = administration.put(path, {name: value}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/{name}"]
    problem = administration.put(path, {"loyaltyProgramId": 10**15}, expect=404)
    assert problem["type"] == "/problems/unknown-loyalty-program"
    other_organization.administration.get(path, expect=404)
    other_organization.administration.put(path, {"active": False}, expect=404)
    assert administration.get(path) == {"portal": portal}


def test_paging_is_deprecated(administration):
    administration.post("/portals", {"name": "Corner", "active": True})
    assert "Deprecation" not in administration.request("GET", "/portals", expect=200).headers
    for query in ({"page": 0}, {"limit": 5}):
        reply = administration.request("GET", "/portals", expect=200, **query)
        assert reply.headers["Deprecation"].startswith("@")
    assert administration.get("/portals", page=1, limit=1)["results"] == []


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example",
        "https://x.example/a/b?c=d",
        "http://localhost/callback",
        "http://localhost:3000",
        "http://127.0.0.1:8000/",
        "http://[::1]:8000/",
    ],
)
def test_valid_redirect_urls_are_stored(administration, url):
    portal = administration.post("/portals", {"name": "Corner", "active": True, "authRedirectUrl": url})["portal"]
    assert portal["authRedirectUrl"] == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "/callback",
        "//x.example/",
        "https://",
        "http://x.example/",
        "http://localhost.evil.example/",
        "http://127.0.0.1.evil.example/",
        "javascript:alert(1)",
        "ftp://x.example/",
        "https://ana:secret@x.example/",
        "https://x.example/#fragment",
        "https://x.example/#",
        "https://x.example/a b",
        "https://x.example\\@evil.example/",
        "https://x.example:99999/",
        "https://[::1/",
        "https://x.example/\n",
    ],
)
def test_malformed_and_insecure_redirect_urls_are_refused(administration, url):
    body = {"name": "Corner", "active": True, "authRedirectUrl": url}
    problem = administration.post("/portals", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/authRedirectUrl"]
    assert administration.get("/portals")["totalCount"] == 0


def test_an_unknown_program_of_a_portal_is_refused(administration, other_organization):
    for program_id in (10**15, other_organization.defaults.loyalty_program_id):
        body = {"name": "Corner", "active": True, "loyaltyProgramId": program_id}
        problem = administration.post("/portals", body, expect=404)
        assert problem["type"] == "/problems/unknown-loyalty-program"


def test_a_program_can_name_a_portal_of_its_organization(organization, administration, other_organization):
    portal = administration.post("/portals", {"name": "Corner", "active": True})["portal"]
    body = {"ledgerId": organization.defaults.ledger_id, "description": "x", "setAsDefault": False}
    program = administration.post("/loyalty-programs", {**body, "mainPortalId": portal["portalId"]})["loyaltyProgram"]
    assert program["mainPortalId"] == portal["portalId"]
    foreign_portal = other_organization.administration.post("/portals", {"name": "Theirs", "active": True})["portal"]
    problem = administration.post("/loyalty-programs", {**body, "mainPortalId": foreign_portal["portalId"]}, expect=404)
    assert problem["type"] == "/problems/unknown-portal"
