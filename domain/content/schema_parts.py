"""The schemas in a JSON Schema, by pointer, and which of them check the same value of a document, or a part of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from domain.problems import pointer_part

# Keywords whose schemas check the same value of the document as the schema with the keyword.
_SAME_PLACE = ("not", "if", "then", "else")
_SAME_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_PLACE_MAPS = ("dependentSchemas",)
# Keywords whose schemas check values inside the value that the schema with the keyword checks.
_INSIDE = (
    *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    "contentSchema",
)
_INSIDE_LISTS = ("prefixItems",)
_INSIDE_MAPS = ("properties", "patternProperties")
_UNUSED_MAPS = ("$defs", "definitions")

Schemas = Mapping[str, Any]
"""The schemas in a schema, and itself, by their pointers; its own pointer is the empty text."""


def subschemas(schema: Any) -> dict[str, Any]:
    """The schema and all schemas in it, by their pointers."""
    return dict(_iterate(schema, ""))


def patterns_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every regular expression of a schema, with the pointer to it."""
    for place, subschema in _iterate(schema, ""):
        if isinstance(subschema, dict):
            if isinstance(subschema.get("pattern"), str):
                yield f"{place}/pattern", subschema["pattern"]
            if isinstance(subschema.get("patternProperties"), dict):
                for pattern in subschema["patternProperties"]:
                    yield f"{place}/patternProperties/{pointer_part(pattern)}", pattern


def target_of(reference: Any) -> str | None:
    """The pointer of a reference to a schema inside the same JSON Schema; None for any other reference."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    return reference[1:]


def schemas_of_same_value(place: str, schemas: Schemas) -> list[str]:
    """The schemas that check the same value of a document as the schema at `place`."""
    schema = schemas[place]
    if not isinstance(schema, dict):
        return []
    places = [f"{place}/{key}" for key in _SAME_PLACE if key in schema]
    for key in _SAME_PLACE_LISTS:
        places += [f"{place}/{key}/{index}" for index in range(len(schema.get(key, ())))]
    for key in _SAME_PLACE_MAPS:
        places += [f"{place}/{key}/{pointer_part(name)}" for name in schema.get(key, ())]
    if "$ref" in schema:
        places.append(str(target_of(schema["$ref"])))
    return [other_place for other_place in places if other_place in schemas]


def schemas_of_parts(place: str, schemas: Schemas) -> list[str]:
    """The schemas of `items`, `additionalProperties`, `patternProperties` and the like of the schema at `place`.

    They check parts of the value that this schema checks, and several may check the same part.
    `schema_groups_of_parts` has the schemas of `properties` and `prefixItems`.
    """
    schema = schemas[place]
    if not isinstance(schema, dict):
        return []
    places = [f"{place}/{key}" for key in _INSIDE]
    places += [f"{place}/patternProperties/{pointer_part(name)}" for name in schema.get("patternProperties", ())]
    return [other_place for other_place in places if other_place in schemas]


def schema_groups_of_parts(place: str, schemas: Schemas) -> Iterator[list[str]]:
    """The schemas of `properties`, and those of `prefixItems`, of the schema at `place`, as one group for each keyword.

    They check parts of the value that this schema checks; at most one schema of a group checks the same part.
    """
    schema = schemas[place]
    if isinstance(schema, dict):
        for key in ("properties", "prefixItems"):
            names = schema.get(key, ())
            parts = range(len(names)) if isinstance(names, list) else map(pointer_part, names)
            places = [f"{place}/{key}/{part}" for part in parts]
            if group := [other_place for other_place in places if other_place in schemas]:
                yield group


def _iterate(schema: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The schema at the pointer `place` and all schemas in it, with their pointers."""
    todo = [(place, schema)]
    while todo:
        place, schema = todo.pop()
        if isinstance(schema, bool) and place:
            yield place, schema
        if not isinstance(schema, dict):
            continue
        yield place, schema
        for key in (*_SAME_PLACE, *_INSIDE):
            if key in schema:
                todo.append((f"{place}/{key}", schema[key]))
        for key in (*_SAME_PLACE_LISTS, *_INSIDE_LISTS):
            if isinstance(schema.get(key), list):
                todo.extend((f"{place}/{key}/{index}", subschema) for index, subschema in enumerate(schema[key]))
        for key in (*_SAME_PLACE_MAPS, *_INSIDE_MAPS, *_UNUSED_MAPS):
            if isinstance(schema.get(key), dict):
                todo.extend((f"{place}/{key}/{pointer_part(name)}", part) for name, part in schema[key].items())
