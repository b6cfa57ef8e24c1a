"""What a client may have meant by an unknown name, and how places of a body are called."""

from __future__ import annotations

import pytest

from domain.field_names import name_at, name_of
from domain.problems import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "known", "close"),
    [
        ("ordr", ["page", "limit", "order"], "order"),
        ("LIMIT", ["page", "limit"], "limit"),
        ("loyalty_member_id", ["loyaltyMemberId", "memberId"], "loyaltyMemberId"),
        ("colour", ["page", "limit"], None),
        ("", ["page"], None),
        ("page", [], None),
    ],
)
def test_the_nearest_name(name, known, close):
    assert nearest(name, known) == close
    assert did_you_mean(name, known) == ("" if close is None else f" Did you mean {close}?")


def test_one_key_is_not_taken_for_another():
    keys = ["0b8f5c1e-6f0e-4c3a-9d55-2f6f3c1f9b10"]
    assert nearest("7a1c9f52-3d84-4be0-8e6b-91d0a2c4e7f3", keys) is None
    assert nearest("0b8f5c1e-6f0e-4c3a-9d55-2f6f3c1f9b1", keys) == keys[0]


def test_places_have_names():
    assert name_of(("rules", "items", 0, "name")) == "rules.items[0].name"
    assert name_of(()) == "The body"
    assert name_of((0, "a")) == "[0].a"
    assert len(name_of(("n" * 300, "m" * 300, "o"))) == 200
    assert name_at("/effects/items/0/params/1/expression") == "effects.items[0].params[1].expression"
    assert name_at("/a~1b/c~0d") == "a/b.c~d"
    assert name_at("") == "The body"
