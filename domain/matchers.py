"""Item matchers: stored conditions on the items of orders (administration "Matchers and effects").

An item is a mapping by the names of the API. A field that is missing, or of another type, meets no condition: a matcher
never fails.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.fields import Key
from domain.problems import FieldFault, InvalidRequest, NotFound, did_you_mean
from domain.scalars import MAX_TEXT_LENGTH, equality_key, is_number, is_scalar, is_text

AND, OR = "AND", "OR"
MAX_VALUES = 1000

_ValueTest = Callable[[Any], bool]

_ATTRIBUTES = "customAttributes."
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}
_TEXT_OPERATORS = frozenset({"equals", "in", "contains", "startsWith"})
_NUMBER_OPERATORS = frozenset({"equals", "in", *_COMPARISONS})
_TEXT = f"a text of 1 to {MAX_TEXT_LENGTH} characters"
_SCALAR = f"{_TEXT}, a number or a boolean"


@dataclass(frozen=True, slots=True)
class Matcher:
    """A stored matcher; `matcher` is `{operator, conditions: [{field, operator, value}]}` as it was sent."""

    organization_id: int
    matcher_id: int
    matcher_key: Key
    name: str
    type: str
    matcher: Mapping[str, Any]
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ItemPredicate:
    """A compiled matcher: call it with an item to find whether the item meets the conditions.

    `combine` is `all` or `any`. `conditions` has, for each condition, the path to a field and the test of its value.
    """

    combine: Callable[[Iterable[bool]], bool]
    conditions: Sequence[tuple[Sequence[str], _ValueTest]]

    def __call__(self, item: Mapping[str, Any]) -> bool:
        """True if the item meets all conditions, or any of them if `combine` is `any`."""
        return self.combine(test(_value_at(item, path)) for path, test in self.conditions)

    def cost(self, item: Mapping[str, Any]) -> int:
        """The cost of testing all conditions on an item, see `_cost_of`."""
        return sum(_cost_of(_value_at(item, path)) for path, _ in self.conditions)


class UnknownMatcher(NotFound, title="The matcher does not exist"):
    """The organization does not have the matcher that a request names."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of items: the operators that it supports, and the values that it can be compared with."""

    operators: frozenset[str]
    accepts: Callable[[Any], bool]
    value_description: str


_TEXT_FIELD = _Field(_TEXT_OPERATORS, is_text, _TEXT)
_NUMBER_FIELD = _Field(_NUMBER_OPERATORS, is_number, "a number")
_ATTRIBUTE = _Field(_TEXT_OPERATORS | _NUMBER_OPERATORS, is_scalar, _SCALAR)
_FIELDS: Mapping[str, _Field] = {
    "productCode": _TEXT_FIELD,
    "categoryCode": _TEXT_FIELD,
    "description": _TEXT_FIELD,
    "quantity": _NUMBER_FIELD,
    "total": _NUMBER_FIELD,
}


def compile_matcher(matcher: Mapping[str, Any], pointer: str = "/matcher") -> ItemPredicate:
    """Compile a matcher to a predicate of items; raises InvalidRequest with every fault, at `pointer`."""
    conditions: list[tuple[Sequence[str], _ValueTest]] = []
    faults: list[FieldFault] = []
    for index, condition in enumerate(matcher["conditions"]):
        try:
            conditions.append(_compile_condition(condition, f"{pointer}/conditions/{index}"))
        except InvalidRequest as refusal:
            faults += refusal.faults
    if faults:
        raise InvalidRequest(faults)
    return ItemPredicate(all if matcher["operator"] == AND else any, conditions)


def _compile_condition(condition: Mapping[str, Any], pointer: str) -> tuple[Sequence[str], _ValueTest]:
    """Compile one condition to its path and its test; raises InvalidRequest if a part of it is faulty."""
    name, operator_name, value = condition["field"], condition["operator"], condition["value"]
    field = _ATTRIBUTE if name.startswith(_ATTRIBUTES) else _FIELDS.get(name)
    path = name.split(".")
    if field is None or not all(path):
        names = (*_FIELDS, f"{_ATTRIBUTES}<name>")
        raise _refusal(
            f"field {name} is not one of: {', '.join(names)}.{did_you_mean(name, names)}",
            f"{pointer}/field",
        )
    if operator_name not in field.operators:
        operators = ", ".join(sorted(field.operators))
        detail = f"operator {operator_name} does not exist for the field {name}; these do: {operators}"
        raise _refusal(detail, f"{pointer}/operator")
    description = _describe_value(field, operator_name)
    if operator_name == "in":
        if not isinstance(value, list) or not 0 < len(value) <= MAX_VALUES or not all(map(field.accepts, value)):
            raise _refusal(f"value is not a list of 1 to {MAX_VALUES} values, each {description}", f"{pointer}/value")
    elif not _accepts(field, operator_name, value):
        raise _refusal(f"operator {operator_name} needs {description}", f"{pointer}/value")
    return path, _compile_test(operator_name, value)


def _refusal(detail: str, pointer: str) -> InvalidRequest:
    return InvalidRequest([FieldFault(detail, pointer=pointer)])


def _describe_value(field: _Field, operator_name: str) -> str:
    if operator_name in _COMPARISONS:
        return "a number"
    return _TEXT if operator_name == "startsWith" else field.value_description


def _accepts(field: _Field, operator_name: str, value: Any) -> bool:
    """True if conditions on the field may compare it with the value by this operator."""
    if operator_name in _COMPARISONS:
        return is_number(value)
    return is_text(value) if operator_name == "startsWith" else field.accepts(value)


def _value_at(item: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value in the item under nested names; None if there is none."""
    value: Any = item
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _cost_of(value: Any) -> int:
    """The cost of testing one condition on this value: 1, plus 1 for each element of a list or each 256 characters."""
    if isinstance(value, list):
        return 1 + len(value)
    return 1 + len(value) // 256 if isinstance(value, str) else 1


def _compile_test(operator_name: str, value: Any) -> _ValueTest:
    """Compile the test whether an actual value meets a condition with this operator and value."""
    if operator_name == "equals":
        expected_key = equality_key(value)
        return lambda actual: equality_key(actual) == expected_key
    if operator_name == "in":
        expected_keys = frozenset(map(equality_key, value))
        return lambda actual: equality_key(actual) in expected_keys
    if operator_name == "contains":
        return _contains(value)
    if operator_name == "startsWith":
        return lambda actual: isinstance(actual, str) and actual.startswith(value)
    compare = _COMPARISONS[operator_name]
    return lambda actual: is_number(actual) and compare(actual, value)


def _contains(value: Any) -> _ValueTest:
    """A test whether a text contains the text `value`, or a list has the element `value`."""
    expected_key = equality_key(value)

    def test(actual: Any) -> bool:
        if isinstance(actual, str):
            return isinstance(value, str) and value in actual
        return isinstance(actual, list | tuple) and any(equality_key(element) == expected_key for element in actual)

    return test
