"""The objects of requests whose fields the client chooses have a maximum size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import openapi
from handlers.messages.json_text import FREE_OBJECTS
from handlers.messages.validation import Schemas

# Objects with limits of their own: documents of collections, their schemas, and trees of expressions.
OTHERWISE_LIMITED = {"attrs", "jsonschema", "node"}


def test_each_field_with_a_free_object_is_known_to_the_decoder():
    free_names = {name for surface in openapi.SURFACES for name in free_fields(openapi.bundle(surface))}
    assert free_names - OTHERWISE_LIMITED == FREE_OBJECTS


def free_fields(document: Mapping[str, Any]) -> Iterator[str]:
    """The names of the fields of request bodies that hold objects of any fields, or lists of such objects."""
    schemas, references = Schemas("free", document), set()
    todo = [
        operation["requestBody"]
        for item in document["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict) and "requestBody" in operation
    ]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        elif isinstance(node, dict):
            if "$ref" in node and node["$ref"] not in references:
                references.add(node["$ref"])
                todo.append(schemas.resolved(node))
            yield from (name for name, field in node.get("properties", {}).items() if is_free(schemas, field))
            todo += node.values()


def is_free(schemas: Schemas, schema: Mapping[str, Any]) -> bool:
    """True for an object without documented fields, or for a list of such objects."""
    schema = schemas.resolved(schema)
    if len(schema.get("allOf", ())) == 1:
        return is_free(schemas, schema["allOf"][0])
    if schema.get("type") == "array":
        return is_free(schemas, schema["items"])
    has_any_fields = schema.get("additionalProperties", True) is True and not schema.get("properties")
    return schema.get("type") == "object" and has_any_fields
