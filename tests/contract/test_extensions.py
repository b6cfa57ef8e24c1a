"""Fields and parameters that only our server has are marked, so that clients know what other servers lack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import openapi
from tests.contract.documents import operations

# The names of fields and parameters that others describe for these interfaces, and those of the standards that they
# follow, one per line.
DESCRIBED = frozenset((Path(__file__).parent / "described_names.txt").read_text(encoding="utf-8").split())


# Schemas whose fields the interfaces leave open: the settings of triggers. Messages of webhooks are not checked either.
LEFT_OPEN = frozenset({"#/components/schemas/TriggerSettings", "#/components/schemas/TriggerSettingsInput"})


def unmarked(document: dict[str, Any]) -> Iterator[str]:
    """The places of names without a mark that are not in DESCRIBED, in operations that are no extensions.

    The fields within a marked field need no mark. A reference is marked if its target is.
    """
    names: set[str] = set(LEFT_OPEN)
    for operation in operations(document):
        if not operation.operation.get("x-extension"):
            yield from _unmarked_in(
                document, [operation.parameters, operation.operation], operation.operation_id, names
            )


def _unmarked_in(document: dict[str, Any], node: Any, place: str, names: set[str]) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _unmarked_in(document, item, place, names)
    if not isinstance(node, dict):
        return
    if "$ref" in node:
        if node["$ref"] not in names:
            names.add(node["$ref"])
            yield from _unmarked_in(
                document, _target(document, node), node["$ref"].removeprefix("#/components/"), names
            )
        return
    if _is_marked(document, node):
        return
    if "in" in node and "schema" in node and node["name"] not in DESCRIBED:
        yield f"{place}: parameter {node['name']}"
    properties = node.get("properties", {})
    for name, schema in properties.items() if _is_schema(node) else ():
        if name not in DESCRIBED and not _is_marked(document, schema):
            yield f"{place}: {name}"
    for key, value in node.items():
        if key not in ("example", "examples", "enum", "default", "links", "callbacks"):
            yield from _unmarked_in(document, value, place, names)


def _is_schema(node: dict[str, Any]) -> bool:
    return node.get("type") == "object" and isinstance(node.get("properties"), dict)


def _is_marked(document: dict[str, Any], node: Any) -> bool:
    """True if a field or parameter, or what it refers to, is an extension."""
    if not isinstance(node, dict):
        return False
    parts = [node, *node.get("allOf", ())]
    return any(
        part.get("x-extension") or ("$ref" in part and _is_marked(document, _target(document, part))) for part in parts
    )


def _target(document: dict[str, Any], node: dict[str, Any]) -> Any:
    for step in node["$ref"].removeprefix("#/").split("/"):
        document = document[step.replace("~1", "/").replace("~0", "~")]
    return document


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_fields_and_parameters_that_only_our_server_has_are_marked_as_extensions(surface: str) -> None:
    assert sorted(set(unmarked(openapi.bundle(surface)))) == []


@pytest.mark.parametrize(
    ("surface", "schema", "name"),
    [
        ("integration", "ContentDocumentUpsert", "locale"),
        ("integration", "TrackResult", "referrals"),
        ("administration", "MemberLedgerTransaction", "systemUniqueKey"),
    ],
)
def test_extensions_with_a_name_that_others_use_elsewhere_are_marked(surface: str, schema: str, name: str) -> None:
    document = openapi.bundle(surface)
    assert _is_marked(document, document["components"]["schemas"][schema]["properties"][name])


def test_the_locale_that_others_describe_for_updates_of_documents_is_not_marked() -> None:
    document = openapi.bundle("integration")
    assert not _is_marked(document, document["components"]["schemas"]["ContentDocumentUpdate"]["properties"]["locale"])
