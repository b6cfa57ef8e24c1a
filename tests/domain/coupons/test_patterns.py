"""Generated codes: their pattern, and how hard they are to guess."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.coupons.books import CLEAR_CHARACTERS, CodePattern, check_pattern, pattern_of
from domain.problems import InvalidRequest


def test_by_default_codes_have_80_bits_and_no_characters_that_look_alike():
    pattern = pattern_of(None)
    assert pattern.bits >= 80
    assert not set("0O1IL2Z5S8BUV") & set(CLEAR_CHARACTERS)
    code = pattern.draw(random.Random(1))
    assert len(code) == 18
    assert set(code) <= set(CLEAR_CHARACTERS)


def test_codes_follow_their_pattern():
    pattern = check_pattern({"length": 45, "alphabet": "01", "prefix": "A-", "suffix": "-Z"})
    codes = {pattern.draw(random.Random(seed)) for seed in range(100)}
    assert len(codes) == 100
    for code in codes:
        assert len(code) == len("A-") + 45 + len("-Z")
        assert code.startswith("A-")
        assert code.endswith("-Z")
        assert set(code.removeprefix("A-").removesuffix("-Z")) <= {"0", "1"}


def test_equal_random_numbers_give_equal_codes():
    assert CodePattern().draw(random.Random(7)) == CodePattern().draw(random.Random(7))


@given(
    length=st.integers(1, 100),
    alphabet=st.text(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), min_size=2, max_size=30),
)
def test_a_pattern_is_accepted_if_its_characters_differ_and_its_codes_have_40_bits(length, alphabet):
    pattern = {"length": length, "alphabet": alphabet}
    if len(set(alphabet)) == len(alphabet) and len(alphabet) ** length >= 2**40:
        assert check_pattern(pattern).as_document() == {**pattern, "prefix": "", "suffix": ""}
    else:
        with pytest.raises(InvalidRequest):
            check_pattern(pattern)


def test_a_code_has_at_least_40_bits_and_at_most_255_characters():
    assert check_pattern({"length": 40, "alphabet": "01"}).bits == 40
    with pytest.raises(InvalidRequest, match=r"39\.0 bits"):
        check_pattern({"length": 39, "alphabet": "01"})
    longest_pattern = check_pattern({"length": 45, "prefix": "A" * 200, "suffix": "Z" * 10})
    assert len(longest_pattern.draw(random.Random(1))) == 255
    with pytest.raises(InvalidRequest, match="longer than 255 characters"):
        check_pattern({"length": 45, "prefix": "A" * 200, "suffix": "Z" * 11})


def test_every_fault_of_a_pattern_is_reported():
    with pytest.raises(InvalidRequest) as refusal:
        check_pattern({"alphabet": "AA", "prefix": "x" * 255})
    assert [fault.pointer for fault in refusal.value.faults] == ["/codePattern/alphabet", "/codePattern"]
