"""JSON is read like by the standard library, except that repeated names and invalid texts are refused."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.problems import InvalidRequest
from handlers.messages import json_text
from handlers.messages.json_text import decode, encode

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6) | st.sampled_from(
    ['"', "\\", '\\"', ":", "{", "}", "a:b", "\u2028", "\x7f", "\u00e9", "\\u0000", "a"]
)


class Members(list):
    """The members of an object in their order, names possibly repeated."""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXTS,
    lambda child: st.lists(child, max_size=4) | st.lists(st.tuples(TEXTS, child), max_size=4).map(Members),
    max_leaves=20,
)


def to_json(value, style) -> str:
    """The text of a value; the style is whether non-ASCII characters are escaped, and the space around `:` and `,`."""
    ensure_ascii, space = style
    if isinstance(value, Members):
        members = (
            f"{json.dumps(name, ensure_ascii=ensure_ascii)}{space}:{space}{to_json(child, style)}"
            for name, child in value
        )
        inner = ("," + space).join(members)
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ",".join(to_json(child, style) for child in value) + "]"
    return json.dumps(value, ensure_ascii=ensure_ascii)


def has_repeated_name(value) -> bool:
    """True if an object in the value has a name twice."""
    if isinstance(value, Members):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(has_repeated_name(child) for _, child in value)
    return isinstance(value, list) and any(has_repeated_name(child) for child in value)


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(VALUES, st.tuples(st.booleans(), st.sampled_from(["", " ", "\n\t"])))
def test_exactly_the_values_with_a_repeated_name_are_refused(value, style):
    text = to_json(value, style)
    if has_repeated_name(value):
        with pytest.raises(InvalidRequest, match="twice"):
            decode(text.encode())
    else:
        assert decode(text.encode()) == json.loads(text)


@settings(max_examples=3 * settings.default.max_examples // 2)
@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:\\u0019eE.-+ntfd8', max_size=30).map(str.encode))
def test_any_bytes_are_read_as_the_standard_library_reads_them_or_refused(raw):
    try:
        value = decode(raw)
    except InvalidRequest:
        return
    assert value == json.loads(raw, parse_float=Decimal)


@settings(max_examples=settings.default.max_examples)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**13), max_value=10**13))
def test_a_decimal_survives_the_round_trip_with_its_digits(number):
    text = str(number)
    decoded = decode(text.encode())
    assert decoded == number
    if number != int(number):
        assert encode(decoded).decode() == text


class CountedName(str):
    """A name of a field that counts how often it is compared with another one."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_a_name_that_is_twice_in_an_object_is_found_with_few_comparisons():
    names = [CountedName(f"k{number}") for number in range(1_000)] + [CountedName("z"), CountedName("z")]
    repetition = json_text._object_of([(name, 1) for name in names])
    assert repetition.name == "z"
    # To compare each name with each other one would take half a million comparisons.
    assert CountedName.comparisons < 10_000
