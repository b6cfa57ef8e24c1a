"""The digest of a request depends on the values of its fields, not on their spelling."""

from __future__ import annotations

from decimal import Decimal

import pytest

from handlers.messages.json_text import digest_of


@pytest.mark.parametrize("spelling", [Decimal("10"), Decimal("10.0"), Decimal("1E+1"), Decimal("10.000000")])
def test_equal_numbers_have_the_same_digest(spelling):
    assert digest_of({"order": {"totals": [spelling]}}) == digest_of({"order": {"totals": [10]}})


@pytest.mark.parametrize(
    ("value", "different_value"),
    [
        (Decimal("0.5"), Decimal("0.50000000000000000000000000000000000000001")),
        (10, "10"),
        (1, True),
        (None, 0),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_different_values_have_different_digests(value, different_value):
    assert digest_of([value]) != digest_of([different_value])


def test_the_order_of_json_members_does_not_change_the_digest():
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
