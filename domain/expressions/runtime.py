"""Values during an evaluation: their types, their equality, and the budget.

Values are None, bool, int, Decimal, str, aware datetime, timedelta, list, dict and `TypeValue`; never float.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from domain.expressions.errors import CostExceeded, EvaluationError, TimeExceeded
from domain.expressions.limits import CHARACTERS_PER_UNIT, CHECK_EVERY, DEFAULT_COST, MAX_ITEMS
from domain.expressions.types import (
    BOOL,
    DECIMAL,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    ListOf,
    MapOf,
    ObjectOf,
    Type,
)


class Deadline:
    """The end of an evaluation: a number of seconds from now, by a clock such as the CPU time of the thread."""

    __slots__ = ("_clock", "_end")

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def earlier(self, other: "Deadline") -> "Deadline":
        """The earlier of two deadlines of the same clock."""
        return self if self._end <= other._end else other

    def has_passed(self) -> bool:
        """True if the deadline has passed."""
        return self._clock() >= self._end


class Budget:
    """Cost units left for one evaluation, or for all evaluations of an event; for a single thread only.

    A deadline, which several budgets of a thread may share, also ends the evaluation. Expressions read the calendar of
    `zone`, unless they name another zone.
    """

    __slots__ = ("_checked_below", "_deadline", "remaining", "zone")

    def __init__(self, units: int = DEFAULT_COST, deadline: Deadline | None = None) -> None:
        self.remaining = units
        self._deadline = deadline
        self.zone: tzinfo = UTC
        # A charge that leaves fewer units than this checks the clock.
        self._checked_below = 0 if deadline is None else max(0, units - CHECK_EVERY)

    def charge(self, units: int) -> None:
        """Charge units; raises `CostExceeded` or `TimeExceeded` if there are no units or no time left."""
        self.remaining -= units
        if self.remaining < self._checked_below:
            if self.remaining < 0:
                raise CostExceeded
            self.check_clock()

    def check_clock(self) -> None:
        """Check the clock; raises `TimeExceeded` if the deadline has passed."""
        if self._deadline is None:
            return
        if self._deadline.has_passed():
            # Any later charge falls below this, checks the clock, and fails as well.
            self._checked_below = self.remaining + 2**62
            raise TimeExceeded
        self._checked_below = max(0, self.remaining - CHECK_EVERY)

    def watch(self, values: Iterable[Any], weight: int) -> Iterator[Any]:
        """Yield values, and check the clock about every `CHECK_EVERY` units; `weight` is the cost of each value."""
        stride = max(1, CHECK_EVERY // max(1, weight))
        for index, value in enumerate(values):
            if index % stride == 0:
                self.check_clock()
            yield value


class TypeValue:
    """The value of `type(x)`; one instance for each type."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


TYPE_VALUES = {
    name: TypeValue(name)
    for name in ("int", "decimal", "string", "bool", "timestamp", "duration", "list", "map", "null_type", "type")
}
TYPE_NAMES = {name: TYPE_VALUES[name] for name in TYPE_VALUES if name not in ("timestamp", "duration")}
TYPE_NAMES["double"] = TYPE_VALUES["decimal"]
"""The names of types that expressions can use as values, as in `type(x) == int`; `double` is CEL's name of decimal."""

_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    Decimal: "decimal",
    str: "string",
    datetime: "timestamp",
    timedelta: "duration",
    list: "list",
    dict: "map",
    TypeValue: "type",
}
_CLASSES: dict[Type, tuple[type, ...]] = {
    INT: (int,),
    DECIMAL: (Decimal, int),
    STRING: (str,),
    BOOL: (bool,),
    TIMESTAMP: (datetime,),
    DURATION: (timedelta,),
    NULL: (type(None),),
    TYPE: (TypeValue,),
    DYN: tuple(_NAMES),
}


def name_of(value: object) -> str:
    """The name of the value's type, for messages."""
    return _NAMES.get(type(value), "an unsupported value")


