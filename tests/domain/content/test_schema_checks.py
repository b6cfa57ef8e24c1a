"""JSON Schemas of collections: what is refused, so that no document is looked up elsewhere or checked for long."""

from __future__ import annotations

import pytest

from domain.content.schema_checks import MOST_EVALUATIONS, MOST_SUBSCHEMAS, patterns_of, schema_faults

TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}


def faults(schema, size=100):
    return [fault.pointer for fault in schema_faults(schema, size)]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://shop.example/drink"},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#/definitions/a~1b"}}, "definitions": {"a/b": True}},
        {"properties": {"$ref": {"type": "string"}, "$anchor": {}}},
        {"allOf": [{"type": "object"}] * 100},
        TREE,
    ],
)
def test_schemas_that_are_taken(schema):
    assert faults(schema) == []


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "/$ref"),
        ({"$ref": "file:///etc/passwd"}, "/$ref"),
        ({"$ref": "#/properties/a/default"}, "/$ref"),
        ({"items": {"$ref": "#name"}}, "/items/$ref"),
        ({"$ref": 7}, "/$ref"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema"),
        ({"$schema": 7}, "/$schema"),
        ({"properties": {"a": {"$anchor": "a"}}}, "/properties/a/$anchor"),
        ({"properties": {"a/b": {"$dynamicRef": "#a"}}}, "/properties/a~1b/$dynamicRef"),
        ({"items": {"$id": "https://shop.example/"}}, "/items"),
    ],
)
def test_schemas_that_look_things_up_elsewhere_are_refused(schema, pointer):
    assert faults(schema) == [pointer]


def test_circles_are_refused():
    assert faults({"$ref": "#"}) == [""]
    assert len(faults({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}})) == 1


def doubling(levels, wrap):
    defs = {"s0": {"type": "string"}}
    for n in range(1, levels):
        ref = {"$ref": f"#/$defs/s{n - 1}"}
        defs[f"s{n}"] = wrap(ref)
    return {"$defs": defs, "$ref": f"#/$defs/s{levels - 1}"}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda ref: {"allOf": [ref, ref]},
        lambda ref: {"if": ref, "then": ref},
        lambda ref: {"patternProperties": {"a": ref, "b": ref}},
        lambda ref: {"allOf": [{"properties": {"a": ref}}, {"properties": {"a": ref}}]},
    ],
)
def test_schemas_that_multiply_are_refused(wrap):
    assert len(faults(doubling(60, wrap))) == 1
    assert faults(doubling(5, wrap)) == []


def test_a_recursive_schema_that_multiplies_on_the_way_down_is_refused():
    twice = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    assert len(faults(twice)) == 1


def test_schemas_have_bounds():
    deep: dict = {}
    for _ in range(100):
        deep = {"not": deep}
    assert faults(deep) == faults({}, 2**20) == [""]
    assert faults({"properties": {str(n): {} for n in range(MOST_SUBSCHEMAS + 1)}}) == [""]
    assert faults({"properties": {str(n): {} for n in range(MOST_SUBSCHEMAS - 1)}}) == []
    assert len(faults({"allOf": [{}] * MOST_EVALUATIONS})) == 1


def test_all_patterns_are_found():
    schema = {"pattern": "a", "items": {"patternProperties": {"b/": {"pattern": "c"}}}, "properties": {"pattern": {}}}
    assert sorted(patterns_of(schema)) == [
        ("/items/patternProperties/b~1", "b/"),
        ("/items/patternProperties/b~1/pattern", "c"),
        ("/pattern", "a"),
    ]
