"""The operations and schemas of a bundled document, and where schemas are used."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

METHODS = ("get", "put", "post", "patch", "delete")

Document = dict[str, Any]
Place = tuple[str, ...]


@dataclass(frozen=True)
class DocumentedOperation:
    """One operation of a document; `parameters` are those of its path item and its own, references resolved."""

    path: str
    method: str
    operation: dict[str, Any]
    parameters: tuple[dict[str, Any], ...]

    @property
    def operation_id(self) -> str:
        return self.operation["operationId"]

    @property
    def success(self) -> str:
        """The status with which the operation succeeds."""
        return next(status for status in self.operation["responses"] if status.startswith("2"))


def resolve(document: Document, node: Any) -> Any:
    """The node, or the target of its internal reference."""
    while isinstance(node, dict) and "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def operations(document: Document) -> list[DocumentedOperation]:
    """Every operation of the document, in its order."""
    results = []
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                declared_parameters = [*item.get("parameters", ()), *item[method].get("parameters", ())]
                parameters = tuple(resolve(document, parameter) for parameter in declared_parameters)
                results.append(DocumentedOperation(path, method, item[method], parameters))
    return results


def path_parameters(path: str) -> set[str]:
    """The names of the parameters in a path."""
    return set(re.findall(r"{([^{}]+)}", path))


def body_contents(document: Document, operation: DocumentedOperation) -> dict[str, dict[str, Any]]:
    """The contents of the request body by media type; empty without a body."""
    return resolve(document, operation.operation.get("requestBody", {})).get("content", {})


def responses(document: Document, operation: DocumentedOperation) -> dict[str, dict[str, Any]]:
    """The operation's responses by status, references resolved."""
    return {status: resolve(document, node) for status, node in operation.operation["responses"].items()}


def request_schemas(document: Document) -> list[tuple[Place, dict[str, Any]]]:
    """The schemas of parameters and JSON bodies of requests, each with its operation and name."""
    schemas: list[tuple[Place, dict[str, Any]]] = []
    for operation in operations(document):
        for parameter in operation.parameters:
            schemas.append(((operation.operation_id, parameter["name"]), parameter["schema"]))
        for media_type, content in body_contents(document, operation).items():
            if media_type == "application/json":
                schemas.append(((operation.operation_id, "body"), content["schema"]))
    return schemas


def response_schemas(document: Document) -> list[tuple[Place, dict[str, Any]]]:
    """The schemas of responses, and of the messages that the server sends, each with its place."""
    schemas = [
        ((operation.operation_id, status), content["schema"])
        for operation in operations(document)
        for status, response in responses(document, operation).items()
        for content in response.get("content", {}).values()
    ]
    return schemas + [(place, content["schema"]) for place, content in callback_contents(document)]


def callbacks(document: Document) -> list[tuple[Place, dict[str, Any]]]:
    """The operations of receivers of messages, each with the id of our operation and the name of the callback."""
    return [
        ((operation.operation_id, name), item["post"])
        for operation in operations(document)
        for name, callback in operation.operation.get("callbacks", {}).items()
        for item in callback.values()
    ]


def callback_contents(document: Document) -> list[tuple[Place, dict[str, Any]]]:
    """The contents of the messages that the server sends, each with the operation id and the name of the callback."""
    return [
        (place, content)
        for place, operation in callbacks(document)
        for content in operation["requestBody"]["content"].values()
    ]


def reachable_schemas(
    document: Document, roots: Sequence[tuple[Place, dict[str, Any]]]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Every schema reached from the roots, each component once; the place of a component is its name."""
    names: set[str] = set()
    todo = list(roots)
    while todo:
        place, schema = todo.pop()
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            if name not in names:
                names.add(name)
                todo.append(((name,), resolve(document, schema)))
            continue
        yield place, schema
        todo.extend(((*place, key), child) for key, child in schema.get("properties", {}).items())
        if "items" in schema:
            todo.append(((*place, "items"), schema["items"]))
        if isinstance(schema.get("additionalProperties"), dict):
            todo.append(((*place, "additionalProperties"), schema["additionalProperties"]))
        for keyword in ("allOf", "anyOf", "oneOf"):
            todo.extend(((*place, keyword), child) for child in schema.get(keyword, ()))


def texts(node: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every string of the document, keys included, with its place."""
    if isinstance(node, str):
        yield place, node
    elif isinstance(node, dict):
        for key, child in node.items():
            yield (*place, key), key
            yield from texts(child, (*place, key))
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from texts(child, (*place, str(index)))


def table(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file next to this module."""
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def problem_types(document: Document) -> dict[str, int]:
    """The status by problem type, from the table in the description of the schema Problem."""
    rows = re.findall(
        r"^\| `(/problems/[a-z-]+)` \| (\d{3}) \|", document["components"]["schemas"]["Problem"]["description"], re.M
    )
    return {slug: int(status) for slug, status in rows}
