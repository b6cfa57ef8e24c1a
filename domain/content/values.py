"""Searchable values of a document: the values in its `attrs` that ranges, facets and sorting compare."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Context, Decimal
from typing import Any

from domain.calendar import instant_of
from domain.content.collections import MAX_FIELD_NAME_LENGTH

MAX_TEXT_LENGTH = 255
"""Longer texts are found by full text search only; sorting compares their first characters."""
MAX_ELEMENTS = 100
"""The number of elements of one list that facets and ranges consider."""
MAX_VALUES = 1000

_WITHOUT_ROUNDING = Context(prec=1000)
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_NUMBER = re.compile(r"-?[0-9]{1,80}(\.[0-9]{1,80})?([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value of a field; `position` is 0 for the value itself, and counts from 1 for the elements of a list."""

    field: str
    position: int
    text_value: str
    number_value: Decimal | int | None
    instant_value: datetime | None


def is_date(text: str) -> bool:
    """True for a date without a time."""
    return len(text) == len("2026-01-01") and moment_of(text) is not None


def moment_of(text: str) -> datetime | None:
    """The moment of an RFC 3339 date or date-time; a date is its first moment in UTC. None for other texts."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return instant_of(text)
    except ValueError:
        return None


def number_of(text: str) -> Decimal | None:
    """The number that a text contains; None for other texts."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def number_text(number: Decimal | int) -> str:
    """The canonical text of a number: 12 for 12.0, and with an exponent only if it would be very long: 1E+40."""
    if isinstance(number, int):
        return str(number)
    if not number:
        return "0"
    plain = number.normalize(_WITHOUT_ROUNDING)
    return f"{plain:f}" if -40 < plain.adjusted() < 40 else str(plain)


def searchable_values(attrs: Mapping[str, Any]) -> list[FieldValue]:
    """The values of top-level fields of `attrs` that are texts, numbers or booleans, or lists of them.

    Elements of a list that have the same text are one value, which is a number if one of them is.
    """
    values: list[FieldValue] = []
    for field, value in attrs.items():
        if not 0 < len(field) <= MAX_FIELD_NAME_LENGTH:
            continue
        if not isinstance(value, list):
            values.extend(_value(field, 0, value))
            continue
        values_by_text: dict[str, FieldValue] = {}
        for element in value:
            for field_value in _value(field, len(values_by_text) + 1, element):
                equal_value = values_by_text.setdefault(field_value.text_value, field_value)
                if equal_value.number_value is None and field_value.number_value is not None:
                    values_by_text[field_value.text_value] = replace(equal_value, number_value=field_value.number_value)
            if len(values_by_text) == MAX_ELEMENTS:
                break
        values.extend(values_by_text.values())
    return values


def _value(field: str, position: int, value: Any) -> Iterator[FieldValue]:
    """The value in searchable form; none for null, lists and objects."""
    if isinstance(value, bool):
        yield FieldValue(
            field, position=position, text_value="true" if value else "false", number_value=None, instant_value=None
        )
    elif isinstance(value, int | Decimal):
        yield FieldValue(field, position, number_text(value), value, instant_value=None)
    elif isinstance(value, str):
        # One character longer than any facet value, so that a text that was cut equals none of them.
        yield FieldValue(
            field, position, value[: MAX_TEXT_LENGTH + 1], number_value=None, instant_value=moment_of(value)
        )
