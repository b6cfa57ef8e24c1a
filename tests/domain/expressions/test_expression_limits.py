"""Functions of expressions at their limits: numbers, texts, patterns and durations of maximum and minimum size."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.expressions import Budget, EvaluationError, texts, times
from domain.expressions.numbers import (
    decimal_from_text,
    decimal_to_text,
    divide_int,
    int64,
    int_from_text,
    modulo_int,
    round_half_up,
    to_int,
)

MAX_INT, MIN_INT = 9_223_372_036_854_775_807, -9_223_372_036_854_775_808
UNITS = 1_000_000


def cost(call, *arguments):
    """The units that a function on texts costs."""
    budget = Budget(UNITS)
    call(budget, *arguments)
    return UNITS - budget.remaining


def code_of(call, *arguments):
    """The code of the error of a call."""
    with pytest.raises(EvaluationError) as caught:
        call(*arguments)
    return caught.value.code


@pytest.mark.parametrize("number", [MIN_INT, -1, 0, 1, MAX_INT])
def test_integers_of_64_bits_are_accepted(number):
    assert (int64(number), to_int(Decimal(number)), int_from_text(str(number))) == (number, number, number)


@pytest.mark.parametrize("number", [MIN_INT - 1, MAX_INT + 1])
def test_integers_of_more_than_64_bits_are_refused(number):
    assert code_of(int64, number) == "overflow"
    assert code_of(to_int, number) == "overflow"
    assert code_of(int_from_text, str(number)) == "overflow"


def test_only_the_integer_part_of_a_number_has_to_fit_64_bits():
    assert (to_int(MAX_INT + Decimal("0.9")), to_int(MIN_INT - Decimal("0.9"))) == (MAX_INT, MIN_INT)
    assert code_of(to_int, MIN_INT - Decimal(1)) == "overflow"


@pytest.mark.parametrize(
    ("left", "right", "quotient", "rest"),
    [
        (7, 2, 3, 1),
        (-7, 2, -3, -1),
        (7, -2, -3, 1),
        (-7, -2, 3, -1),
        (0, 2, 0, 0),
        (0, -2, 0, 0),
        (1, 1, 1, 0),
        (1, 2, 0, 1),
        (-1, 2, 0, -1),
        (1, -1, -1, 0),
    ],
)
def test_integers_are_divided_towards_zero(left, right, quotient, rest):
    assert (divide_int(left, right), modulo_int(left, right)) == (quotient, rest)


@pytest.mark.parametrize(
    ("value", "digits", "rounded_value"),
    [
        ("2.5", 0, "3"),
        ("-2.5", 0, "-3"),
        ("2.49", 0, "2"),
        ("1.25", 1, "1.3"),
        ("15", -1, "20"),
        ("14", -1, "10"),
        ("1.5", 33, "1.500000000000000000000000000000000"),
        ("1.5", -34, "0"),
    ],
)
def test_half_of_a_digit_is_rounded_away_from_zero(value, digits, rounded_value):
    assert str(round_half_up(Decimal(value), digits)) == rounded_value


@pytest.mark.parametrize("digits", [-35, 35])
def test_a_number_is_rounded_to_at_most_34_digits(digits):
    assert code_of(round_half_up, Decimal(1), digits) == "invalid"


def test_a_text_of_at_most_40_digits_is_read_as_an_integer():
    assert int_from_text("0" * 39 + "7") == 7
    assert int_from_text("-" + "0" * 39 + "7") == -7
    assert int_from_text("+7") == 7
    for text in ("0" * 40 + "7", "-" + "0" * 40 + "7", "", "-", "--7", "7.0", "٧"):
        assert code_of(int_from_text, text) == "invalid"


def test_a_text_of_at_most_100_characters_is_read_as_a_decimal():
    assert decimal_from_text("0" * 99 + "7") == 7
    for text in ("0" * 100 + "7", "1_0", "seven", "٧", "NaN", "Infinity"):
        assert code_of(decimal_from_text, text) == "invalid"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1e40", "1" + "0" * 40),
        ("1e41", "1E+41"),
        ("1e-40", "0." + "0" * 39 + "1"),
        ("1e-41", "1E-41"),
        ("1.50", "1.50"),
    ],
)
def test_numbers_far_from_one_are_written_with_an_exponent(value, text):
    assert decimal_to_text(Decimal(value)) == text


@pytest.mark.parametrize(
    ("size", "part_size", "units"),
    [
        (64, 4, 64 * (4 + 4) // 64),
        (64, 0, 64 * (0 + 4) // 64),
        (2_499, 100, 2_499 * (100 + 4) // 64),
        (2_500, 100, 2_500 // 4),
        (2_500, 99, 2_500 * (99 + 4) // 64),
        (2_500, 101, 2_500 // 4),
        (29_999, 4, 29_999 * (4 + 4) // 64),
        (30_000, 4, 30_000 // 4),
        (30_001, 4, 30_001 // 4),
    ],
)
@pytest.mark.parametrize("search", [texts.contains, texts.index_of, texts.last_index_of])
def test_a_search_costs_the_product_of_both_lengths_and_a_linear_search_that_of_the_text(
    search, size, part_size, units
):
    """A search is linear from 2,500 characters on if it looks for at least 100, and always from 30,000 on.

    A linear search costs a quarter of the length of the text. Another search costs a 64th of the product of the length
    of the text and that of the part plus 4.
    """
    assert cost(search, "a" * size, "b" * part_size) == units


def test_sixteen_characters_cost_a_unit():
    long, short = "a" * 32, "a" * 31
    assert [cost(texts.starts_with, long, part) for part in (long, short)] == [32 // 16, 31 // 16]
    assert [cost(texts.ends_with, long, part) for part in (long, short)] == [32 // 16, 31 // 16]
    assert [cost(texts.concatenate, long, part) for part in (long, short)] == [(32 + 32) // 16, (32 + 31) // 16]
    assert cost(texts.starts_with, "a" * 1600, "a" * 1600) == 1600 // 16
    assert cost(texts.join, [long, long], "") == 2 + 4


def test_a_text_has_at_most_100_000_characters():
    half = "a" * 50_000
    assert len(texts.concatenate(Budget(UNITS), half, half)) == 100_000
    assert code_of(texts.concatenate, Budget(UNITS), half, half + "a") == "too-large"
    assert len(texts.join(Budget(UNITS), [half, "a" * 49_999], "-")) == 100_000
    assert code_of(texts.join, Budget(UNITS), [half, half], "-") == "too-large"
    # A separator is between parts, not after the last one.
    assert len(texts.join(Budget(UNITS), [half, "a" * 49_998, ""], "-")) == 100_000
    assert code_of(texts.join, Budget(UNITS), [half, "a" * 49_999, ""], "-") == "too-large"
    assert len(texts.replace(Budget(UNITS), "x" * 50_001, "x", "yy", 0)) == 50_001
    assert len(texts.replace(Budget(UNITS), "x" * 50_000, "x", "yy")) == 100_000
    assert code_of(texts.replace, Budget(UNITS), "x" * 50_000 + "z", "x", "yy") == "too-large"


@pytest.mark.parametrize(
    ("count", "text"), [(-2, "----"), (-1, "----"), (0, "abab"), (1, "--ab"), (2, "----"), (3, "----")]
)
def test_at_most_the_given_number_of_occurrences_is_replaced(count, text):
    """A negative number replaces all occurrences."""
    assert texts.replace(Budget(UNITS), "abab", "ab", "--", count) == text


@pytest.mark.parametrize(
    ("separator", "limit", "parts"),
    [
        ("-", -1, ["a", "b", "c"]),
        ("-", 0, []),
        ("-", 1, ["a-b-c"]),
        ("-", 2, ["a", "b-c"]),
        ("-", 3, ["a", "b", "c"]),
        ("-", 4, ["a", "b", "c"]),
        ("", -1, ["a", "-", "b", "-", "c"]),
        ("", 0, []),
        ("", 1, ["a-b-c"]),
        ("", 4, ["a", "-", "b", "-c"]),
        ("", 5, ["a", "-", "b", "-", "c"]),
        ("", 6, ["a", "-", "b", "-", "c"]),
    ],
)
def test_a_text_is_split_into_at_most_the_given_number_of_parts(separator, limit, parts):
    assert texts.split(Budget(UNITS), "a-b-c", separator, limit) == parts


def test_splitting_costs_a_unit_for_each_part_and_the_search():
    """Without a limit, the text has 3 parts."""
    search = cost(texts.contains, "a-b-c", "-")
    assert [cost(texts.split, "a-b-c", "-", limit) - search for limit in (-1, 1, 2, 3, 9)] == [3, 1, 2, 3, 3]


def test_a_list_that_is_split_has_at_most_10_000_parts():
    assert len(texts.split(Budget(UNITS), "-" * 9_999, "-")) == 10_000
    assert code_of(texts.split, Budget(UNITS), "-" * 10_000, "-") == "too-large"
    assert len(texts.split(Budget(UNITS), "-" * 10_000, "-", 10_000)) == 10_000
    assert len(texts.split(Budget(UNITS), "-" * 10_000, "")) == 10_000
    assert code_of(texts.split, Budget(UNITS), "-" * 10_001, "") == "too-large"


@pytest.mark.parametrize("size", [1, 15, 16, 17, 40])
def test_the_last_occurrence_is_found_for_parts_of_any_length(size):
    part = "b" * size
    text = f"{part}a{part}"
    assert texts.last_index_of(Budget(UNITS), text, part) == size + 1
    assert texts.last_index_from(Budget(UNITS), text, part, size) == 0
    assert texts.last_index_from(Budget(UNITS), text, part, size + 1) == size + 1
    assert texts.last_index_of(Budget(UNITS), "a" * 50, part) == -1
    assert texts.last_index_of(Budget(UNITS), f"a{part}c{part}d", part + "d") == size + 2


def test_positions_in_a_text_are_from_0_to_its_length():
    assert [texts.char_at("ab", place) for place in (0, 1, 2)] == ["a", "b", ""]
    assert (texts.substring("ab", 0, 2), texts.substring("ab", 1, 1), texts.substring("ab", 2, 2)) == ("ab", "", "")
    assert (texts.index_of(Budget(UNITS), "ab", "b", 1), texts.index_of(Budget(UNITS), "ab", "b", 2)) == (1, -1)
    for place in (-1, 3):
        assert code_of(texts.char_at, "ab", place) == "index"
        assert code_of(texts.index_of, Budget(UNITS), "ab", "b", place) == "index"
        assert code_of(texts.last_index_from, Budget(UNITS), "ab", "b", place) == "index"
    assert code_of(texts.substring, "ab", 1, 0) == "index"


def test_a_pattern_costs_units_for_its_compilation_and_for_the_searched_text():
    cost_of_short_text, cost_of_long_text = (cost(texts.matches, text, "b") for text in ("a" * 800, "a" * 1_600))
    size = texts.compile_pattern("b")[1]
    # The compilation costs 32 units and one for each character; the search one for 8 instructions times bytes.
    assert (cost_of_short_text, cost_of_long_text) == (33 + 800 * size // 8, 33 + 1_600 * size // 8)
    # The cost is by bytes, and é has two.
    assert cost(texts.matches, "é" * 800, "b") == cost_of_long_text


def test_a_pattern_that_is_too_large_is_not_called_invalid_syntax():
    for text in (r"\p{L}{1000}", "a{1000}" * 5):
        with pytest.raises(EvaluationError, match="the pattern is too large"):
            texts.compile_pattern(text)
    for text in ("(", "a**", "[z-a]"):
        with pytest.raises(EvaluationError, match="not a regular expression in RE2 syntax"):
            texts.compile_pattern(text)
    with pytest.raises(EvaluationError, match="longer than 1000 characters"):
        texts.compile_pattern("a" * 1_001)
    texts.compile_pattern("a" * 1_000)


@pytest.mark.parametrize(
    ("milliseconds", "parts"),
    [
        (0, (0, 0, 0, 0)),
        (1_500, (0, 0, 1, 500)),
        (-1_500, (0, 0, -1, -500)),
        (59_999, (0, 0, 59, 999)),
        (3_600_000, (1, 60, 3_600, 0)),
        (-3_599_999, (0, -59, -3_599, -999)),
    ],
)
def test_the_parts_of_a_duration_are_whole_and_have_its_sign(milliseconds, parts):
    value = timedelta(milliseconds=milliseconds)
    names = ("getHours", "getMinutes", "getSeconds", "getMilliseconds")
    assert tuple(times.DURATION_ACCESSORS[name](value) for name in names) == parts


def test_a_duration_is_at_most_as_many_nanoseconds_as_fit_64_bits():
    longest = timedelta(seconds=9_223_372_036)
    assert times.duration_from_text("9223372036s") == longest
    assert times.duration_from_text("-9223372036s") == -longest
    assert code_of(times.duration_from_text, "9223372036.000001s") == "overflow"
    assert (times.within_range(longest), times.within_range(-longest)) == (longest, -longest)
    assert code_of(times.within_range, longest + timedelta(microseconds=1)) == "overflow"
    assert code_of(times.within_range, -longest - timedelta(microseconds=1)) == "overflow"


def test_a_text_of_100_characters_may_be_a_duration():
    assert times.duration_from_text("0" * 98 + "1s") == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("1h", 3_600_000_000), ("1m", 60_000_000), ("1s", 1_000_000), ("1ms", 1_000), ("1us", 1), ("1000ns", 1), ("0", 0)],
)
def test_durations_have_units(text, microseconds):
    assert times.duration_from_text(text) == timedelta(microseconds=microseconds)
    assert times.duration_from_text("-" + text) == -timedelta(microseconds=microseconds)
    assert times.duration_from_text("+" + text) == timedelta(microseconds=microseconds)


@pytest.mark.parametrize("text", ["", "1", "1d", "h", "1h 1m", "1ns", "-", "1h" * 51, "1h!", "0" * 99 + "1s"])
def test_malformed_durations_are_refused(text):
    assert code_of(times.duration_from_text, text) == "invalid"


def test_an_offset_is_less_than_a_day():
    assert times.zone("-23:59").utcoffset(None) == -timedelta(hours=23, minutes=59)
    assert (
        times.zone("+23:59").utcoffset(None) == times.zone("23:59").utcoffset(None) == timedelta(hours=23, minutes=59)
    )
    for name in ("24:00", "00:60", "Europe/Atlantis", "a" * 65):
        assert code_of(times.zone, name) == "invalid"
