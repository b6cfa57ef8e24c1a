"""Portals over HTTP."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def administration(organization):
    return organization.administration


def test_a_portal_is_created_and_listed(organization, administration):
    body = {
        "name": "Corner",
        "active": False,
        "customAttributes": {"a": [1, {"b": None}]},
        "links": {"imprint": "https://x.example"},
        "theme": {"primaryColour": "#6f4e37"},
        "forms": {"signUp": {"fields": ["email"]}},
        "metadata": {"title": "Corner"},
        "loyaltyProgramId": organization.created.loyalty_program_id,
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
    minimal_portal = administration.post("/portals", {"name": "Another", "active": True})["portal"]
    for name in ("customAttributes", "links", "theme", "forms", "metadata"):
        assert minimal_portal[name] == {}, name
    assert (minimal_portal["loyaltyProgramId"], minimal_portal["authRedirectUrl"]) == (None, None)
    assert minimal_portal["authValidScopes"] == []
    portals_page = administration.get("/portals")
    assert portals_page == {"totalCount": 2, "page": 0, "limit": 100, "results": [minimal_portal, portal]}
    assert administration.get("/portals", publicId=portal["publicId"])["results"] == [portal]
    assert administration.get("/portals", publicId=str(uuid.uuid4()))["totalCount"] == 0
    assert administration.get("/portals", order="name,desc")["results"] == [portal, minimal_portal]
    administration.get("/portals", order="theme", expect=400)


def test_a_portal_is_changed_and_deactivated(organization, administration, other_organization):
    portal = administration.post("/portals", {"name": "Corner", "active": True, "theme": {"a": 1}})["portal"]
    path = f"/portals/{portal['portalId']}"
    assert administration.get(path) == {"portal": portal}
    inactive_portal = administration.put(path, {"active": False})["portal"]
    assert inactive_portal == {**portal, "active": False, "updatedAt": inactive_portal["updatedAt"]}
    changes = {"name": "Bar", "theme": {}, "loyaltyProgramId": organization.created.loyalty_program_id}
    updated_portal = administration.put(path, changes)["portal"]
    assert updated_portal == {**inactive_portal, **changes, "updatedAt": updated_portal["updatedAt"]}
    assert administration.get(path) == {"portal": updated_portal}
    administration.put(path, {"publicId": str(uuid.uuid4())}, expect=400)
    problem = administration.put(path, {"authRedirectUrl": "http://x.example/"}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/authRedirectUrl"]
    assert administration.put(path, {"loyaltyProgramId": 10**15}, expect=404)["type"] == (
        "/problems/unknown-loyalty-program"
    )
    other_organization.administration.get(path, expect=404)
    other_organization.administration.put(path, {"active": True}, expect=404)
    assert administration.get(path) == {"portal": updated_portal}


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
    for program_id in (10**15, other_organization.created.loyalty_program_id):
        body = {"name": "Corner", "active": True, "loyaltyProgramId": program_id}
        problem = administration.post("/portals", body, expect=404)
        assert problem["type"] == "/problems/unknown-loyalty-program"


def test_a_program_can_name_a_portal_of_its_organization(organization, administration, other_organization):
    portal = administration.post("/portals", {"name": "Corner", "active": True})["portal"]
    body = {"ledgerId": organization.created.ledger_id, "description": "x", "setAsDefault": False}
    program = administration.post("/loyalty-programs", {**body, "mainPortalId": portal["portalId"]})["loyaltyProgram"]
    assert program["mainPortalId"] == portal["portalId"]
    foreign_portal = other_organization.administration.post("/portals", {"name": "Theirs", "active": True})["portal"]
    problem = administration.post("/loyalty-programs", {**body, "mainPortalId": foreign_portal["portalId"]}, expect=404)
    assert problem["type"] == "/problems/unknown-portal"
