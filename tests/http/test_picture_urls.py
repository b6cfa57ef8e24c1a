"""Addresses of pictures and of other pages are http or https, wherever a client sends one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from openapi import SURFACES, bundle
from tests.builders.users import user_body

NOT_WEB_URLS = [
    "javascript:alert(1)",
    "javascript://example.com/%0aalert(1)",
    "data:text/html,<script>",
    "/mug.png",
    "http:/mug.png",
    "http://a b",
    " https://example.com",
]


@pytest.mark.parametrize("url", NOT_WEB_URLS)
def test_urls_of_pictures_that_are_not_web_urls_are_refused(organization, url):
    administration, integration = organization.administration, organization.integration
    member = organization.member()["loyaltyMemberId"]
    badge = {"name": "Lark", "maxAmount": 1, "active": True, "pictureUrl": url}
    book = {"name": "Mug", "type": "codeless", "publishingStatus": "draft"}
    calls = [
        (integration, "POST", "/badges", badge, "/pictureUrl"),
        (integration, "PATCH", f"/members/{member}", {"profile": {"pictureUrl": url}}, "/profile/pictureUrl"),
        (integration, "POST", "/coupon-books", {**book, "detailPictureUrl": url}, "/detailPictureUrl"),
        (integration, "POST", "/coupon-books", {**book, "images": {"main": url}}, "/images/main"),
        (administration, "POST", "/users", user_body(profilePictureUrl=url), "/profilePictureUrl"),
    ]
    for surface, method, path, body, pointer in calls:
        reply = surface.request(method, path, body)
        assert reply.status == 400, path
        assert [error["pointer"] for error in reply.json["errors"]] == [pointer], path


def test_web_urls_are_stored_unchanged(organization):
    urls = ["https://example.com/mug.png", "HTTP://example.com:8080/a?b=c#d", "https://example.com/café.png"]
    for url in urls:
        body = {"name": "Lark", "maxAmount": 1, "active": True, "pictureUrl": url}
        assert organization.integration.post("/badges", body)["badge"]["pictureUrl"] == url


@pytest.mark.parametrize(
    ("url", "status"), [("https://example.com/menu", "success"), ("javascript://example.com/%0aalert(1)", "failed")]
)
def test_events_of_a_url_type_accept_only_web_urls(organization, url, status):
    organization.integration.post(
        "/custom-event-types", {"name": "Visit", "apiCode": "visit", "schemaType": "url", "active": True}
    )
    member = organization.member()["loyaltyMemberId"]
    event = {"loyaltyMemberId": member, "eventType": "visit", "systemUniqueKey": "v-1", "payload": {"value": url}}
    [result] = organization.integration.post("/events/track", {"events": [event]}, expect=200)["results"]
    assert result["status"] == status


def _picture_fields(node: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(dotted name, schema) of each field for a picture inside a schema."""
    if isinstance(node, dict):
        for key, part in node.items():
            if key.lower().endswith("pictureurl") and isinstance(part, dict):
                yield f"{name}.{key}", part
            yield from _picture_fields(part, f"{name}.{key}" if key != "properties" else name)


@pytest.mark.parametrize("surface", SURFACES)
def test_every_field_for_a_picture_in_a_body_accepts_only_web_urls(surface):
    schemas = bundle(surface)["components"]["schemas"]
    bodies = {name: schema for name, schema in schemas.items() if name.endswith(("Body", "Input", "Update"))}
    fields = [field for name, schema in bodies.items() for field in _picture_fields(schema, name)]
    # So that the check below cannot pass without any field.
    assert len(fields) > 3
    faulty_fields = [name for name, schema in fields if schema != {"$ref": "#/components/schemas/WebUrlOrNull"}]
    assert faulty_fields == []
