"""Every parameter of every list: filters are bound to conditions, and orders to columns."""

from __future__ import annotations

import re
from typing import Any

import pytest

import openapi
from handlers.call import ADMINISTRATION, INTEGRATION
from tests.contract.documents import Documented, operations, path_parameters, resolve

# Parameters that have no meaning without others.
_NEEDED = {"cursor"}
_KEY = "00000000-0000-4000-8000-000000000000"
_ORDERS = re.compile(r"\^\(([A-Za-z|]+)\)\(")


def _is_list(documented: Documented) -> bool:
    names = {parameter["name"] for parameter in documented.parameters if parameter["in"] == "query"}
    addressed = path_parameters(documented.path) - {"organizationId", "loyaltyMemberId"}
    return documented.method == "get" and {"page", "limit"} <= names and not addressed


LISTS = [
    pytest.param(surface, documented, id=f"{surface}-{documented.operation_id}")
    for surface in (INTEGRATION, ADMINISTRATION)
    for documented in operations(openapi.bundle(surface))
    if _is_list(documented)
]


def _values(document: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
    """Values that a parameter may have: each column of an order, both booleans, else one."""
    schema = resolve(document, schema)
    if orders := _ORDERS.match(schema.get("pattern", "")):
        separator = ":" if ":(asc" in schema["pattern"] else ","
        return [f"{name}{separator}desc" for name in orders[1].split("|")]
    kind = schema.get("type", "string")
    if kind == "array":
        return [_values(document, schema["items"])[0]]
    if kind == "boolean":
        return ["true", "false"]
    if kind in ("integer", "number"):
        return [schema.get("minimum", 1)]
    formats = {"uuid": _KEY, "date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01"}
    return schema.get("enum") or [formats.get(schema.get("format", ""), "text")]


@pytest.mark.parametrize(("surface", "documented"), LISTS)
def test_every_parameter_of_a_list_is_one_that_its_query_takes(organization, surface, documented):
    caller, document = getattr(organization, surface), openapi.bundle(surface)
    path = re.sub("^/organizations/{organizationId}", "", documented.path)
    if "{loyaltyMemberId}" in path:
        path = path.replace("{loyaltyMemberId}", organization.member()["loyaltyMemberId"])
    filters = [
        (parameter["name"], value)
        for parameter in documented.parameters
        if parameter["in"] == "query" and parameter["name"] not in _NEEDED
        for value in (
            [organization.id] if parameter["name"] == "organizationId" else _values(document, parameter["schema"])
        )
    ]
    problems = {
        (name, str(value)): reply.json
        for name, value in filters
        if (reply := caller.request("GET", path, **{name: value})).status != 200
    }
    assert {place: problem for place, problem in problems.items() if problem["status"] != 404} == {}
