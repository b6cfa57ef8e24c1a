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
        pytest.param({}, id="empty"),
        pytest.param({"text": "é", "whole": 1, "exact": Decimal("1.50"), "yes": True, "none": None}, id="constants"),
        pytest.param(
            {"at": datetime(2026, 3, 4, tzinfo=UTC), "list": [1, {"a": ["b"]}], "pair": (1, 2)}, id="time and lists"
        ),
        pytest.param({"n": Decimal("1e300")}, id="largest number"),
        # The object and the list are values, too, and the name of the text counts.
        pytest.param({"list": [0] * 998}, id="1000 values"),
        pytest.param({"t": "x" * 49_999}, id="50,000 characters"),
        pytest.param(nested_objects(20), id="20 levels"),
    ],
)
def test_a_json_object_is_recognized(value):
    assert is_json_object(value)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param("text", id="text"),
        pytest.param([1], id="list"),
        pytest.param({1: "x"}, id="name that is a number"),
        pytest.param({"a": {True: "x"}}, id="name that is a boolean"),
        pytest.param({"a": timedelta(days=1)}, id="duration"),
        pytest.param({"a": 1.5}, id="float"),
        pytest.param({"a": object()}, id="any object of Python"),
        pytest.param({"n": Decimal("1e301")}, id="too large decimal"),
        pytest.param({"n": 10**301}, id="too large whole number"),
        pytest.param({"list": [0] * 999}, id="1001 values"),
        pytest.param({"t": "x" * 50_000}, id="50,001 characters"),
        pytest.param({"n" * 50_000: "x"}, id="50,001 characters with a long name"),
        pytest.param(nested_objects(21), id="21 levels"),
    ],
)
def test_other_values_are_no_json_objects(value):
    assert not is_json_object(value)


def test_an_object_with_shared_parts_is_counted_before_it_is_traversed():
    value: dict = {}
    for _ in range(60):
        value = {"left": value, "right": value}
    assert not is_json_object(value)
