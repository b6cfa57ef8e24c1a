"""The schemas in a JSON Schema, by pointer, and which of them check the same value of a document, or a part of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from domain.problems import pointer_part

# Keywords whose schemas check the same value of the document as the schema with the keyword.
_SAME_VALUE = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_MAPS = ("dependentSchemas",)
# Keywords whose schemas check values inside the value that the schema with the keyword checks.
_PARTS = (
    *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    "contentSchema",
)
_PART_LISTS = ("prefixItems",)
_PART_MAPS = ("properties", "patternProperties")
_UNUSED_MAPS = ("$defs", "definitions")

Schemas = Mapping[str, Any]
"""The schemas in a schema, and itself, by their pointers; its own pointer is the empty text."""


def subschemas(schema: Any) -> dict[str, Any]:
    """The schema and all schemas in it, by their pointers."""
    return dict(_iterate(schema, ""))


def patterns_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every regular expression of a schema, with the pointer to it."""
    for pointer, subschema in _iterate(schema, ""):
        if isinstance(subschema, dict):
            if isinstance(subschema.get("pattern"), str):
                yield f"{pointer}/pattern", subschema["pattern"]
            if isinstance(subschema.get("patternProperties"), dict):
                for pattern in subschema["patternProperties"]:
                    yield f"{pointer}/patternProperties/{pointer_part(pattern)}", pattern


def target_of(reference: Any) -> str | None:
    """The pointer of a reference to a schema inside the same JSON Schema; None for any other reference."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    return reference[1:]


def schemas_of_same_value(pointer: str, schemas: Schemas) -> list[str]:
    """The schemas that check the same value of a document as the schema at `pointer`."""
    schema = schemas[pointer]
    if not isinstance(schema, dict):
        return []
    pointers = [f"{pointer}/{key}" for key in _SAME_VALUE if key in schema]
    for key in _SAME_VALUE_LISTS:
        pointers += [f"{pointer}/{key}/{index}" for index in range(len(schema.get(key, ())))]
    for key in _SAME_VALUE_MAPS:
        pointers += [f"{pointer}/{key}/{pointer_part(name)}" for name in schema.get(key, ())]
    if "$ref" in schema:
        pointers.append(str(target_of(schema["$ref"])))
    return [other for other in pointers if other in schemas]


def schemas_of_parts(pointer: str, schemas: Schemas) -> list[str]:
    """The schemas that check parts of the value that the schema at `pointer` checks.

    These are the schemas of `items`, `additionalProperties`, `patternProperties` and the like: several of them may
    check the same part. `schema_groups_of_parts` has the others.
    """
    schema = schemas[pointer]
    if not isinstance(schema, dict):
        return []
    pointers = [f"{pointer}/{key}" for key in _PARTS]
    pointers += [f"{pointer}/patternProperties/{pointer_part(name)}" for name in schema.get("patternProperties", ())]
    return [other for other in pointers if other in schemas]


def schema_groups_of_parts(pointer: str, schemas: Schemas) -> Iterator[list[str]]:
    """The schemas of `properties` as one group, and those of `prefixItems` as another, of the schema at `pointer`.

    The schemas of a group check different parts of the value that the schema at `pointer` checks.
    """
    schema = schemas[pointer]
    if isinstance(schema, dict):
        for key in ("properties", "prefixItems"):
            names = schema.get(key, ())
            parts = range(len(names)) if isinstance(names, list) else map(pointer_part, names)
            pointers = [f"{pointer}/{key}/{part}" for part in parts]
            if group := [other for other in pointers if other in schemas]:
                yield group


def _iterate(schema: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    """Yield the schema at a pointer and all schemas in it, each with its pointer."""
    todo = [(pointer, schema)]
    while todo:
        pointer, schema = todo.pop()
        if isinstance(schema, bool):
            yield pointer, schema
        if not isinstance(schema, dict):
            continue
        yield pointer, schema
        for key in (*_SAME_VALUE, *_PARTS):
            if key in schema:
                todo.append((f"{pointer}/{key}", schema[key]))
        for key in (*_SAME_VALUE_LISTS, *_PART_LISTS):
            if isinstance(schema.get(key), list):
                todo.extend((f"{pointer}/{key}/{index}", subschema) for index, subschema in enumerate(schema[key]))
        for key in (*_SAME_VALUE_MAPS, *_PART_MAPS, *_UNUSED_MAPS):
            if isinstance(schema.get(key), dict):
                todo.extend((f"{pointer}/{key}/{pointer_part(name)}", part) for name, part in schema[key].items())
