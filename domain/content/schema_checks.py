"""The JSON Schemas (Draft 2020-12) that a collection accepts: self-contained, and cheap for any document.

A schema is refused if it refers to other schemas, or if checking a document with it could take long: `$ref` that lead
in a circle without going down into the document, or that multiply on the way down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from domain.content.documents import MOST_ATTRS_DEPTH, is_deeper
from domain.problems import FieldFault

MOST_SCHEMA_BYTES = 65_536
MOST_SCHEMA_DEPTH = 64
MOST_SUBSCHEMAS = 2_000
MOST_EVALUATIONS = 500
"""How often one place of a document may be checked."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Keywords whose schemas check the same place of the document as the schema that has them.
_SAME_PLACE = ("not", "if", "then", "else")
_SAME_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_PLACE_MAPS = ("dependentSchemas",)
# Keywords whose schemas check places inside that place.
_INSIDE = (
    *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    "contentSchema",
)
_INSIDE_LISTS = ("prefixItems",)
_INSIDE_MAPS = ("properties", "patternProperties")
_UNUSED_MAPS = ("$defs", "definitions")
_UNSUPPORTED = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary")

Schemas = Mapping[str, Any]


def schema_faults(schema: Mapping[str, Any], schema_bytes: int) -> list[FieldFault]:
    """Faults of a schema that its meta-schema does not find; pointers lead into the schema."""
    if schema_bytes > MOST_SCHEMA_BYTES:
        return [FieldFault(f"jsonschema is longer than {MOST_SCHEMA_BYTES} bytes as JSON", pointer="")]
    if is_deeper(schema, MOST_SCHEMA_DEPTH):
        return [FieldFault(f"jsonschema is nested deeper than {MOST_SCHEMA_DEPTH} levels", pointer="")]
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        return [FieldFault(f"$schema is not {DIALECT}, the only dialect served", pointer="/$schema")]
    schemas = dict(_subschemas(schema, ""))
    if len(schemas) > MOST_SUBSCHEMAS:
        return [FieldFault(f"jsonschema has more than {MOST_SUBSCHEMAS} schemas in it", pointer="")]
    faults = [fault for place, subschema in schemas.items() for fault in _own_faults(place, subschema, schemas)]
    return faults or _cost_faults(schemas)


def patterns_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every regular expression of a schema, with the pointer to it."""
    for place, subschema in _subschemas(schema, ""):
        if isinstance(subschema, dict):
            if isinstance(subschema.get("pattern"), str):
                yield f"{place}/pattern", subschema["pattern"]
            if isinstance(subschema.get("patternProperties"), dict):
                for pattern in subschema["patternProperties"]:
                    yield f"{place}/patternProperties/{_escaped(pattern)}", pattern


def _subschemas(schema: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The schema and all schemas in it, each with its pointer."""
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
                todo.extend((f"{place}/{key}/{n}", subschema) for n, subschema in enumerate(schema[key]))
        for key in (*_SAME_PLACE_MAPS, *_INSIDE_MAPS, *_UNUSED_MAPS):
            if isinstance(schema.get(key), dict):
                todo.extend((f"{place}/{key}/{_escaped(name)}", subschema) for name, subschema in schema[key].items())


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _own_faults(place: str, schema: Any, schemas: Schemas) -> Iterator[FieldFault]:
    if not isinstance(schema, dict):
        return
    for key in _UNSUPPORTED:
        if key in schema:
            yield FieldFault(f"{key} is not served; use $ref to a schema in $defs", pointer=f"{place}/{key}")
    if place and ("$id" in schema or "$schema" in schema):
        yield FieldFault("$id and $schema are served at the top of a schema only", pointer=place)
    reference = schema.get("$ref")
    if reference is not None and _target(reference) not in schemas:
        detail = "$ref leads to no schema in this jsonschema; remote schemas are not looked up"
        yield FieldFault(detail, pointer=f"{place}/$ref")


def _target(reference: Any) -> str | None:
    """The pointer that a reference inside the schema stands for, in the form of the places above."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    return reference[1:]


def _cost_faults(schemas: Schemas) -> list[FieldFault]:
    """A fault where some place of a document could be checked too often, or without end."""
    # Costs at one depth follow from those one level below, so a recursive schema costs as much as a document can have.
    below: dict[str, int] = dict.fromkeys(schemas, 1)
    for _ in range(MOST_ATTRS_DEPTH):
        costs: dict[str, int] = {}
        for place in schemas:
            circle = _add_cost(place, schemas, below, costs)
            if circle is not None:
                return [FieldFault("$ref leads back to this schema without going into the document", pointer=circle)]
        if max(costs.values(), default=0) > MOST_EVALUATIONS:
            worst = max(costs, key=lambda cost: costs[cost])
            detail = f"jsonschema could check one place of a document more than {MOST_EVALUATIONS} times"
            return [FieldFault(detail, pointer=worst)]
        if costs == below:
            break
        below = costs
    return []


def _add_cost(start: str, schemas: Schemas, below: Mapping[str, int], costs: dict[str, int]) -> str | None:
    """Compute the cost of a schema and of those that check the same place; returns the pointer of a circle, if any."""
    open_places: set[str] = set()
    todo = [(start, False)]
    while todo:
        place, is_done = todo.pop()
        if is_done:
            open_places.discard(place)
            costs[place] = (
                1
                + sum(costs[other_place] for other_place in _beside(place, schemas))
                + _inside_cost(place, schemas, below)
            )
            continue
        if place in costs:
            continue
        if place in open_places:
            return place
        open_places.add(place)
        todo.append((place, True))
        for other_place in _beside(place, schemas):
            if other_place in open_places:
                return other_place
            todo.append((other_place, False))
    return None


def _beside(place: str, schemas: Schemas) -> list[str]:
    schema = schemas[place]
    if not isinstance(schema, dict):
        return []
    beside = [f"{place}/{key}" for key in _SAME_PLACE if key in schema]
    for key in _SAME_PLACE_LISTS:
        beside += [f"{place}/{key}/{n}" for n in range(len(schema.get(key, ())))]
    for key in _SAME_PLACE_MAPS:
        beside += [f"{place}/{key}/{_escaped(name)}" for name in schema.get(key, ())]
    if "$ref" in schema:
        beside.append(str(_target(schema["$ref"])))
    return [other_place for other_place in beside if other_place in schemas]


def _inside_cost(place: str, schemas: Schemas, below: Mapping[str, int]) -> int:
    """The cost of the schemas that one value inside may have to satisfy: one property or item, and all patterns."""
    schema = schemas[place]
    if not isinstance(schema, dict):
        return 0
    cost = sum(below.get(f"{place}/{key}", 0) for key in _INSIDE)
    for key in ("properties", "prefixItems"):
        names = schema.get(key, ())
        parts = range(len(names)) if isinstance(names, list) else map(_escaped, names)
        cost += max((below.get(f"{place}/{key}/{part}", 0) for part in parts), default=0)
    patterns = schema.get("patternProperties", ())
    return cost + sum(below.get(f"{place}/patternProperties/{_escaped(name)}", 0) for name in patterns)
