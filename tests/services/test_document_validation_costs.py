"""The time of validating documents by a collection's JSON Schema: pairs that would take long are refused.

Nothing can interrupt a validation. The bound is 50 ms of CPU; the tests allow five times as much, in CPU time of this
thread, so that a slow machine passes and a missing limit (seconds) does not.
"""

from __future__ import annotations

import random
import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from domain.problems import InvalidRequest
from handlers.messages.json_text import encode
from handlers.services.content.document_schemas import AttributesValidator, check_schema
from handlers.services.content.pattern_sizes import pattern_size

ALLOWED_SECONDS = 0.25
_RANDOM = random.Random(7)
_AB = "".join(_RANDOM.choice("ab") for _ in range(60_000))
_WIDE = "".join(_RANDOM.choice("aéж字") for _ in range(27_000))


def validate(schema: Any, attrs: Any) -> str:
    """Check the schema and validate a document; returns the detail of the first error, or an empty text."""
    size = len(encode(attrs))
    assert size <= 65_536, "larger documents are refused before their validation"
    try:
        check_schema(schema)
    except InvalidRequest as refusal:
        return refusal.faults[0].detail
    validator = AttributesValidator(schema)
    start = time.thread_time()
    faults = validator.faults(attrs, size)
    assert time.thread_time() - start < ALLOWED_SECONDS
    return faults[0].detail if faults else ""


def slow_pattern(repetitions: int) -> str:
    """A pattern for which a text of many a and b takes long, and longer the more repetitions it has."""
    return f"(?:a|b)*a(?:a|b){{{repetitions}}}c"


@pytest.mark.parametrize(
    ("schema", "attrs", "words"),
    [
        ({"allOf": [{"pattern": slow_pattern(150 - n)} for n in range(60)]}, {"a": _AB}, "takes too long"),
        ({"patternProperties": {slow_pattern(n): {} for n in range(60)}}, {"a": _AB}, "takes too long"),
        ({"properties": {"a": {"pattern": slow_pattern(150)}}}, {"a": _AB}, "takes too long"),
        ({"properties": {"a": {"pattern": slow_pattern(150)}}}, {"a": _AB[:5_000]}, "a does not match"),
        ({"properties": {"a": {"items": {"multipleOf": Decimal("1e-300")}}}}, {"a": [1] * 1000}, "digits"),
        (
            {"properties": {"a": {"items": {"enum": [[n] for n in range(9_000)]}}}},
            {"a": [[8_999]] * 1000},
            "takes too long",
        ),
        (
            {"properties": {"a": {"items": {"enum": list(range(300))}}}},
            {"a": [Decimal("1e-299")] * 1000},
            "takes too long",
        ),
        ({"allOf": [{"required": [f"k{n}" for n in range(900)]}] * 10}, {"a": _AB}, "takes too long"),
        ({"dependentRequired": {"a": [f"k{n}" for n in range(1_000)]}}, {"a": _AB}, "takes too long"),
        ({"additionalProperties": {"type": "string"}}, {str(n): n for n in range(5_000)}, "too many values"),
        (
            {"anyOf": [{"additionalProperties": {"items": {"type": "string"}}}] * 20},
            {"a": [1] * 2_000},
            "too many values",
        ),
        ({"properties": {"a": {"pattern": r"\w" * 9_000}}}, {"a": "a"}, "longer than 1000 characters"),
        ({"allOf": [1] * 20_000}, {}, "only if it has at most 2000 values"),
    ],
)
def test_expensive_schemas_and_documents_are_refused(schema, attrs, words):
    assert words in validate(schema, attrs)


@pytest.mark.parametrize(
    ("schema", "attrs"),
    [
        ({"properties": {"name": {"pattern": r"^[\p{L}\p{N} .,'-]+$"}}}, {"name": "Ana", "body": _AB}),
        ({"properties": {"name": {"pattern": r"^\p{Letter}+$"}}}, {"name": "Ana", "body": _AB}),
        ({"required": [f"k{n}" for n in range(200)]}, {**{f"k{n}": n for n in range(200)}, "body": _AB}),
        ({"properties": {"link": {"format": "uri"}}}, {"link": "https://shop.example/", "body": _AB}),
        ({"properties": {"mail": {"pattern": r"^[^@\s]+@[^@\s]+\.[^@\s]+$"}}}, {"mail": "a@b.example", "body": _AB}),
        (
            {"properties": {"list": {"items": {"properties": {"colour": {"enum": [str(n) for n in range(500)]}}}}}},
            {"list": [{"colour": "499", "price": Decimal("1.25")}] * 900},
        ),
        (
            {"additionalProperties": {"items": {"type": "number", "multipleOf": Decimal("0.01"), "minimum": 0}}},
            {"prices": [Decimal("1.25")] * 900},
        ),
    ],
)
def test_large_documents_of_common_schemas_are_accepted(schema, attrs):
    assert validate(schema, attrs) == ""


def test_the_documents_of_one_call_share_a_limit():
    schema = {"properties": {"a": {"pattern": slow_pattern(150)}}}
    check_schema(schema)
    validator = AttributesValidator(schema)
    attrs = {"a": _AB[:10_000] + "c"}
    refusals = [bool(validator.faults(attrs, len(encode(attrs)))) for _ in range(20)]
    details = [fault.detail for fault in validator.faults(attrs, len(encode(attrs)))]
    # Twelve documents of this size use up the limit of a call.
    assert refusals == [False] * 12 + [True] * 8
    assert details == [
        "attrs was not validated: earlier documents of this call used up the time for validation; "
        "send fewer documents in one call."
    ]


