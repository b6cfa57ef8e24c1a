"""Finds the changes between two OpenAPI documents that break programs written for the older one.

docs/versioning.md lists what may change. At a release, `python -m tests.contract.compatibility` stores the documents as
the older ones of the next comparisons.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openapi
from tests.contract.documents import Document, operations, resolve

RELEASED = Path(__file__).parent / "released"

# Parts that do not affect programs.
_PROSE = {"description", "example", "examples", "externalDocs", "links", "summary", "title"}
_KEPT_EXTENSIONS = {"x-extensible-enum"}
# Bounds of requests: a larger lower bound breaks programs, and so does a smaller upper bound.
_LOWER_BOUNDS = ("minimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "maxLength", "maxItems", "maxProperties")

_REQUEST = "request"
_RESPONSE = "response"


def released_document(surface: str) -> Document:
    """The document of the last release, without prose and extensions."""
    return json.loads(gzip.decompress((RELEASED / f"{surface}.json.gz").read_bytes()))


def store() -> None:
    """Store the current documents as those of the last release."""
    RELEASED.mkdir(exist_ok=True)
    for surface in openapi.SURFACES:
        text = json.dumps(bare(openapi.bundle(surface)), sort_keys=True, separators=(",", ":"))
        (RELEASED / f"{surface}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def bare(node: Any, *, are_names: bool = False) -> Any:
    """The node without prose and extensions; with `are_names` its keys are names of fields, which all stay."""
    if isinstance(node, list):
        return [bare(child) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        key: bare(child, are_names=key == "properties" and not are_names)
        for key, child in node.items()
        if are_names or (key not in _PROSE and (not key.startswith("x-") or key in _KEPT_EXTENSIONS))
    }


def breaking_changes(old: Document, new: Document) -> list[str]:
    """Every change that breaks a program, as a text: the place in quotes, and what has changed there."""
    return sorted(set(_Comparison(old, new).operations()))


class _Comparison:
    """Compares two documents. Compares each pair of components only once for requests and once for responses."""

    def __init__(self, old: Document, new: Document) -> None:
        self._old = old
        self._new = new
        self._compared: set[tuple[str, str, str]] = set()

    def operations(self) -> Iterator[str]:
        new_operations = {(operation.method, operation.path): operation for operation in operations(self._new)}
        for old in operations(self._old):
            new = new_operations.get((old.method, old.path))
            if new is None:
                yield f"`{old.operation_id}`: {old.method.upper()} {old.path} is gone"
                continue
            if new.operation_id != old.operation_id:
                yield f"`{old.operation_id}`: is named {new.operation_id}"
            yield from self._security(old.operation_id, old.operation["security"], new.operation["security"])
            yield from self._parameters(old.operation_id, old.parameters, new.parameters)
            yield from self._body(old.operation_id, old.operation, new.operation)
            yield from self._responses(old.operation_id, old.operation["responses"], new.operation["responses"])
            yield from self._callbacks(
                old.operation_id, old.operation.get("callbacks", {}), new.operation.get("callbacks", {})
            )

    def _security(self, name: str, old: list[Any], new: list[Any]) -> Iterator[str]:
        yield from (
            f"`{name}`: does not take {json.dumps(requirement)}" for requirement in old if requirement not in new
        )

    def _parameters(self, name: str, old: Any, new: Any) -> Iterator[str]:
        before = {(parameter["in"], parameter["name"]): parameter for parameter in old}
        after = {(parameter["in"], parameter["name"]): parameter for parameter in new}
        for key, parameter in before.items():
            place = f"{name}.{parameter['name']}"
            if key not in after:
                yield f"`{place}`: the parameter is gone"
            else:
                yield from self._schema(place, parameter["schema"], after[key]["schema"], _REQUEST)
        for key, parameter in after.items():
            if parameter.get("required") and not before.get(key, {}).get("required"):
                yield f"`{name}.{parameter['name']}`: the parameter is required"

    def _body(self, name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
        before = resolve(self._old, old.get("requestBody", {}))
        after = resolve(self._new, new.get("requestBody", {}))
        if after.get("required") and not before.get("required"):
            yield f"`{name}`: the body is required"
        yield from self._contents(name, before.get("content", {}), after.get("content", {}), _REQUEST)

    def _responses(self, name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
        for status, node in old.items():
            if status not in new:
                if status.startswith("2"):
                    yield f"`{name}`: the status {status} is gone"
                continue
            before, after = resolve(self._old, node), resolve(self._new, new[status])
            removed_headers = before.get("headers", {}).keys() - after.get("headers", {}).keys()
            yield from (f"`{name}`: the header {header} of {status} is gone" for header in removed_headers)
            yield from self._contents(
                f"{name}.{status}", before.get("content", {}), after.get("content", {}), _RESPONSE
            )

    def _callbacks(self, name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
        for callback, before in old.items():
            if callback not in new:
                yield f"`{name}.{callback}`: the message is gone"
                continue
            for old_item, new_item in zip(before.values(), new[callback].values(), strict=True):
                contents = [item["post"]["requestBody"]["content"] for item in (old_item, new_item)]
                yield from self._contents(f"{name}.{callback}", *contents, _RESPONSE)

    def _contents(self, name: str, old: dict[str, Any], new: dict[str, Any], direction: str) -> Iterator[str]:
        for media_type, content in old.items():
            if media_type not in new:
                yield f"`{name}`: {media_type} is gone"
            elif "schema" in content:
                yield from self._schema(name, content["schema"], new[media_type]["schema"], direction)

    def _schema(self, place: str, old: Any, new: Any, direction: str) -> Iterator[str]:
        old_name, before = _flat(self._old, old)
        new_name, after = _flat(self._new, new)
        if old_name and new_name:
            if (old_name, new_name, direction) in self._compared:
                return
            self._compared.add((old_name, new_name, direction))
        place = old_name or place
        yield from (f"`{place}`: {fault}" for fault in _scalar_faults(before, after, direction))
        yield from self._object(place, before, after, direction)
        if "items" in before and "items" in after:
            yield from self._schema(f"{place}[]", before["items"], after["items"], direction)
        for keyword in ("oneOf", "anyOf"):
            choices, new_choices = before.get(keyword, []), after.get(keyword, [])
            if len(new_choices) < len(choices):
                yield f"`{place}`: there are fewer forms"
            for number, (choice, new_choice) in enumerate(zip(choices, new_choices, strict=False)):
                yield from self._schema(f"{place}.{number}", choice, new_choice, direction)

    def _object(self, place: str, old: dict[str, Any], new: dict[str, Any], direction: str) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name, schema in before.items():
            if name not in after:
                yield f"`{place}.{name}`: the field of a {direction} is gone"
            else:
                yield from self._schema(f"{place}.{name}", schema, after[name], direction)
        required, new_required = set(old.get("required", ())), set(new.get("required", ()))
        if direction == _REQUEST:
            yield from (f"`{place}.{name}`: the field is required" for name in new_required - required)
        else:
            optional_fields = (required - new_required) & after.keys()
            yield from (f"`{place}.{name}`: the field may be omitted from a response" for name in optional_fields)
        extras = [schema.get("additionalProperties", True) for schema in (old, new)]
        if all(isinstance(extra, dict) for extra in extras):
            yield from self._schema(f"{place}.*", *extras, direction)
        elif direction == _REQUEST and extras[0] is not False and extras[1] is not True and "type" in old:
            yield f"`{place}`: other fields are refused"


def _flat(document: Document, schema: Any) -> tuple[str | None, dict[str, Any]]:
    """The name of the component if the schema is a reference, else None, and the schema with its `allOf` merged."""
    name = schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None
    schema = resolve(document, schema)
    merged: dict[str, Any] = {}
    for part in schema.get("allOf", ()):
        merged.update(_flat(document, part)[1])
    merged.update({keyword: value for keyword, value in schema.items() if keyword != "allOf"})
    return name, merged


def _scalar_faults(old: dict[str, Any], new: dict[str, Any], direction: str) -> Iterator[str]:
    for keyword in ("type", "format"):
        if old.get(keyword) != new.get(keyword):
            yield f"the {keyword} is {new.get(keyword)}, was {old.get(keyword)}"
    for keyword in ("enum", "x-extensible-enum"):
        removed_values = [value for value in old.get(keyword, ()) if value not in new.get(keyword, old[keyword])]
        yield from (f"the value {value} is gone" for value in removed_values)
    if direction == _RESPONSE:
        if new.get("nullable") and not old.get("nullable"):
            yield "may be null in a response"
        return
    if old.get("nullable") and not new.get("nullable"):
        yield "null is refused"
    if "enum" in new and "enum" not in old:
        yield "only some values are allowed"
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield "the pattern is another"
    for keyword in _LOWER_BOUNDS:
        if new.get(keyword, float("-inf")) > old.get(keyword, float("-inf")):
            yield f"the {keyword} is {new[keyword]}"
    for keyword in _UPPER_BOUNDS:
        if new.get(keyword, float("inf")) < old.get(keyword, float("inf")):
            yield f"the {keyword} is {new[keyword]}"
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        yield "the same item twice is refused"


if __name__ == "__main__":
    store()
