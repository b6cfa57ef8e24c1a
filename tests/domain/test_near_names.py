"""Suggestions for unknown names, and the names of fields by their path in a body."""

from __future__ import annotations

import pytest

from domain.problems import did_you_mean, name_at, name_of, nearest, unknown_key


@pytest.mark.parametrize(
    ("name", "names", "suggestion"),
    [
        ("ordr", ["page", "limit", "order"], "order"),
        ("LIMIT", ["page", "limit"], "limit"),
        ("loyalty_member_id", ["loyaltyMemberId", "memberId"], "loyaltyMemberId"),
        ("colour", ["page", "limit"], None),
        ("", ["page"], None),
        ("page", [], None),
    ],
)
def test_a_near_name_is_suggested(name, names, suggestion):
    assert nearest(name, names) == suggestion
    assert did_you_mean(name, names) == ("" if suggestion is None else f" Did you mean {suggestion}?")


def test_a_different_key_is_not_suggested():
    key = "0b8f5c1e-6f0e-4c3a-9d55-2f6f3c1f9b10"
    key_without_its_last_digit = key[:-1]
    assert nearest("7a1c9f52-3d84-4be0-8e6b-91d0a2c4e7f3", [key]) is None
    assert nearest(key_without_its_last_digit, [key]) == key


def test_a_field_is_named_by_its_path():
    assert name_of(("rules", "items", 0, "name")) == "rules.items[0].name"
    assert name_of(()) == "The body"
    assert name_of((0, "a")) == "[0].a"


def test_a_long_path_is_cut_to_200_characters():
    assert len(name_of(("n" * 300, "m" * 300, "o"))) == 200


def test_a_field_is_named_by_its_json_pointer():
    assert name_at("/effects/items/0/params/1/expression") == "effects.items[0].params[1].expression"
    assert name_at("/a~1b/c~0d") == "a/b.c~d"
    assert name_at("") == "The body"


def test_an_unknown_key_is_reported_with_a_suggestion():
    assert unknown_key("badge", "glod", ["gold"]) == "There is no badge with the key glod. Did you mean gold?"
    assert unknown_key("badge", "x" * 150, []) == f"There is no badge with the key {'x' * 100}."


def test_a_long_name_is_suggested_only_for_a_name_that_differs_in_few_characters():
    name = "a" * 31 + "b" * 10
    name_with_10_differences, name_with_4_differences = "a" * 31 + "c" * 10, "a" * 31 + "b" * 6 + "c" * 4
    assert nearest(name_with_10_differences, [name]) is None
    assert nearest(name_with_4_differences, [name]) == name


def test_only_the_first_thousand_names_are_searched():
    other_names = [f"{number:04}-{number}" for number in range(999)]
    assert nearest("espresso", [*other_names, "espreso"]) == "espreso"
    assert nearest("espresso", [*other_names, "gold", "espreso"]) is None
