"""Operators, functions and methods: their parameter types and implementations."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from domain.expressions import calendar_units, numbers, texts, times
from domain.expressions.errors import EvaluationError
from domain.expressions.limits import CHARACTERS_PER_UNIT
from domain.expressions.runtime import Budget, accepts, charge_size, classes_of, limited_list, name_of, type_of
from domain.expressions.types import (
    ANY_LIST,
    ANY_MAP,
    BOOL,
    DECIMAL,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    TYPE,
    ListOf,
    Type,
    fits,
    join,
)

Result = Type | Callable[[tuple[Type, ...]], Type]
"""The type of a result, or a function that returns it for the types of the arguments."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call: parameter types (the receiver of a method first), result, implementation.

    `variadic` repeats the last parameter; `charges_size` charges for the size of the first argument; a `metered`
    function gets the budget as its first argument and charges its own cost. `validators`, by position, check constant
    arguments before anything runs. `classes` has for each parameter the Python classes of the values that it accepts.
    """

    parameters: tuple[Type, ...]
    result: Result
    call: Callable[..., Any]
    variadic: bool = False
    charges_size: bool = False
    metered: bool = False
    validators: Mapping[int, Callable[[Any], object]] = field(default_factory=dict)
    classes: tuple[frozenset[type], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(map(classes_of, self.parameters)))

    def takes(self, types: tuple[Type, ...]) -> bool:
        """True if arguments of these types may be passed."""
        extra_count = len(types) - len(self.parameters)
        if extra_count < 0 or (extra_count and not self.variadic):
            return False
        return all(map(fits, types, self.parameters + self.parameters[-1:] * extra_count))

    def takes_values(self, values: tuple[Any, ...]) -> bool:
        """True if these values may be passed as arguments."""
        classes = self.classes
        if len(values) != len(classes):
            if len(values) < len(classes) or not self.variadic:
                return False
            classes += classes[-1:] * (len(values) - len(classes))
        return all(map(frozenset.__contains__, classes, map(type, values)))

    def result_for(self, types: tuple[Type, ...]) -> Type:
        """The type of the result for arguments of these types."""
        return self.result(types) if callable(self.result) else self.result


def apply(budget: Budget, name: str, overloads: tuple[Overload, ...], values: tuple[Any, ...]) -> Any:
    """Call the first overload of the function `name` that accepts the values; raises EvaluationError if none does."""
    for overload in overloads:
        if overload.takes_values(values):
            if overload.metered:
                return overload.call(budget, *values)
            if overload.charges_size:
                charge_size(budget, values[0])
            return overload.call(*values)
    types = ", ".join(map(name_of, values))
    raise EvaluationError("null" if None in values else "type", f"{name} cannot be used on ({types})")


def _element_type(types: tuple[Type, ...]) -> Type:
    return types[0].element if isinstance(types[0], ListOf) else DYN


def _number_type(types: tuple[Type, ...]) -> Type:
    if all(t == INT for t in types):
        return INT
    return DYN if DYN in types else DECIMAL


def _joined_type(types: tuple[Type, ...]) -> Type:
    return join(types[0], types[1]) or ANY_LIST


def _concatenate(budget: Budget, left: list[Any], right: list[Any]) -> list[Any]:
    """The elements of both lists; raises EvaluationError if they are too many."""
    budget.charge(len(left) + len(right))
    return limited_list(left + right)


def _sum(values: list[Any]) -> Any:
    """The sum of numbers, an int if all of them are ints; 0 for an empty list."""
    total: Any = 0
    add = numbers.DECIMALS.add
    for value in values:
        kind = type(value)
        if kind is Decimal:
            total = add(total, value)
        elif kind is int:
            total = numbers.int64(total + value) if type(total) is int else add(total, value)
        else:
            raise EvaluationError("null" if value is None else "type", "sum() needs a list of numbers")
    return total


def _extreme(choose: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The implementation of the method `min` or `max` of a list."""

    def pick(budget: Budget, values: list[Any]) -> Any:
        # Each value is compared with up to four types.
        budget.charge(4 * len(values))
        if not values:
            raise EvaluationError("invalid", f"{name}() has no result for an empty list")
        comparable_kinds = (DECIMAL, STRING, TIMESTAMP, DURATION)
        if not any(all(accepts(kind, value) for value in values) for kind in comparable_kinds):
            raise EvaluationError("null" if None in values else "type", f"{name}() needs values that can be compared")
        if type(values[0]) is str:
            budget.charge(sum(map(len, values)) // CHARACTERS_PER_UNIT)
        return choose(values)

    return pick


def _to_text(value: Any) -> str:
    """The text of a value; raises EvaluationError for null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_require_value(value))


_TRUTH = {"1": True, "t": True, "true": True, "TRUE": True, "True": True}
_TRUTH |= {"0": False, "f": False, "false": False, "FALSE": False, "False": False}


def _bool_from_text(text: str) -> bool:
    try:
        return _TRUTH[text]
    except KeyError:
        raise EvaluationError("invalid", f"the text is not one of {', '.join(_TRUTH)}") from None


def _require_value(value: Any) -> Any:
    if value is None:
        raise EvaluationError("null", "null cannot be converted")
    return value


def _comparison(call: Callable[..., bool]) -> tuple[Overload, ...]:
    """The overloads of a comparison such as `<`; comparing texts is charged by their length."""

    def of_texts(budget: Budget, left: str, right: str) -> bool:
        budget.charge(min(len(left), len(right)) // CHARACTERS_PER_UNIT)
        return call(left, right)

    plain = (Overload((kind, kind), BOOL, call) for kind in (DECIMAL, BOOL, TIMESTAMP, DURATION))
    return (Overload((STRING, STRING), BOOL, of_texts, metered=True), *plain)


def _arithmetic(on_ints: Callable[..., int], on_decimals: Callable[..., Any]) -> tuple[Overload, ...]:
    """The overloads of an operator such as `+` on two numbers."""
    return (
        Overload((INT, INT), INT, on_ints),
        Overload((DECIMAL, DECIMAL), DECIMAL, on_decimals),
    )


OPERATORS: dict[str, tuple[Overload, ...]] = {
    "+": (
        *_arithmetic(lambda left, right: numbers.int64(left + right), numbers.DECIMALS.add),
        Overload((STRING, STRING), STRING, texts.concatenate, metered=True),
        Overload((ANY_LIST, ANY_LIST), _joined_type, _concatenate, metered=True),
        Overload((TIMESTAMP, DURATION), TIMESTAMP, times.move),
        Overload((DURATION, TIMESTAMP), TIMESTAMP, lambda by, value: times.move(value, by)),
        Overload((DURATION, DURATION), DURATION, lambda left, right: times.within_range(left + right)),
    ),
    "-": (
        *_arithmetic(lambda left, right: numbers.int64(left - right), numbers.DECIMALS.subtract),
        Overload((TIMESTAMP, TIMESTAMP), DURATION, lambda later, earlier: times.within_range(later - earlier)),
        Overload((TIMESTAMP, DURATION), TIMESTAMP, lambda value, by: times.move(value, -by)),
        Overload((DURATION, DURATION), DURATION, lambda left, right: times.within_range(left - right)),
        Overload((INT,), INT, lambda value: numbers.int64(-value)),
        Overload((DECIMAL,), DECIMAL, numbers.DECIMALS.minus),
        Overload((DURATION,), DURATION, operator.neg),
    ),
    "*": _arithmetic(lambda left, right: numbers.int64(left * right), numbers.DECIMALS.multiply),
    "/": _arithmetic(numbers.divide_int, numbers.divide),
    "%": _arithmetic(numbers.modulo_int, numbers.modulo),
    "<": _comparison(operator.lt),
    "<=": _comparison(operator.le),
    ">": _comparison(operator.gt),
    ">=": _comparison(operator.ge),
}

_SIZES = tuple(Overload((kind,), INT, len) for kind in (STRING, ANY_LIST, ANY_MAP))

FUNCTIONS: dict[str, tuple[Overload, ...]] = {
    "size": _SIZES,
    "int": (
        Overload((INT,), INT, _require_value),
        Overload((DECIMAL,), INT, numbers.to_int),
        Overload((STRING,), INT, numbers.int_from_text, validators={0: numbers.int_from_text}),
        Overload((TIMESTAMP,), INT, lambda value: (value - times.EPOCH) // timedelta(seconds=1)),
    ),
    "decimal": (
        Overload((DECIMAL,), DECIMAL, numbers.exact),
        Overload((STRING,), DECIMAL, numbers.decimal_from_text, validators={0: numbers.decimal_from_text}),
    ),
    "string": (
        Overload((STRING,), STRING, _require_value),
        Overload((INT,), STRING, _to_text),
        Overload((BOOL,), STRING, _to_text),
        Overload((DECIMAL,), STRING, numbers.decimal_to_text),
        Overload((TIMESTAMP,), STRING, times.timestamp_to_text),
        Overload((DURATION,), STRING, times.duration_to_text),
    ),
    "bool": (
        Overload((BOOL,), BOOL, _require_value),
        Overload((STRING,), BOOL, _bool_from_text, validators={0: _bool_from_text}),
    ),
    "timestamp": (
        Overload((TIMESTAMP,), TIMESTAMP, _require_value),
        Overload((STRING,), TIMESTAMP, times.timestamp_from_text, validators={0: times.timestamp_from_text}),
        Overload((INT,), TIMESTAMP, times.timestamp_from_seconds),
    ),
    "duration": (
        Overload((DURATION,), DURATION, _require_value),
        Overload((STRING,), DURATION, times.duration_from_text, validators={0: times.duration_from_text}),
    ),
    "dyn": (Overload((DYN,), DYN, lambda value: value),),
    "type": (Overload((DYN,), TYPE, type_of),),
    "min": (
        Overload((DECIMAL, DECIMAL), _number_type, min, variadic=True),
        Overload((TIMESTAMP, TIMESTAMP), TIMESTAMP, min, variadic=True),
        Overload((DURATION, DURATION), DURATION, min, variadic=True),
    ),
    "max": (
        Overload((DECIMAL, DECIMAL), _number_type, max, variadic=True),
        Overload((TIMESTAMP, TIMESTAMP), TIMESTAMP, max, variadic=True),
        Overload((DURATION, DURATION), DURATION, max, variadic=True),
    ),
    "abs": (
        Overload((INT,), INT, lambda value: numbers.int64(abs(value))),
        Overload((DECIMAL,), DECIMAL, numbers.DECIMALS.abs),
    ),
    "round": (
        Overload((DECIMAL,), DECIMAL, numbers.round_half_up),
        Overload((DECIMAL, INT), DECIMAL, numbers.round_half_up, validators={1: lambda n: numbers.round_half_up(0, n)}),
    ),
    "floor": (Overload((DECIMAL,), DECIMAL, numbers.floor),),
    "ceil": (Overload((DECIMAL,), DECIMAL, numbers.ceil),),
}
FUNCTIONS["double"] = FUNCTIONS["decimal"]

METHODS: dict[str, tuple[Overload, ...]] = {
    "size": _SIZES,
    "contains": (Overload((STRING, STRING), BOOL, texts.contains, metered=True),),
    "startsWith": (Overload((STRING, STRING), BOOL, texts.starts_with, metered=True),),
    "endsWith": (Overload((STRING, STRING), BOOL, texts.ends_with, metered=True),),
    "matches": (Overload((STRING, STRING), BOOL, texts.matches, metered=True, validators={1: texts.compile_pattern}),),
    "lowerAscii": (Overload((STRING,), STRING, texts.lower_ascii, charges_size=True),),
    "upperAscii": (Overload((STRING,), STRING, texts.upper_ascii, charges_size=True),),
    "trim": (Overload((STRING,), STRING, str.strip, charges_size=True),),
    "charAt": (Overload((STRING, INT), STRING, texts.char_at),),
    "substring": (
        Overload((STRING, INT), STRING, lambda text, start: texts.substring(text, start, len(text)), charges_size=True),
        Overload((STRING, INT, INT), STRING, texts.substring, charges_size=True),
    ),
    "indexOf": (
        Overload((STRING, STRING), INT, texts.index_of, metered=True),
        Overload((STRING, STRING, INT), INT, texts.index_of, metered=True),
    ),
    "lastIndexOf": (
        Overload((STRING, STRING), INT, texts.last_index_of, metered=True),
        Overload((STRING, STRING, INT), INT, texts.last_index_from, metered=True),
    ),
    "replace": (
        Overload((STRING, STRING, STRING), STRING, texts.replace, metered=True),
        Overload((STRING, STRING, STRING, INT), STRING, texts.replace, metered=True),
    ),
    "split": (
        Overload((STRING, STRING), ListOf(STRING), texts.split, metered=True),
        Overload((STRING, STRING, INT), ListOf(STRING), texts.split, metered=True),
    ),
    "join": (
        Overload((ListOf(STRING),), STRING, texts.join, metered=True),
        Overload((ListOf(STRING), STRING), STRING, texts.join, metered=True),
    ),
    "sum": (
        Overload((ListOf(DECIMAL),), lambda types: _number_type((_element_type(types),)), _sum, charges_size=True),
    ),
    "min": tuple(
        Overload((ListOf(kind),), _element_type, _extreme(min, "min"), metered=True)
        for kind in (DECIMAL, STRING, TIMESTAMP, DURATION)
    ),
    "max": tuple(
        Overload((ListOf(kind),), _element_type, _extreme(max, "max"), metered=True)
        for kind in (DECIMAL, STRING, TIMESTAMP, DURATION)
    ),
}
for _name, _access in times.ACCESSORS.items():
    METHODS[_name] = (
        Overload((TIMESTAMP,), INT, times.LOCAL_ACCESSORS[_name], metered=True),
        Overload((TIMESTAMP, STRING), INT, _access, validators={1: times.zone}),
        *((Overload((DURATION,), INT, times.DURATION_ACCESSORS[_name]),) if _name in times.DURATION_ACCESSORS else ()),
    )


def _calendar_method(
    argument: Type, check: Callable[[Any], None], compute: Callable[[datetime, Any, tzinfo], datetime]
) -> tuple[Overload, ...]:
    """The overloads of a calendar method: in the time zone of the budget, and in the one that a last argument names."""

    def in_local_zone(budget: Budget, value: datetime, argument: Any) -> datetime:
        check(argument)
        return compute(value, argument, budget.zone)

    def in_named_zone(value: datetime, argument: Any, name: str) -> datetime:
        check(argument)
        return compute(value, argument, times.zone(name))

    return (
        Overload((TIMESTAMP, argument), TIMESTAMP, in_local_zone, metered=True, validators={1: check}),
        Overload((TIMESTAMP, argument, STRING), TIMESTAMP, in_named_zone, validators={1: check, 2: times.zone}),
    )


METHODS |= {
    "addDays": _calendar_method(INT, calendar_units.count_check(calendar_units.MAX_DAYS), calendar_units.add_days),
    "addMonths": _calendar_method(
        INT, calendar_units.count_check(calendar_units.MAX_MONTHS), calendar_units.add_months
    ),
    "addYears": _calendar_method(
        INT,
        calendar_units.count_check(calendar_units.MAX_YEARS),
        lambda value, count, zone: calendar_units.add_months(value, 12 * count, zone),
    ),
    "startOf": _calendar_method(STRING, calendar_units.check_unit, calendar_units.start_of),
    "endOf": _calendar_method(STRING, calendar_units.check_unit, calendar_units.end_of),
}
