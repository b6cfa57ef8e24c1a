"""The figures of docs/expressions.md, "How close to CEL", measured on the official test data."""

from collections import Counter

import pytest

from domain.expressions import ExpressionError, from_tree, parse, to_text, to_tree
from tests.cel_conformance import (
    CHECKED,
    CHECKED_IN_WORDS,
    EMPTY_LISTS,
    EMPTY_LISTS_IN_WORDS,
    LEFT_OUT,
    OTHER,
    outcomes,
    syntax_agrees,
    types_agree,
)
from tests.cel_data import MODULES, cases

PASSED = {
    "basic": (32, 43),
    "bindings_ext": (0, 5),
    "block_ext": (0, 37),
    "comparisons": (196, 406),
    "conversions": (70, 109),
    "dynamic": (0, 226),
    "encoders_ext": (0, 4),
    "enums": (0, 85),
    "fields": (37, 60),
    "fp_math": (25, 30),
    "integer_math": (42, 64),
    "lists": (32, 39),
    "logic": (25, 30),
    "macros": (44, 44),
    "macros2": (0, 46),
    "math_ext": (0, 199),
    "namespace": (0, 3),
    "optionals": (0, 70),
    "parse": (91, 219),
    "plumbing": (5, 5),
    "proto2": (0, 108),
    "proto2_ext": (0, 18),
    "proto3": (0, 75),
    "string": (45, 51),
    "string_ext": (96, 209),
    "timestamps": (71, 76),
    "type_deductions": (11, 47),
    "wrappers": (0, 36),
}
"""The number of passed tests and of all tests, by section."""

DEVIATIONS = {
    "messages": 696,
    "uint": 260,
    "libraries": 249,
    "bytes": 125,
    "optionals": 68,
    "macros": 46,
    CHECKED: 27,
    "doubles": 22,
    "U+0000": 20,
    "names": 4,
    "nanoseconds": 3,
    EMPTY_LISTS: 2,
}
"""The number of failed tests, by reason."""

WORDS = {name: words for name, (words, _) in LEFT_OUT.items()} | {
    CHECKED: CHECKED_IN_WORDS,
    EMPTY_LISTS: EMPTY_LISTS_IN_WORDS,
}
SYNTAX = {"parsing": (163, 194), "checking": (104, 135), "comprehension": (60, 92)}
"""The number of texts on which the parser agrees with the official one, and of all texts, by module."""

TYPES = (746, 772)
"""The number of expressions that have the official type, and of all whose type this language has."""


@pytest.mark.parametrize("section", PASSED)
def test_each_section_passes_as_many_cases_as_documented(section):
    results = [outcome for outcome in outcomes() if outcome.case.section == section]
    passing, total = PASSED[section]
    assert len(results) == total
    failures = [
        f"{result.case.text}: {result.detail}" for result in results if not result.passed and result.category == OTHER
    ]
    assert sum(outcome.passed for outcome in results) == passing, failures


def test_all_sections_are_measured():
    assert {outcome.case.section for outcome in outcomes()} == set(PASSED)


def test_every_deviation_has_a_known_reason():
    failures = [outcome for outcome in outcomes() if not outcome.passed]
    failures_without_reason = [
        f"{failure.case.section} {failure.case.name}: {failure.case.text}: {failure.detail}"
        for failure in failures
        if failure.category == OTHER
    ]
    assert failures_without_reason == []
    assert Counter(outcome.category for outcome in failures) == DEVIATIONS
    assert set(DEVIATIONS) == set(WORDS)


@pytest.mark.parametrize("module", SYNTAX)
def test_as_many_texts_parse_as_documented(module):
    agreeing, total = SYNTAX[module]
    assert len(cases(module)) == total
    assert sum(map(syntax_agrees, cases(module))) == agreeing


def test_as_many_types_agree_as_documented():
    # True, False, or None if this language lacks the type.
    agreements = [types_agree(case) for case in cases("conformance") if "type" in case.data]
    agreeing, total = TYPES
    assert agreements.count(True) == agreeing
    assert agreements.count(True) + agreements.count(False) == total


def test_official_expressions_are_the_same_after_they_were_written_as_text_and_as_tree():
    parsed_count = 0
    for case in (case for module in MODULES for case in cases(module)):
        try:
            node = parse(case.text)
        except ExpressionError:
            continue
        parsed_count += 1
        assert parse(to_text(node)) == node
        assert from_tree(to_tree(node)) == node
        assert to_text(from_tree(to_tree(node))) == to_text(node)
    assert parsed_count > 1_200
