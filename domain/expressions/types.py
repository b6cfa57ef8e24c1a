"""The types of expressions, and the relations between them."""

from collections.abc import Mapping
from dataclasses import dataclass


class Type:
    """A type; `str()` of it is its name in messages and annotated trees."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """A type without parts."""

    name: str

    def __str__(self) -> str:
        return self.name


INT = Scalar("int")
DECIMAL = Scalar("decimal")
STRING = Scalar("string")
BOOL = Scalar("bool")
TIMESTAMP = Scalar("timestamp")
DURATION = Scalar("duration")
NULL = Scalar("null")
TYPE = Scalar("type")
DYN = Scalar("dyn")

NUMBERS = (INT, DECIMAL)


@dataclass(frozen=True, slots=True)
class ListOf(Type):
    """A list of one type of element."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapOf(Type):
    """A map with string keys, unless a literal in an expression has others."""

    value: Type
    key: Type = STRING

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object: its type, and its name for people."""

    type: Type
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class ObjectOf(Type):
    """An object with declared fields; two are the same type only if they are the same declaration."""

    name: str
    fields: Mapping[str, Field]

    def __str__(self) -> str:
        return self.name


ANY_LIST = ListOf(DYN)
ANY_MAP = MapOf(DYN, DYN)


def join(left: Type, right: Type) -> Type | None:
    """The common type of both (int and decimal: decimal; null and T: T), or None if only dyn is common to both."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if DYN in (left, right):
        return DYN
    if left in NUMBERS and right in NUMBERS:
        return DECIMAL
    if isinstance(left, ListOf) and isinstance(right, ListOf):
        element = join(left.element, right.element)
        return None if element is None else ListOf(element)
    if isinstance(left, MapOf) and isinstance(right, MapOf):
        key, value = join(left.key, right.key), join(left.value, right.value)
        return None if key is None or value is None else MapOf(value, key)
    return None


def comparable(left: Type, right: Type) -> bool:
    """True if values of the two types can be equal; null and dyn are comparable with all types."""
    return join(left, right) is not None


def fits(argument: Type, parameter: Type) -> bool:
    """True if an argument may be passed for a parameter; dyn fits everything and is checked at run time."""
    if DYN in (argument, parameter) or argument == parameter:
        return True
    if parameter == DECIMAL:
        return argument == INT
    if isinstance(argument, ListOf) and isinstance(parameter, ListOf):
        return fits(argument.element, parameter.element)
    if isinstance(argument, MapOf) and isinstance(parameter, MapOf):
        return fits(argument.key, parameter.key) and fits(argument.value, parameter.value)
    return False
