"""Every parameter that a list documents is implemented: each filter has a condition, each order a column."""

from __future__ import annotations

import re
from typing import Any

import pytest

import openapi
from handlers.call import ADMINISTRATION, INTEGRATION
from tests.contract.documents import DocumentedOperation, operations, path_parameters, resolve

# Parameters that need other parameters.
_NEED_OTHERS = {"cursor"}
_KEY = "00000000-0000-4000-8000-000000000000"
_ORDERS = re.compile(r"\^\(([A-Za-z|]+)\)\(")


def _is_list(operation: DocumentedOperation) -> bool:
    """True for a list that needs no ids of records, except that of a member."""
    names = {parameter["name"] for parameter in operation.parameters if parameter["in"] == "query"}
    ids_in_path = path_parameters(operation.path) - {"organizationId", "loyaltyMemberId"}
    return operation.method == "get" and {"page", "limit"} <= names and not ids_in_path


LISTS = [
    pytest.param(surface, operation, id=f"{surface}-{operation.operation_id}")
    for surface in (INTEGRATION, ADMINISTRATION)
    for operation in operations(openapi.bundle(surface))
    if _is_list(operation)
]


def _values_to_try(document: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
    """Values of a parameter to try: all columns of an order, all values of an enum, both booleans, else one value."""
    schema = resolve(document, schema)
    if orders := _ORDERS.match(schema.get("pattern", "")):
        separator = ":" if ":(asc" in schema["pattern"] else ","
        return [f"{name}{separator}desc" for name in orders[1].split("|")]
    kind = schema.get("type", "string")
    if kind == "array":
        return [_values_to_try(document, schema["items"])[0]]
    if kind == "boolean":
        return ["true", "false"]
    if kind in ("integer", "number"):
        return [schema.get("minimum", 1)]
    formats = {"uuid": _KEY, "date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01"}
    return schema.get("enum") or [formats.get(schema.get("format", ""), "text")]


@pytest.mark.parametrize(("surface", "operation"), LISTS)
def test_a_list_accepts_every_parameter_that_is_documented_for_it(organization, surface, operation):
    caller, document = getattr(organization, surface), openapi.bundle(surface)
    path = re.sub("^/organizations/{organizationId}", "", operation.path)
    if "{loyaltyMemberId}" in path:
        path = path.replace("{loyaltyMemberId}", organization.member()["loyaltyMemberId"])
    problems = {}
    for parameter in operation.parameters:
        name = parameter["name"]
        if parameter["in"] != "query" or name in _NEED_OTHERS:
            continue
        values = [organization.id] if name == "organizationId" else _values_to_try(document, parameter["schema"])
        for value in values:
            reply = caller.request("GET", path, **{name: value})
            if reply.status != 200:
                problems[name, str(value)] = reply.json
    assert problems == {}
