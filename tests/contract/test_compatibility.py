"""Changes of the OpenAPI documents that break clients: they are found, and the changelog lists them."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import openapi
from tests.contract.compatibility import bare, breaking_changes, released_document
from tests.contract.documents import Document, callbacks, operations

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
HEADING = "### Breaking"


def breaking_part_of_changelog() -> str:
    """The text of the changelog about breaking changes since the last release."""
    unreleased = CHANGELOG.split("\n## ")[1]
    return unreleased.split(f"\n{HEADING}\n")[1].split("\n### ")[0] if f"\n{HEADING}\n" in unreleased else ""


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_breaking_changes_are_in_the_changelog(surface: str) -> None:
    entries = breaking_part_of_changelog()
    changes = breaking_changes(released_document(surface), openapi.bundle(surface))
    unlisted = [change for change in changes if change.split(": ")[0] not in entries]
    assert not unlisted, (
        f"Since the last release the {surface} document changed in ways that break programs. Take the change back, or "
        f"name each place, in quotes as here, below the heading {HEADING} in the part Unreleased of CHANGELOG.md:\n"
        + "\n".join(unlisted)
    )


def test_the_changelog_lists_only_actual_breaking_changes() -> None:
    places = {
        change.split(": ")[0]
        for surface in openapi.SURFACES
        for change in breaking_changes(released_document(surface), openapi.bundle(surface))
    }
    # An entry begins with the place in quotes.
    listed_places = re.findall(r"^- (`[^`]+`)", breaking_part_of_changelog(), re.M)
    assert set(listed_places) <= places


@cache
def _current_document() -> Document:
    """The document of the administration without prose."""
    return bare(openapi.bundle("administration"))


def _operation(document: Document, operation_id: str) -> dict[str, Any]:
    return next(operation.operation for operation in operations(document) if operation.operation_id == operation_id)


def _schema(document: Document, name: str) -> dict[str, Any]:
    return document["components"]["schemas"][name]


def _fields(document: Document, name: str) -> dict[str, Any]:
    return _schema(document, name)["properties"]


def _success(document: Document, operation_id: str) -> dict[str, Any]:
    """The response with which the operation succeeds."""
    return next(
        response for status, response in _operation(document, operation_id)["responses"].items() if status[0] == "2"
    )


def _message(document: Document) -> dict[str, Any]:
    """The content of the messages about events."""
    return dict(callbacks(document))["createTrigger", "event"]["requestBody"]["content"]["application/json"]


# The place that must be reported, and a change that breaks programs there.
BREAKS = [
    ("`getTier`", lambda d: [item.pop("get") for path, item in d["paths"].items() if path.endswith("{loyaltyTierId}")]),
    ("`getTier`", lambda d: _operation(d, "getTier").update(operationId="readTier")),
    ("`getTier`", lambda d: _operation(d, "getTier").update(security=[{"oauth2": ["tiers:write"]}])),
    ("`listMembers.email`", lambda d: _drop(d, "email")),
    ("`listMembers.email`", lambda d: _parameter(d, "email").update(required=True)),
    ("`listMembers.email`", lambda d: _parameter(d, "email").update(schema={"type": "integer"})),
    ("`createMember`", lambda d: _operation(d, "createMember")["requestBody"]["content"].clear()),
    ("`mintMemberPoints`", lambda d: _success(d, "mintMemberPoints")["headers"].clear()),
    ("`getTier`", lambda d: _operation(d, "getTier")["responses"].pop("200")),
    ("`getTier.200`", lambda d: _success(d, "getTier")["content"].clear()),
    ("`createTrigger.event`", lambda d: _operation(d, "createTrigger")["callbacks"].pop("event")),
    ("`EventMessage`", lambda d: _message(d).update(schema={"type": "array", "items": {}})),
    ("`LoyaltyTier.name`", lambda d: _fields(d, "LoyaltyTier").pop("name")),
    ("`LoyaltyTier.name`", lambda d: _fields(d, "LoyaltyTier").update(name={"type": "integer"})),
    ("`LoyaltyTier.name`", lambda d: _schema(d, "LoyaltyTier")["required"].remove("name")),
    ("`LoyaltyTier.name`", lambda d: _fields(d, "LoyaltyTier").update(name={"type": "string", "nullable": True})),
    ("`LoyaltyTierBody.pictureUrl`", lambda d: _fields(d, "LoyaltyTierBody").pop("pictureUrl")),
    ("`LoyaltyTierBody.pictureUrl`", lambda d: _schema(d, "LoyaltyTierBody")["required"].append("pictureUrl")),
    ("`CampaignBody.description`", lambda d: _fields(d, "CampaignBody")["description"].pop("nullable")),
    ("`Name`", lambda d: _schema(d, "Name").update(maxLength=100)),
    ("`Name`", lambda d: _schema(d, "Name").update(minLength=2)),
    ("`Name`", lambda d: _schema(d, "Name").update(pattern="^[A-Z]+$")),
    ("`Name`", lambda d: _schema(d, "Name").update(enum=["Gold"])),
    ("`Tags`", lambda d: _schema(d, "Tags").update(maxItems=10)),
    ("`Tags`", lambda d: _schema(d, "Tags").update(uniqueItems=True)),
    ("`Tag`", lambda d: _schema(d, "Tags").update(items={"type": "integer"})),
    ("`Amount`", lambda d: _schema(d, "Amount").update(minimum=1)),
    ("`ActionStatus`", lambda d: _schema(d, "ActionStatus")["enum"].remove("running")),
    ("`ProblemType`", lambda d: _schema(d, "ProblemType")["x-extensible-enum"].remove("/problems/not-found")),
    ("`CustomAttributes`", lambda d: _schema(d, "CustomAttributes").update(additionalProperties=False)),
    ("`CouponBookDay`", lambda d: _schema(d, "CouponBookDay")["oneOf"].pop()),
]


def _parameter(document: Document, name: str) -> dict[str, Any]:
    """The parameter of `listMembers`, which replaces a reference to a shared one, so that it can be changed."""
    parameters = _operation(document, "listMembers")["parameters"]
    for place, parameter in enumerate(parameters):
        resolved = document["components"]["parameters"].get(parameter.get("$ref", "").rsplit("/", 1)[-1], parameter)
        if resolved["name"] == name:
            parameters[place] = dict(resolved)
            return parameters[place]
    raise AssertionError(f"listMembers has no parameter {name}")


def _drop(document: Document, name: str) -> None:
    """Remove a parameter of `listMembers`."""
    parameter = _parameter(document, name)
    _operation(document, "listMembers")["parameters"].remove(parameter)


HARMLESS = [
    lambda d: _operation(d, "getTier").update(description="Another text."),
    lambda d: _fields(d, "LoyaltyTier").update(colour={"type": "string"}),
    lambda d: _fields(d, "LoyaltyTierBody").update(colour={"type": "string"}),
    lambda d: _schema(d, "ActionStatus")["enum"].append("paused"),
    lambda d: _schema(d, "Name").update(maxLength=1000),
    lambda d: _schema(d, "Tags").update(maxItems=1000),
    lambda d: _schema(d, "Amount").update(maximum=10**15),
    lambda d: _operation(d, "listMembers")["parameters"].append(
        {"name": "colour", "in": "query", "description": "x", "schema": {"type": "string"}}
    ),
    lambda d: _operation(d, "getTier")["responses"].update({"418": {"description": "A teapot."}}),
]


@pytest.mark.parametrize(("place", "change"), BREAKS, ids=[f"{n}-{place}" for n, (place, _) in enumerate(BREAKS)])
def test_a_change_that_breaks_programs_is_reported(place: str, change: Any) -> None:
    changed_document = deepcopy(openapi.bundle("administration"))
    change(changed_document)
    messages = breaking_changes(_current_document(), changed_document)
    assert place in {message.split(": ")[0] for message in messages}


@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_is_not_reported(change: Any) -> None:
    changed_document = deepcopy(openapi.bundle("administration"))
    change(changed_document)
    assert breaking_changes(_current_document(), changed_document) == []
