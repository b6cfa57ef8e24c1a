"""The operations of an OpenAPI document in the forms that pages need: by tag, and as sections of the search."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import openapi


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """A line of the list of operations."""

    operation_id: str
    method: str
    path: str
    summary: str
    is_extension: bool
    is_deprecated: bool


@dataclass(frozen=True, slots=True)
class OperationGroup:
    """The operations of a tag, with the page of the documentation about them."""

    tag: str
    description: str
    page: str
    entries: tuple[OperationEntry, ...]


def groups(document: Mapping[str, Any]) -> list[OperationGroup]:
    """The operations by tag, both in the order of the OpenAPI document; tags without operations are left out."""
    by_tag: dict[str, list[OperationEntry]] = {tag["name"]: [] for tag in document.get("tags", ())}
    for path, method, _, operation in openapi.operations_of(document):
        if "operationId" not in operation:
            # The OpenAPI document is invalid, which its validation reports after the pages are made.
            continue
        entry = OperationEntry(
            operation_id=operation["operationId"],
            method=method.upper(),
            path=path,
            summary=operation.get("summary", operation["operationId"]),
            is_extension=operation.get("x-extension", False),
            is_deprecated=operation.get("deprecated", False),
        )
        by_tag.setdefault((operation.get("tags") or ["operations"])[0], []).append(entry)
    tags = {tag["name"]: tag for tag in document.get("tags", ())}
    return [_group(name, tags.get(name, {}), entries) for name, entries in by_tag.items() if entries]


def _group(name: str, tag: Mapping[str, Any], entries: Iterable[OperationEntry]) -> OperationGroup:
    """The group of a tag, which may have no description in the OpenAPI document."""
    page = tag.get("externalDocs", {}).get("url", "")
    return OperationGroup(name, tag.get("description", ""), page, tuple(entries))


def search_sections(document: Mapping[str, Any], page: str) -> list[dict[str, str]]:
    """The operations as sections of the search, with the names of their fields; `page` is the address of their page."""
    fields = _FieldNames(document)
    return [
        {
            "url": f"{page}#{operation['operationId']}",
            "page": document["info"]["title"],
            "title": f"{operation.get('summary', '')} ({operation['operationId']})",
            "text": f"{method.upper()} {path} {' '.join(operation.get('description', '').split())}"
            f" Fields: {', '.join(sorted(fields.of(operation)))}",
        }
        for path, method, _, operation in openapi.operations_of(document)
    ]


class _FieldNames:
    """Collects the names of fields and parameters of operations of an OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def of(self, operation: Mapping[str, Any]) -> set[str]:
        """The names in requests and in successful responses; problems have the same names in all operations."""
        responses = [node for status, node in operation["responses"].items() if status.startswith("2")]
        names: set[str] = set()
        visited: set[str] = set()
        nodes: list[Any] = [operation.get("parameters", []), operation.get("requestBody", {}), responses]
        while nodes:
            node = nodes.pop()
            if isinstance(node, list):
                nodes += node
            elif isinstance(node, Mapping):
                if isinstance(reference := node.get("$ref"), str) and reference not in visited:
                    visited.add(reference)
                    nodes.append(self._resolve(reference))
                if "in" in node and isinstance(node.get("name"), str):
                    names.add(node["name"])
                if isinstance(fields := node.get("properties"), Mapping):
                    names.update(fields)
                nodes += [child for name, child in node.items() if name not in ("example", "examples", "links")]
        return names

    def _resolve(self, reference: str) -> Any:
        node: Any = self._document
        for name in reference.removeprefix("#/").split("/"):
            node = node[name]
        return node