def test_a_stored_schema_that_breaks_a_newer_limit_is_reported_instead_of_validating():
    faults = AttributesValidator({"multipleOf": Decimal("1e-300")}).faults({}, size=2)
    assert [(fault.pointer, fault.detail) for fault in faults] == [
        (
            "/attrs",
            "attrs cannot be validated; change the collection's jsonschema first: "
            "its /multipleOf: jsonschema has a number of more than 20 digits before or after the point.",
        )
    ]


def test_the_size_of_a_pattern_counts_a_class_of_characters_once_and_multiplies_repetitions():
    assert pattern_size(r"\p{L}+") < 20
    assert pattern_size(r"^\p{Letter}+$") < 20
    assert pattern_size("[é-ж]") < 10
    assert pattern_size("日本") < 10
    assert pattern_size(r"\u0041\cA") < 10
    assert 100 < pattern_size(slow_pattern(150)) < 200
    assert pattern_size(r"\\p{999}") > 900
    assert pattern_size("a{2000}") == 100_000


PATTERNS = st.sampled_from(
    [
        *("(?:a|b)*a(?:a|b){N}c", r"(\p{L}?){N}c", ".*a.{N}c", "(?:[ab]?){N}c", r"(?:\p{L}|b)*a\p{L}{N}c", "^[a-z]{N}"),
        *(r"(?:\w|b)*a\w{N}c", "(?i)(a|ab|b)*é{N}", "(x|字|ж|é)*a.{N}z", "[^c]*a[^c]{N}c"),
    ]
)
SMALL = st.sampled_from([1, 5, 20, 60, 150, 400, 1_000])
NUMBERS = st.sampled_from([0, 7, -1, Decimal("0.01"), Decimal("1e-20"), Decimal("1.5"), 10**19])
ODD_NUMBERS = st.sampled_from([0, 1, Decimal("1.7"), Decimal("1e308"), Decimal("1e-299"), 10**4_000, 2**70])


@st.composite
def leaves(draw: Any) -> Any:
    count = draw(SMALL)
    number = draw(NUMBERS)
    pattern = draw(PATTERNS).replace("N", str(count))
    return draw(
        st.sampled_from(
            [
                {"pattern": pattern},
                {"patternProperties": {pattern: True}, "propertyNames": {"pattern": pattern}},
                {"multipleOf": abs(number) or 1},
                {"minimum": -abs(number), "maximum": 10**19},
                {"enum": [*range(count), Decimal("1.7")]},
                {"enum": [[n] for n in range(count)]},
                {"enum": [["a"] * 40 + [n] for n in range(count // 4)] + [{}]},
                {"enum": [f"word{n}" for n in range(count)]},
                {"type": ["integer", "string", "number", "array", "object"]},
                {"format": draw(st.sampled_from(["uri-template", "iri", "idn-email", "regex", "date-time"]))},
                {"uniqueItems": True},
                {"dependentRequired": {f"k{n}": ["k"] for n in range(count)}},
                {"required": [f"k{n}" for n in range(count)]},
                {"unevaluatedProperties": {"type": "integer"}},
                {"contains": {"const": [7]}},
            ]
        )
    )


def _repetitions(schema: Any, limit: int) -> int:
    """The times that a schema may be repeated in a schema of about 100 KB, larger than any that is accepted."""
    return max(1, min(limit, 100_000 // len(encode(schema))))


def _wrapped(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.tuples(inner, SMALL).map(lambda pair: [pair[0]] * _repetitions(pair[0], min(pair[1], 400)))
    return st.one_of(
        inner.map(lambda schema: {"items": schema, "additionalProperties": schema}),
        inner.map(lambda schema: {"properties": {"a": schema, "b": schema}}),
        several.map(lambda schemas: {"allOf": schemas}),
        several.map(lambda schemas: {"anyOf": schemas}),
        several.map(lambda schemas: {"oneOf": schemas}),
        st.tuples(inner, inner).map(lambda pair: {"if": pair[0], "then": pair[1], "else": pair[1]}),
        st.lists(inner, min_size=2, max_size=5).map(lambda schemas: {"allOf": schemas}),
    )


@st.composite
def documents(draw: Any) -> Any:
    number = draw(ODD_NUMBERS)
    leaf = draw(
        st.sampled_from(
            [_AB, _AB[:4_000], _WIDE, "{a}" * 20_000, "a.é/" * 9_000, number, [7], ["a"] * 40 + [3], {"k": 1}]
        )
    )
    size = len(encode(leaf))
    items = [leaf] * draw(st.sampled_from([1, 10, 1_000, 5_000]))
    # The document is to be smaller than the limit of `validate`; an item may have a name of up to 8 bytes.
    del items[max(1, 60_000 // (size + 8)) :]
    return draw(
        st.sampled_from(
            [{"a": leaf}, {"a": items}, {f"k{n}": item for n, item in enumerate(items)}, {"a": {"b": items}}]
        )
    )


@pytest.mark.slow
@examples(max_examples=60)
@given(st.recursive(leaves(), _wrapped, max_leaves=6), documents())
def test_no_accepted_schema_and_document_takes_long(schema, attrs):
    validate(schema, attrs)


@pytest.mark.stress
@examples(max_examples=5_000)
@given(st.recursive(leaves(), _wrapped, max_leaves=6), documents())
def test_no_accepted_schema_and_document_takes_long_in_many_examples(schema, attrs):
    validate(schema, attrs)
