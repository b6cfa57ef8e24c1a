"""The count of an event for a mission, compared with counting by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.expressions import Budget, EvaluationError
from domain.missions.progress import compile_count, count_of
from domain.problems import InvalidRequest

COFFEES = 'order.items.filter(i, i.categoryCode == "coffee").map(i, i.quantity).sum()'


def evaluate_count(expression, **context):
    """The count of an event whose expressions see this context."""
    return count_of(compile_count(expression), context, Budget(), {})


def basket(*items):
    """An order of items, each a category and a quantity."""
    return {"items": [{"categoryCode": category, "quantity": quantity} for category, quantity in items]}


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("3", 3),
        ("2.99", 2),
        ("0.99", 0),
        ("0", 0),
        ("-0.5", 0),
        ("-7", 0),
        ("1e30", 1_000_000_000),
        ("1000000001", 1_000_000_000),
    ],
)
def test_counts_are_whole_and_within_bounds(expression, count):
    assert evaluate_count(expression) == count


@given(st.lists(st.tuples(st.sampled_from(["coffee", "cake"]), st.decimals("0", "50", places=1)), max_size=8))
def test_an_expression_counts_the_quantities_of_coffees(items):
    by_hand = int(sum((quantity for category, quantity in items if category == "coffee"), Decimal(0)))
    assert evaluate_count(COFFEES, order=basket(*items)) == by_hand


@pytest.mark.parametrize("order", [None, basket(("coffee", None))])
def test_a_count_of_a_missing_value_fails(order):
    with pytest.raises(EvaluationError):
        evaluate_count(COFFEES, order=order)


@pytest.mark.parametrize(
    ("expression", "code"), [("order.total >", "syntax"), ("order.totl", "unknown-field"), ("order.total > 3", "type")]
)
def test_faults_name_the_field_and_the_place(expression, code):
    with pytest.raises(InvalidRequest) as refusal:
        compile_count(expression)
    [fault] = refusal.value.faults
    assert (fault.pointer, fault.code) == ("/countExpression", code)
    assert fault.start is not None
