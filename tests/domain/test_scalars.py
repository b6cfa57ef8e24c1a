"""Values inside JSON, which are compared as JSON does, and lists in one parameter."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.scalars import equality_key, is_key, is_number, is_scalar, is_text, split_list


def test_scalars_are_the_same_if_they_are_equal_in_json():
    assert equality_key(1) == equality_key(Decimal("1.0"))
    assert equality_key(True) != equality_key(1)
    assert equality_key("1") != equality_key(1)
    assert equality_key(False) == equality_key(False) != equality_key(True)
    # What is no scalar has no key.
    assert [equality_key(value) for value in (None, [], {})] == [None, None, None]


@pytest.mark.parametrize(
    ("value", "is_a_number", "is_a_text", "is_a_scalar"),
    [
        (1, True, False, True),
        (Decimal("1.5"), True, False, True),
        (True, False, False, True),
        ("a", False, True, True),
        ("a" * 1000, False, True, True),
        ("a" * 1001, False, False, False),
        ("", False, False, False),
        (None, False, False, False),
        ([1], False, False, False),
    ],
)
def test_texts_numbers_and_booleans_can_be_searched_for(value, is_a_number, is_a_text, is_a_scalar):
    assert is_number(value) is is_a_number
    assert is_text(value) is is_a_text
    assert is_scalar(value) is is_a_scalar


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("a,,b,", ["a", "", "b", ""]),
        (r"a\,b,c", ["a,b", "c"]),
        (r"a\\,b", ["a\\", "b"]),
        (r"a\b", [r"a\b"]),
    ],
)
def test_a_comma_after_a_backslash_is_a_part_of_an_item(text, items):
    assert split_list(text) == items


def test_a_key_is_a_uuid_in_lower_case():
    key = "7c1d2e3f-4a5b-4c6d-9e8f-0a1b2c3d4e5f"
    assert is_key(key)
    for other_text in (key.upper(), key[1:], key + "0", "drinks"):
        assert not is_key(other_text)