def type_of(value: object) -> TypeValue:
    """The result of `type()` for the value."""
    _refuse_unsupported(value)
    # The type of null has another name in `TYPE_VALUES` than in messages.
    return TYPE_VALUES.get(_NAMES[type(value)], TYPE_VALUES["null_type"])


def classes_of(kind: Type) -> frozenset[type]:
    """The classes of values that a parameter of the type accepts."""
    if isinstance(kind, ListOf):
        return frozenset({list})
    if isinstance(kind, MapOf | ObjectOf):
        return frozenset({dict})
    return frozenset(_CLASSES[kind])


def accepts(parameter: Type, value: object) -> bool:
    """True if the value may be passed for a parameter; the parts of lists and maps are not checked."""
    return type(value) in classes_of(parameter)


def plain_classes(kind: Type | None) -> frozenset[type]:
    """The classes of values of the type, without lists and maps; None means any type."""
    return classes_of(DYN if kind is None else kind) - {list, dict}


def as_bool(value: object) -> bool:
    """The value as a condition; raises EvaluationError unless it is a bool."""
    if value is True or value is False:
        return value
    if value is None:
        raise EvaluationError("null", "true or false is needed, not null")
    raise EvaluationError("type", f"true or false is needed, not {name_of(value)}")


def charge_each_item(budget: Budget, values: Any, weight: int) -> Any:
    """Charge `weight` units for each item of the list, or key of the map, that a macro loops over; return the items.

    Iterating over many items checks the clock (`Budget.watch`).
    """
    if type(values) is not list and type(values) is not dict:
        code = "null" if values is None else "type"
        raise EvaluationError(code, f"cannot loop over {name_of(values)}, only over a list or a map")
    cost = len(values) * weight
    budget.charge(cost)
    return values if cost < CHECK_EVERY else budget.watch(values, weight)


