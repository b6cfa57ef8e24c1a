"""Checks of imported rows by the schemas of the operations that write the same."""

from collections.abc import Callable, Mapping
from datetime import date, timedelta, tzinfo
from functools import cache
from typing import Any

import openapi
from domain.calendar import instant_of, start_of_day
from domain.imports.records import RowFault
from handlers.call import ADMINISTRATION
from handlers.messages.validation import Schemas, Validator, body_faults, is_date, is_date_time

NameOf = Callable[[str], str]


@cache
def validator_of(schema: str, surface: str) -> Validator:
    """The validator of a schema of an interface."""
    return Schemas(surface, openapi.bundle(surface)).validator({"$ref": f"#/components/schemas/{schema}"})


def check_body(
    schema: str,
    body: Mapping[str, Any],
    fields: Mapping[str, str],
    name_of: NameOf,
    surface: str = ADMINISTRATION,
) -> None:
    """Raise RowFault with the first fault of a body; `fields` are those of the row by pointer into the body."""
    validator = validator_of(schema, surface)
    if validator.accepts(body):
        return
    fault = body_faults(validator, body)[0]
    field = field_at(fault.pointer or "", fields)
    raise RowFault(fault.detail, None if field is None else name_of(field))


def field_at(pointer: str, fields: Mapping[str, str]) -> str | None:
    """The field of a row whose value is at a pointer into the body, or around it."""
    while pointer:
        if pointer in fields:
            return fields[pointer]
        pointer = pointer.rpartition("/")[0]
    return None


def moment_in(values: Mapping[str, Any], field: str, name_of: NameOf, zone: tzinfo, *, is_end: bool = False) -> Any:
    """The moment in a field of a row, None if it has none.

    A day without a time is its first moment in `zone`, or with `is_end` its last: the first of the next day. Raises
    RowFault.
    """
    text = values.get(field)
    if text is None:
        return None
    if not (is_date(text) or is_date_time(text)):
        name = name_of(field)
        raise RowFault(f"{name} is not a moment such as 2026-01-31T09:30:00Z, or a day.", name)
    try:
        if is_date(text):
            return start_of_day(date.fromisoformat(text) + timedelta(days=int(is_end)), zone)
        return instant_of(text)
    except (ValueError, OverflowError):
        name = name_of(field)
        raise RowFault(f"{name} is not between the years 1 and 9999.", name) from None
