"""JSON Schemas of collections: those with external references or a high cost are refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.content.schema_checks import schema_faults
from domain.content.schema_costs import Cost, cost_faults, count_values, schema_costs
from domain.content.schema_parts import patterns_of, subschemas
from domain.problems import FieldFault

TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}


def faults(schema, size=100):
    """The pointers of the faults of a schema of `size` bytes, also those of its cost."""
    field_faults = schema_faults(schema, size)
    if not field_faults:
        costs = schema_costs(subschemas(schema), len)
        field_faults = [costs] if isinstance(costs, FieldFault) else cost_faults(costs)
    return [fault.pointer for fault in field_faults]


def cost(schema) -> Cost:
    """The cost of a valid schema; a pattern has as many instructions as characters."""
    costs = schema_costs(subschemas(schema), len)
    assert not isinstance(costs, FieldFault)
    return costs[""]


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
def test_usable_schemas_are_accepted(schema):
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
def test_schemas_with_external_references_are_refused(schema, pointer):
    assert faults(schema) == [pointer]


def test_circular_references_are_refused():
    assert faults({"$ref": "#"}) == [""]
    circle_of_two = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}
    assert faults(circle_of_two) == ["/$defs/b"]


def doubling(levels, wrap):
    """A schema of so many levels, each of which refers to the level below by `wrap`."""
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
def test_a_schema_whose_cost_doubles_with_each_level_is_refused(wrap):
    assert faults(doubling(60, wrap)) == [""]
    assert faults(doubling(5, wrap)) == []


def test_a_recursive_schema_whose_cost_doubles_with_each_level_of_a_document_is_refused():
    doubling_schema = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    assert faults(doubling_schema) == ["/properties/a"]


def test_a_schema_has_at_most_64_levels():
    schema_of_64_levels: dict = {}
    for _ in range(63):
        schema_of_64_levels = {"not": schema_of_64_levels}
    assert faults(schema_of_64_levels) == []
    assert faults({"not": schema_of_64_levels}) == [""]


def test_a_schema_has_at_most_2000_subschemas_with_itself():
    assert faults({"properties": {str(n): {} for n in range(2_000)}}) == [""]
    assert faults({"properties": {str(n): {} for n in range(1_999)}}) == []


def test_500_schemas_for_the_same_value_cost_too_much():
    assert faults({"allOf": [{}] * 500}) == [""]


def test_all_patterns_are_found():
    schema = {"pattern": "a", "items": {"patternProperties": {"b/": {"pattern": "c"}}}, "properties": {"pattern": {}}}
    assert sorted(patterns_of(schema)) == [
        ("/items/patternProperties/b~1", "b/"),
        ("/items/patternProperties/b~1/pattern", "c"),
        ("/pattern", "a"),
    ]


def test_numbers_of_more_than_20_digits_are_refused_because_they_are_compared_slowly():
    assert faults({"items": {"multipleOf": Decimal("1e-300")}}) == ["/items/multipleOf"]
    assert faults({"enum": [1, Decimal("1e300")]}) == ["/enum/1"]
    assert faults({"properties": {"a/b": {"maximum": 10**20}}}) == ["/properties/a~1b/maximum"]
    assert faults({"multipleOf": Decimal("1e-20"), "maximum": 10**20 - 1}) == []
    # The digits after the point count too.
    assert faults({"maximum": Decimal("1." + "0" * 20 + "1")}) == ["/maximum"]


def test_patterns_are_limited_in_length_and_instructions():
    assert schema_faults({"pattern": "a" * 1_000}, schema_bytes=2_000) == []
    assert schema_faults({"pattern": r"\d" * 100}, schema_bytes=2_000) == []
    assert faults({"pattern": "a" * 1_001}) == ["/pattern"]
    assert faults({"items": {"pattern": r"\d" * 101}}) == ["/items/pattern"]
    # All patterns may have 10,000 instructions in sum: 25 of 400.
    schemas = {str(n): {"pattern": "a" * 400} for n in range(26)}
    assert faults({"properties": schemas}) == [""]
    assert faults({"properties": {name: schema for name, schema in schemas.items() if name != "0"}}) == []


def test_the_costs_of_all_patterns_for_one_text_are_added_up():
    small_pattern = {"pattern": "a" * 100}
    # The patterns of `a` and `b` check different texts, so only the larger cost counts.
    assert cost(small_pattern).per_byte == 10 * 100
    assert cost({"properties": {"a": small_pattern, "b": small_pattern}}).per_byte == 10 * 100
    # In each of these schemas, one text is checked by three patterns.
    for schema in (
        {"allOf": [small_pattern, small_pattern, small_pattern]},
        {"items": {"anyOf": [small_pattern, small_pattern], "pattern": "a" * 100}},
        {"patternProperties": {"a": small_pattern, "b": small_pattern}, "additionalProperties": small_pattern},
        {
            "$defs": {"a": small_pattern},
            "properties": {"a": {"$ref": "#/$defs/a", "not": small_pattern, "if": small_pattern}},
        },
    ):
        assert cost(schema).per_byte == 3 * 10 * 100
    assert faults({"allOf": [small_pattern] * 4}) == []
    assert faults({"allOf": [small_pattern] * 5}) == [""]


def test_a_pattern_of_a_recursive_schema_counts_once_for_each_text():
    tree = {"properties": {"title": {"pattern": "a" * 100}, "children": {"type": "array", "items": {"$ref": "#"}}}}
    assert cost(tree).per_byte == 10 * 100


def test_all_values_of_a_document_are_counted_and_numbers_by_their_length():
    # Two objects, a list and four other values.
    assert count_values({"a": 1, "b": [True, None, {"c": "text"}]}) == 2 + 1 + 4
    assert count_values([Decimal("1.5"), Decimal("1e20")]) == 1 + 2
    # Numbers of more than 20 digits count much more.
    assert count_values(Decimal("1e-300")) == 3_001
    assert count_values(10**30) == 3_001


@pytest.mark.parametrize("kind", ["array", ["string", "null"], "null"])
def test_a_schema_that_no_object_satisfies_is_refused(kind):
    assert faults({"type": kind}) == ["/type"]
    for schema in ({"type": "object"}, {"type": ["object", "null"]}, {}):
        assert faults(schema) == []


def test_a_schema_has_a_maximum_size():
    assert faults({}, size=65_536) == []
    assert faults({}, size=65_537) == [""]
    assert faults({}, size=2**20) == [""]


@pytest.mark.parametrize(
    ("schema", "per_value", "per_byte"),
    [
        ({}, 0, 0),
        ({"enum": ["a"]}, 0, 0),
        ({"enum": [1, "a", 2]}, 2 * 1_200, 2 * 3),
        ({"const": 1}, 1_200, 3),
        ({"type": "string"}, 200, 0),
        ({"type": ["string", "null"]}, 2 * 200, 0),
        ({"minimum": 1, "exclusiveMaximum": 3}, 2 * 700, 0),
        ({"format": "date"}, 1_500, 4),
        ({"multipleOf": 2}, 2_500, 25),
        ({"required": ["a", "b"]}, 2 * 20, 2),
        ({"dependentRequired": {"a": ["b", "c"]}}, 3 * 20, 3),
        ({"uniqueItems": True}, 0, 10),
        # A pattern costs 20 like one more keyword, and for each byte ten times its instructions (here its characters).
        ({"pattern": "abc"}, 20, 10 * 3),
    ],
)
def test_a_schema_costs_20_for_itself_and_each_keyword_plus_the_cost_of_the_keyword(schema, per_value, per_byte):
    schema_cost = cost(schema)
    assert schema_cost.per_value == 20 * (1 + len(schema)) + per_value
    assert schema_cost.per_byte == per_byte
    document_of_3_values_and_5_bytes = schema_cost.of_document(3, 5)
    assert document_of_3_values_and_5_bytes == 3 * schema_cost.per_value + 5 * schema_cost.per_byte


def test_the_cost_of_a_schema_is_counted_apart_from_the_costs_of_its_parts():
    # The schema, each of its three keywords and the pattern cost 20, and so does the part; 300 numbers cost 3 per byte.
    schema_cost = cost({"enum": [*range(300)], "pattern": "abcd", "properties": {"a": True}})
    assert (schema_cost.evaluations, schema_cost.checks) == (2, 4)
    assert (schema_cost.here_per_value, schema_cost.inner_per_value) == (20 * 5 + 300 * 1_200, 20)
    assert (schema_cost.here_per_byte, schema_cost.inner_per_byte, schema_cost.per_byte) == (40, 0, 40 + 300 * 3)


def test_the_costs_of_dependent_schemas_are_added_to_those_of_the_schema():
    small_pattern = {"pattern": "a" * 100}
    schema = {"dependentSchemas": {"a": small_pattern, "b": small_pattern}, "allOf": [small_pattern]}
    assert cost(schema).per_byte == 3 * 10 * 100


@pytest.mark.parametrize(("count", "checks"), [(0, 1), (99, 1), (100, 2), (250, 3)])
def test_a_long_list_of_options_counts_as_more_checks(count, checks):
    assert cost({"enum": ["a"] * count}).checks == checks
