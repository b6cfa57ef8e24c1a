"""The operations of an OpenAPI document as clients need them: parameters, body, result, pages and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openapi

# The field with the key that makes a request safe to repeat.
REQUEST_KEY = "systemUniqueKey"
JSON = "application/json"
_PAGING = ("page", "cursor")
# The path parameter that the constructor of the administration client takes, so that its methods need not.
ORGANIZATION = "organizationId"

Schema = dict[str, Any]


@dataclass(frozen=True)
class Paging:
    """How a list is paged: the field with its items, their schema, and whether cursors lead on."""

    field: str
    item: Schema
    has_cursor: bool


@dataclass(frozen=True)
class Operation:
    """One operation.

    `key_path` is where its keys are: "" for the body itself, a name for the items of a list; None without keys.
    """

    name: str
    summary: str
    method: str
    path: str
    path_parameters: tuple[dict[str, Any], ...]
    query: tuple[dict[str, Any], ...]
    body: Schema | None
    body_type: str | None
    body_is_required: bool
    result: Schema | None
    result_type: str | None
    key_path: str | None
    paging: Paging | None
    # True if it needs no token.
    is_open: bool

    @property
    def query_of_iterator(self) -> tuple[dict[str, Any], ...]:
        """The parameters of a list without those that lead from page to page."""
        return tuple(parameter for parameter in self.query if parameter["name"] not in _PAGING)

    @property
    def iterator_name(self) -> str:
        """`iterateMembers` for `listMembers`."""
        subject = self.name.removeprefix("list")
        return f"iterate{subject[0].upper()}{subject[1:]}"

    @property
    def own_parameters(self) -> tuple[dict[str, Any], ...]:
        """The parameters of the path that a call gives."""
        return tuple(parameter for parameter in self.path_parameters if parameter["name"] != ORGANIZATION)


def operations(document: dict[str, Any]) -> list[Operation]:
    """All operations of a bundled OpenAPI document, in its order."""
    return [
        _read_operation(document, path, method, item, operation)
        for path, method, item, operation in openapi.operations_of(document)
    ]


def schemas() -> dict[str, Schema]:
    """The schemas of both OpenAPI documents, by name.

    In schemas that only requests use, the field `systemUniqueKey` is not required, since the client adds one.
    """
    schemas_by_name: dict[str, Schema] = {}
    names_of_results: set[str] = set()
    for surface in openapi.SURFACES:
        document = openapi.bundle(surface)
        schemas_by_name |= document["components"]["schemas"]
        results = [operation.result for operation in operations(document)]
        names_of_results |= _reachable_names(document, references(results))
    for name, schema in schemas_by_name.items():
        if name not in names_of_results and REQUEST_KEY in schema.get("required", ()):
            required_fields = [field for field in schema["required"] if field != REQUEST_KEY]
            schemas_by_name[name] = {**schema, "required": required_fields}
    return dict(sorted(schemas_by_name.items()))


def snake_case(name: str) -> str:
    """`loyalty_member_id` for `loyaltyMemberId`, `include_api_users` for `includeAPIUsers`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().replace("-", "_")


def references(node: Any) -> Iterator[str]:
    """The names of the schemas that a node refers to."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def _reachable_names(document: dict[str, Any], names: Iterator[str]) -> set[str]:
    """The names of schemas, and of all schemas that these refer to, directly or by other schemas."""
    reachable: set[str] = set()
    to_do = list(names)
    while to_do:
        name = to_do.pop()
        if name not in reachable:
            reachable.add(name)
            to_do += references(document["components"]["schemas"][name])
    return reachable


def _read_operation(
    document: dict[str, Any], path: str, method: str, item: dict[str, Any], operation: dict[str, Any]
) -> Operation:
    """The operation as clients need it; the operation's parameters come after those of its path."""
    declared_parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
    parameters = [_read_parameter(document, parameter) for parameter in declared_parameters]
    in_path = {parameter["name"]: parameter for parameter in parameters if parameter["in"] == "path"}
    query = tuple(parameter for parameter in parameters if parameter["in"] == "query")
    request = openapi.resolve(document, operation.get("requestBody", {}))
    body_type, body = _read_content(request)
    success = next(status for status in operation["responses"] if status.startswith("2"))
    result_type, result = _read_content(openapi.resolve(document, operation["responses"][success]))
    return Operation(
        name=operation.get("x-operation-name", operation["operationId"]),
        summary=operation["summary"],
        method=method.upper(),
        path=path,
        path_parameters=tuple(in_path[name] for name in re.findall(r"\{(\w+)\}", path)),
        query=query,
        body=body,
        body_type=body_type,
        body_is_required=request.get("required", False),
        result=result,
        result_type=result_type,
        key_path=_find_keys(document, body),
        paging=_read_paging(document, query, result),
        is_open=not operation["security"],
    )


def _read_parameter(document: dict[str, Any], parameter: dict[str, Any]) -> dict[str, Any]:
    """The parameter that a reference leads to; a family of parameters becomes one optional object of texts."""
    parameter = openapi.resolve(document, parameter)
    if "x-parameter-family" in parameter:
        values = {"type": "object", "additionalProperties": {"type": "string"}}
        return {**parameter, "schema": values, "required": False}
    return parameter


def _read_content(node: dict[str, Any]) -> tuple[str | None, Schema | None]:
    """The media type and schema of a body; JSON if the operation has several."""
    content = node.get("content", {})
    media_type = JSON if JSON in content else next(iter(content), None)
    return (media_type, content[media_type]["schema"]) if media_type else (None, None)


def _find_keys(document: dict[str, Any], body: Schema | None) -> str | None:
    """Find the `key_path` of an operation with this body."""
    fields = openapi.resolve(document, body).get("properties", {}) if body else {}
    if REQUEST_KEY in fields:
        return ""
    for name, field in fields.items():
        items = openapi.resolve(document, field).get("items", {})
        if REQUEST_KEY in openapi.resolve(document, items).get("properties", {}):
            return str(name)
    return None


def _read_paging(document: dict[str, Any], query: tuple[dict[str, Any], ...], result: Schema | None) -> Paging | None:
    """How the result of an operation with this query is paged; None if it is not."""
    names = {parameter["name"] for parameter in query}
    if not names & set(_PAGING) or result is None:
        return None
    fields = {
        name: openapi.resolve(document, field)
        for name, field in openapi.resolve(document, result)["properties"].items()
    }
    [(field, schema)] = [(name, schema) for name, schema in fields.items() if schema.get("type") == "array"]
    return Paging(field, schema["items"], "cursor" in names and "nextCursor" in fields)
