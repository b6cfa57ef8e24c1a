"""The objects of requests whose fields the client chooses have a maximum size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openapi
from handlers.messages.json_text import FREE_OBJECTS
from tests.contract.documents import Document, reachable_schemas, request_schemas, resolve

# Objects with limits of their own: documents of collections, their schemas, and trees of expressions.
SEPARATELY_LIMITED = {"attrs", "jsonschema", "node"}


def test_the_decoder_knows_each_field_with_a_free_object():
    free_names = {name for surface in openapi.SURFACES for name in free_fields(openapi.bundle(surface))}
    assert free_names - SEPARATELY_LIMITED == FREE_OBJECTS


def free_fields(document: Document) -> Iterator[str]:
    """The names of the fields of request bodies that hold objects of any fields, or lists of such objects."""
    for _, schema in reachable_schemas(document, request_schemas(document)):
        yield from (name for name, field in schema.get("properties", {}).items() if is_free(document, field))


def is_free(document: Document, schema: dict[str, Any]) -> bool:
    """True for an object without documented fields, or for a list of such objects."""
    schema = resolve(document, schema)
    if len(schema.get("allOf", ())) == 1:
        return is_free(document, schema["allOf"][0])
    if schema.get("type") == "array":
        return is_free(document, schema["items"])
    has_any_fields = schema.get("additionalProperties", True) is True and not schema.get("properties")
    return schema.get("type") == "object" and has_any_fields
