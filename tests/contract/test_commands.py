"""The command of a request body has all fields of the document, and defaults for those that are optional."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

import openapi
from domain.fields import wire_name
from handlers.messages.base import Body, Update
from handlers.operation import all_operations
from tests.contract.documents import body_contents, operations, resolve


def bodies() -> Iterator[Any]:
    """The operations whose bodies become one command: document, schema, body, and whether all fields are required."""
    declarations = all_operations()
    for surface in openapi.SURFACES:
        document = openapi.bundle(surface)
        for operation in operations(document):
            body = declarations[operation.operation_id].bodies.get(surface)
            if isinstance(body, Body | Update):
                [content] = body_contents(document, operation).values()
                schema = resolve(document, content["schema"])
                requires_all_fields = isinstance(body, Body) or operation.method == "post"
                for number, form in enumerate(schema.get("oneOf", [schema])):
                    name = f"{surface}:{operation.operation_id}" + (f":{number}" if "oneOf" in schema else "")
                    yield pytest.param(document, resolve(document, form), body, requires_all_fields, id=name)


@pytest.mark.parametrize(("document", "schema", "body", "requires_all_fields"), list(bodies()))
def test_a_command_has_the_fields_of_its_document(
    document: dict[str, Any], schema: Mapping[str, Any], body: Any, requires_all_fields: bool
):
    fields = {field.metadata.get("wire") or wire_name(field.name): field for field in dataclasses.fields(body.command)}
    hints = get_type_hints(body.command)
    required_fields = {
        wire
        for wire, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    nullable_fields = {
        wire for wire, field_schema in schema["properties"].items() if resolve(document, field_schema).get("nullable")
    }
    # The fields that null clears, and whose attribute neither has a default nor accepts None.
    fields_without_none = {
        wire for wire in required_fields & nullable_fields if NoneType not in get_args(hints[fields[wire].name])
    }

    assert fields.keys() >= schema["properties"].keys()
    assert fields_without_none == set()
    # An update may omit any field; the create operation of the record checks its defaults.
    if requires_all_fields:
        assert required_fields <= set(schema.get("required", ()))
