"""Which values are JSON objects that can be sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.campaigns.context import is_json_object


def nested_objects(levels: int):
    """An object with as many levels of objects."""
    value: dict = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"text": "é", "whole": 1, "exact": Decimal("1.50"), "yes": True, "none": None},
        {"at": datetime(2026, 3, 4, tzinfo=UTC), "list": [1, {"a": ["b"]}], "pair": (1, 2)},
        {"n": Decimal("1e300")},
        # The maximum is 1000 values with the object and the list, 50,000 characters with names, and 20 levels.
        {"list": [0] * 998},
        {"t": "x" * 49_999},
        nested_objects(20),
    ],
)
def test_a_json_object_is_recognized(value):
    assert is_json_object(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [1],
        {1: "a name that is a number"},
        {"a": {True: "a name that is a boolean"}},
        {"a": timedelta(days=1)},
        {"a": 1.5},
        {"a": object()},
        {"n": Decimal("1e301")},
        {"n": 10**301},
        {"list": [0] * 999},
        {"t": "x" * 50_000},
        {"n" * 50_000: "x"},
        nested_objects(21),
    ],
)
def test_other_values_are_no_json_objects(value):
    assert not is_json_object(value)


def test_an_object_with_shared_parts_is_counted_before_it_is_traversed():
    value: dict = {}
    for _ in range(60):
        value = {"left": value, "right": value}
    assert not is_json_object(value)
