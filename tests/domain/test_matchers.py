"""Item matchers: which items match, and which matchers are refused."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.matchers import compile_matcher
from domain.problems import InvalidRequest

LATTE = {
    "productCode": "latte-large",
    "categoryCode": "hot-drinks",
    "description": "Large Latte",
    "quantity": Decimal(2),
    "total": Decimal("9.50"),
    "amount": None,
    "customAttributes": {
        "organic": True,
        "shots": 2,
        "rating": Decimal("4.50"),
        "origin": "Colombia",
        "labels": ["fair", 7, True],
        "nothing": None,
        "supplier": {"name": "Bean & Co", "place": {"city": "Rosario"}},
    },
}


def condition(field, operator, value):
    """A condition as matchers save it."""
    return {"field": field, "operator": operator, "value": value}


def matches(item, *conditions, operator="AND"):
    """True if the item meets the conditions, each a tuple (field, operator, value)."""
    return compile_matcher({"operator": operator, "conditions": [condition(*parts) for parts in conditions]})(item)


@pytest.mark.parametrize(
    ("field", "operator", "value", "is_match"),
    # The conditions are about LATTE.
    [
        ("productCode", "equals", "latte-large", True),
        ("productCode", "equals", "Latte-Large", False),
        ("productCode", "equals", "latte", False),
        ("productCode", "in", ["mocha", "latte-large"], True),
        ("productCode", "in", ["mocha"], False),
        ("productCode", "contains", "te-la", True),
        ("productCode", "contains", "tea", False),
        ("productCode", "startsWith", "latte", True),
        ("productCode", "startsWith", "large", False),
        ("categoryCode", "equals", "hot-drinks", True),
        ("description", "contains", "Latte", True),
        ("quantity", "equals", 2, True),
        ("quantity", "equals", Decimal("2.0"), True),
        ("quantity", "equals", 3, False),
        ("quantity", "in", [1, 2], True),
        ("quantity", "in", [1, 3], False),
        ("total", ">=", Decimal("9.5"), True),
        ("total", ">=", Decimal("9.51"), False),
        ("total", ">", Decimal("9.5"), False),
        ("total", ">", 9, True),
        ("total", "<=", Decimal("9.50"), True),
        ("total", "<=", 9, False),
        ("total", "<", 10, True),
        ("total", "<", Decimal("9.5"), False),
        ("customAttributes.organic", "equals", True, True),
        ("customAttributes.organic", "equals", 1, False),
        ("customAttributes.organic", "in", [False, True], True),
        ("customAttributes.shots", "equals", 2, True),
        ("customAttributes.shots", "equals", "2", False),
        ("customAttributes.shots", ">", 1, True),
        ("customAttributes.organic", ">=", 1, False),
        ("customAttributes.origin", ">", 1, False),
        ("customAttributes.rating", "equals", Decimal("4.5"), True),
        ("customAttributes.origin", "startsWith", "Col", True),
        ("customAttributes.origin", "contains", "omb", True),
        ("customAttributes.origin", "contains", 1, False),
        ("customAttributes.labels", "contains", "fair", True),
        ("customAttributes.labels", "contains", "fai", False),
        ("customAttributes.labels", "contains", 7, True),
        ("customAttributes.labels", "contains", 1, False),
        ("customAttributes.labels", "contains", True, True),
        ("customAttributes.labels", "equals", "fair", False),
        ("customAttributes.supplier.name", "equals", "Bean & Co", True),
        ("customAttributes.supplier.place.city", "equals", "Rosario", True),
        ("customAttributes.origin.city", "equals", "Rosario", False),
        ("customAttributes.supplier", "equals", "Bean & Co", False),
        ("customAttributes.nothing", "equals", "x", False),
        ("customAttributes.unheard", "in", ["x", 1, False], False),
    ],
)
def test_a_condition_compares_a_field_of_the_item(field, operator, value, is_match):
    assert matches(LATTE, (field, operator, value)) is is_match


def test_an_item_without_the_field_meets_no_condition():
    empty_item = dict.fromkeys(LATTE) | {"customAttributes": {}}
    for field, operator, value in (
        ("productCode", "contains", "a"),
        ("productCode", "in", ["a"]),
        ("quantity", "<", 5),
        ("total", "equals", 0),
        ("customAttributes.x", "<=", 0),
    ):
        assert not matches(empty_item, (field, operator, value))
        assert not matches({}, (field, operator, value))


def test_a_conjunctive_matcher_needs_all_conditions_and_a_disjunctive_matcher_needs_any():
    # The latte is a hot drink for 9.50.
    hot_drinks, below_five = ("categoryCode", "equals", "hot-drinks"), ("total", "<", 5)
    assert not matches(LATTE, hot_drinks, below_five)
    assert matches(LATTE, hot_drinks, below_five, operator="OR")
    assert not matches(LATTE, below_five, operator="OR")
    assert matches(LATTE, hot_drinks, ("quantity", ">=", 2))


@pytest.mark.parametrize(
    ("faulty_condition", "faulty_part"),
    [
        (("colour", "equals", "red"), "field"),
        (("customAttributes", "equals", "red"), "field"),
        (("customAttributes.", "equals", "red"), "field"),
        (("customAttributes.a..b", "equals", "red"), "field"),
        (("amount", "equals", 1), "field"),
        (("productCode", ">", 1), "operator"),
        (("description", "<=", "a"), "operator"),
        (("quantity", "contains", 1), "operator"),
        (("total", "startsWith", "1"), "operator"),
        (("productCode", "equals", 1), "value"),
        (("productCode", "equals", ""), "value"),
        (("productCode", "equals", "x" * 1001), "value"),
        (("productCode", "equals", None), "value"),
        (("productCode", "equals", ["a"]), "value"),
        (("productCode", "in", "a"), "value"),
        (("productCode", "in", []), "value"),
        (("productCode", "in", ["a", 1]), "value"),
        (("productCode", "in", ["a"] * 1001), "value"),
        (("quantity", "equals", "2"), "value"),
        (("quantity", "equals", True), "value"),
        (("total", ">=", "2"), "value"),
        (("total", "in", [1, None]), "value"),
        (("customAttributes.x", "equals", {"a": 1}), "value"),
        (("customAttributes.x", "equals", None), "value"),
        (("customAttributes.x", "startsWith", 1), "value"),
        (("customAttributes.x", "<", "a"), "value"),
        (("customAttributes.x", "<", True), "value"),
        (("customAttributes.x", "in", [[1]]), "value"),
    ],
)
def test_an_invalid_condition_is_refused_with_its_place(faulty_condition, faulty_part):
    valid_condition = condition("productCode", "equals", "a")
    with pytest.raises(InvalidRequest) as refusal:
        compile_matcher(
            {"operator": "AND", "conditions": [valid_condition, condition(*faulty_condition)]}, "/inlineMatcher"
        )
    assert [fault.pointer for fault in refusal.value.faults] == [f"/inlineMatcher/conditions/1/{faulty_part}"]


@pytest.mark.parametrize(
    ("field", "operator", "value", "text"),
    [
        ("total", ">", "1", "operator > needs a number."),
        (
            *("categoryCode", ">", 1),
            "operator > does not exist for the field categoryCode; these do: contains, equals, in, startsWith.",
        ),
        ("customAttributes.x", "<=", "a", "operator <= needs a number."),
        ("customAttributes.x", "startsWith", 1, "operator startsWith needs a text of 1 to 1000 characters."),
        ("productCode", "equals", 1, "operator equals needs a text of 1 to 1000 characters."),
        (
            "customAttributes.x",
            "equals",
            None,
            "operator equals needs a text of 1 to 1000 characters, a number or a boolean.",
        ),
        ("quantity", "in", [], "value is not a list of 1 to 1000 values, each a number."),
    ],
)
def test_the_refusal_of_a_value_names_what_its_operator_needs(field, operator, value, text):
    with pytest.raises(InvalidRequest) as refusal:
        compile_matcher({"operator": "AND", "conditions": [condition(field, operator, value)]})
    assert [fault.detail for fault in refusal.value.faults] == [text]


def test_every_fault_of_a_matcher_is_reported():
    conditions = [condition("colour", "equals", "red"), condition("total", ">", "1"), condition("total", ">", 1)]
    with pytest.raises(InvalidRequest) as refusal:
        compile_matcher({"operator": "OR", "conditions": conditions})
    pointers = [fault.pointer for fault in refusal.value.faults]
    assert pointers == ["/matcher/conditions/0/field", "/matcher/conditions/1/value"]


numbers = st.one_of(st.integers(-9, 9), st.decimals(-9, 9, places=1))
texts = st.text("ab", min_size=1, max_size=3)
scalars = st.one_of(st.booleans(), numbers, texts)
json = st.recursive(
    st.none() | scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
items = st.fixed_dictionaries(
    {
        "productCode": st.none() | texts,
        "quantity": st.none() | numbers,
        "customAttributes": st.dictionaries(st.sampled_from(["x", "y"]), json),
    }
)
conditions = st.one_of(
    st.tuples(st.just("productCode"), st.sampled_from(["equals", "contains", "startsWith"]), texts),
    st.tuples(st.just("productCode"), st.just("in"), st.lists(texts, min_size=1, max_size=3)),
    st.tuples(st.just("quantity"), st.sampled_from(["equals", ">", ">=", "<", "<="]), numbers),
    st.tuples(st.just("quantity"), st.just("in"), st.lists(numbers, min_size=1, max_size=3)),
    st.tuples(st.just("customAttributes.x"), st.sampled_from(["equals", "contains"]), scalars),
    st.tuples(st.just("customAttributes.x"), st.just("in"), st.lists(scalars, min_size=1, max_size=3)),
    st.tuples(st.just("customAttributes.x"), st.sampled_from([">", ">=", "<", "<="]), numbers),
    st.tuples(st.just("customAttributes.x.a"), st.just("startsWith"), texts),
)


@given(items, st.lists(conditions, min_size=1, max_size=4))
def test_the_operators_and_and_or_equal_all_and_any_of_the_single_conditions(item, terms):
    results = [matches(item, term) for term in terms]
    assert matches(item, *terms) is all(results)
    assert matches(item, *terms, operator="OR") is any(results)


@given(items, st.lists(scalars, min_size=1, max_size=4))
def test_the_operator_in_matches_if_equals_matches_any_of_the_values(item, values):
    results = [matches(item, ("customAttributes.x", "equals", value)) for value in values]
    assert matches(item, ("customAttributes.x", "in", values)) is any(results)


@given(items, numbers)
def test_exactly_one_of_three_comparisons_is_true_for_a_number_and_none_for_other_values(item, number):
    for field, actual in (("quantity", item["quantity"]), ("customAttributes.x", item["customAttributes"].get("x"))):
        matching_signs = [sign for sign in ("<", "equals", ">") if matches(item, (field, sign, number))]
        is_number = isinstance(actual, int | Decimal) and not isinstance(actual, bool)
        assert len(matching_signs) == (1 if is_number else 0)
        assert matches(item, (field, "<=", number)) is bool({"<", "equals"} & set(matching_signs))
        assert matches(item, (field, ">=", number)) is bool({">", "equals"} & set(matching_signs))


@pytest.mark.parametrize(
    ("field", "cost"),
    [("quantity", 1), ("customAttributes.missing", 1), ("customAttributes.labels", 4), ("customAttributes.note", 3)],
)
def test_a_condition_costs_a_unit_and_further_units_for_lists_and_long_texts(field, cost):
    # A list costs a further unit for each of its 3 elements, and a text of 512 characters one for each 256. A number
    # and a missing value cost none.
    item = {"quantity": 2, "customAttributes": {"labels": ["fair", 7, True], "note": "n" * 512}}
    three_conditions = [condition(field, "equals", 2)] * 3
    assert compile_matcher({"operator": "OR", "conditions": three_conditions}).cost(item) == 3 * cost