def charge_size(budget: Budget, value: Sized) -> Any:
    """Charge for reading all of the value; return it."""
    budget.charge(len(value) // CHARACTERS_PER_UNIT if type(value) is str else len(value))
    return value


def in_list(budget: Budget, needle: Any, values: Any) -> bool:
    """`needle in values` for a list of values without parts; each comparison with a long text is charged."""
    budget.charge(len(values) * (1 + (len(needle) // CHARACTERS_PER_UNIT if type(needle) is str else 0)))
    return needle in values


def at_key(budget: Budget, values: Any, key: Any) -> Any:
    """`values[key]` for a map with string keys; charges for the length of the key."""
    budget.charge(len(key) // CHARACTERS_PER_UNIT)
    return values[key]


def same(budget: Budget, left: Any, right: Any) -> bool:
    """Equality as in CEL: numbers by value, other types apart, lists and maps by their parts."""
    kind = type(left)
    if kind is int or kind is Decimal:
        return (type(right) is int or type(right) is Decimal) and bool(left == right)
    if kind is not type(right):
        _refuse_unsupported(left)
        _refuse_unsupported(right)
        return False
    if kind is list:
        charge_size(budget, left)
        return len(left) == len(right) and all(same(budget, a, b) for a, b in zip(left, right, strict=True))
    if kind is dict:
        charge_size(budget, left)
        return len(left) == len(right) and all(
            has_key(budget, right, key) and same(budget, value, right[key]) for key, value in left.items()
        )
    _refuse_unsupported(left)
    if kind is str and len(left) == len(right):
        budget.charge(len(left) // CHARACTERS_PER_UNIT)
    return bool(left == right)


def _refuse_unsupported(value: object) -> None:
    if type(value) not in _NAMES:
        raise EvaluationError("type", f"expressions cannot use a value of the type {type(value).__name__}")


def different(budget: Budget, left: Any, right: Any) -> bool:
    """The opposite of `same`."""
    return not same(budget, left, right)


def has_key(budget: Budget, values: dict[Any, Any], key: Any) -> bool:
    """True if the map has the key; `true` and `1` are different keys here, though not in Python."""
    if type(key) is str:
        budget.charge(len(key) // CHARACTERS_PER_UNIT)
    elif type(key) is bool or (key in (0, 1) and type(key) in (int, Decimal)):
        budget.charge(len(values))
        return any(
            key == existing_key and (type(key) is bool) == (type(existing_key) is bool) for existing_key in values
        )
    return type(key) in (str, int, Decimal) and key in values


def contains(budget: Budget, needle: Any, values: Any) -> bool:
    """`needle in values`, for a list or the keys of a map."""
    if type(values) is list:
        charge_size(budget, values)
        return any(same(budget, needle, value) for value in values)
    if type(values) is dict:
        _refuse_unsupported(needle)
        return has_key(budget, values, needle)
    raise EvaluationError("null" if values is None else "type", f"'in' needs a list or map, not {name_of(values)}")


def item_at(budget: Budget, values: Any, index: Any) -> Any:
    """`values[index]`, for a list or map."""
    if type(values) is list:
        if type(index) not in (int, Decimal):
            raise EvaluationError("type", f"the index of a list must be an int, not {name_of(index)}")
        if not 0 <= index < len(values):
            raise EvaluationError(
                "index", f"there is no element {key_text(index)}: the list has {len(values)}, numbered from 0"
            )
        if index != int(index):
            raise EvaluationError("type", f"the index of a list must be an int, not {key_text(index)}")
        return values[int(index)]
    if type(values) is dict:
        if has_key(budget, values, index):
            return values[index]
        raise EvaluationError("missing", f"the map has no key {key_text(index)}")
    code = "null" if values is None else "type"
    raise EvaluationError(code, f"an index needs a list or a map, not {name_of(values)}")


def field_of(values: Any, field: str) -> Any:
    """`values.field`, for an object or map."""
    if type(values) is dict:
        try:
            return values[field]
        except KeyError:
            raise EvaluationError("missing", f"the map has no key {key_text(field)}") from None
    raise EvaluationError("null" if values is None else "type", f"{name_of(values)} has no field {key_text(field)}")


def has_field(values: Any, field: str) -> bool:
    """`has(values.field)`: the field is there and is not null."""
    if type(values) is dict:
        return values.get(field) is not None
    raise EvaluationError("null" if values is None else "type", f"{name_of(values)} has no field {key_text(field)}")


def make_map(*pairs: Any) -> dict[Any, Any]:
    """The map of alternating keys and values; each key must be a string, int or bool, and different from the others."""
    result: dict[Any, Any] = {}
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if type(key) not in (str, int, bool):
            raise EvaluationError("type", f"a map key must be a string, int or bool, not {name_of(key)}")
        if key in result:
            raise EvaluationError("invalid", f"the map has the key {key_text(key)} twice")
        result[key] = value
    return result


def exactly_one(conditions: Any) -> bool:
    """True if exactly one of the conditions is true; all of them are evaluated."""
    return sum(map(as_bool, conditions)) == 1


def key_text(value: object) -> str:
    """A key for a message, cut to a readable length."""
    text = f'"{value[:80]}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def limited_list(values: list[Any]) -> list[Any]:
    """The list; raises EvaluationError if it is too long."""
    refuse_long_list(len(values))
    return values


def refuse_long_list(count: int) -> None:
    """Raise EvaluationError if a list of this length is too long."""
    if count > MAX_ITEMS:
        raise EvaluationError("too-large", f"the list has {count} elements; the maximum is {MAX_ITEMS}")


def result_of(value: Any, remaining: list[int] | None = None) -> Any:
    """The result of an evaluation: lists and maps copied, with at most `MAX_ITEMS` parts in total.

    `remaining` has, as its only element, the number of parts that the recursion may still copy.
    """
    if type(value) is not list and type(value) is not dict:
        _refuse_unsupported(value)
        if type(value) is Decimal and not value.is_finite():
            raise EvaluationError("invalid", "the number is not finite")
        return value
    remaining = [MAX_ITEMS] if remaining is None else remaining
    remaining[0] -= len(value)
    if remaining[0] < 0:
        raise EvaluationError(
            "too-large", f"the result has more than {MAX_ITEMS} elements, nested ones included: return fewer"
        )
    if type(value) is list:
        return [result_of(part, remaining) for part in value]
    return {key: result_of(part, remaining) for key, part in dict(value).items()}
