"""The errors that `jsonschema-rs` finds in a value, as sentences that begin with the name of the field."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from domain.problems import MAX_NAME_LENGTH, did_you_mean, name_of

MAX_FAULTS = 50

PATTERN_FAULT = "x-pattern-fault"
"""Next to a `pattern` of a schema: the words that follow the field's name if a text does not match the pattern."""

Place = tuple[str | int, ...]
"""The names and indexes that lead to a value in a body."""

SchemaAt = Callable[[Sequence[str | int]], Mapping[str, Any]]
"""A function that returns the schema of the keyword at the end of a path; `{}` if the path leads to no schema."""

MASK = "The value"
"""The placeholder that `jsonschema-rs` writes into its messages in place of the value."""

# The maximum number of allowed values that a fault lists.
_MAX_CHOICES = 20
# The patterns in the OpenAPI documents that are lists of words, or of columns to order by.
_LIST_PATTERN = re.compile(r"\^\((?P<choices>[A-Za-z0-9|_<>=-]+)\)(?:\((?P<direction>[,:])\(asc\|desc\)\)\?)?\$")
_FORMS = {
    "date": "a date such as 2026-01-31",
    "date-time": "a date-time such as 2026-01-31T12:00:00Z",
    "uuid": "a UUID such as 0b8f5c1e-6f0e-4c3a-9d55-2f6f3c1f9b10",
}


class Explainer:
    """Reports the faults of values of one schema; `root` is the place of these values in a body."""

    def __init__(self, schema_at: SchemaAt, root: Place = ()) -> None:
        self._schema_at = schema_at
        self._root = root

    def explain(self, error: Any) -> Iterator[tuple[Place, str]]:
        """The faults of an error of `jsonschema-rs` as (place, sentence)."""
        place = tuple(error.instance_path)
        kind = error.kind
        match kind.name:
            case "required":
                yield (*place, kind.property), f"{self._name((*place, kind.property))} is missing."
            case "additionalProperties":
                names = self._schema_at(error.schema_path).get("properties", ())
                for name in kind.unexpected[:MAX_FAULTS]:
                    field_place = (*place, name[:MAX_NAME_LENGTH])
                    yield field_place, f"{self._name(field_place)} is not a known field.{did_you_mean(name, names)}"
            case "oneOf" | "anyOf":
                yield from self._closest(place, kind.context)
            case _:
                words = self._words(error)
                yield place, f"{self._name(place)} {words}" + ("" if words.endswith((".", "?")) else ".")

    def _name(self, place: Place) -> str:
        return name_of((*self._root, *place))

    def _words(self, error: Any) -> str:
        """The words that follow the name of the field, without the full stop of the sentence."""
        kind = error.kind
        match kind.name:
            case "enum":
                return _none_of(error.instance, ["null" if option is None else str(option) for option in kind.options])
            case "type":
                return f"is not of type {' or '.join(type_name for type_name in kind.types if type_name != 'null')}"
            case "pattern":
                schema = self._schema_at(error.schema_path)
                return schema.get(PATTERN_FAULT) or _pattern_fault(error.instance, kind.pattern)
            case "format":
                return f"is not {_FORMS.get(kind.format, f'a valid {kind.format}')}"
            case "falseSchema":
                return "is not allowed here"
            case "const":
                return f"is not {kind.expected_value}"
            case "uniqueItems":
                return "has the same item twice"
            case "multipleOf":
                return f"is not a multiple of {_plain(kind.multiple_of)}"
            case "maxProperties" if kind.limit == 0:
                return "has fields, but must be an empty object"
            case name if name in _BOUNDS:
                comparison, unit = _BOUNDS[name]
                return _out_of_bounds(comparison, unit, kind.limit)
            case _:
                # Keywords that only the schemas of content collections use.
                message = error.message[:300]
                return message.removeprefix(f"{MASK} ") if message.startswith(MASK) else f"is refused: {message}"

    def _closest(self, place: Place, branches: list[list[Any]]) -> Iterator[tuple[Place, str]]:
        """The faults of the value at `place` by one alternative: the one with the fewest faults that allows its type.

        If no alternative allows the type: one fault, which names the allowed types. If no error names a type, for
        example because the value fits several alternatives: one fault without types. `branches` has the errors of each
        alternative.
        """

        def has_wrong_type(errors: list[Any]) -> bool:
            return any(error.kind.name == "type" and tuple(error.instance_path) == place for error in errors)

        branches_of_type = [errors for errors in branches if errors and not has_wrong_type(errors)]
        if branches_of_type:
            for error in min(branches_of_type, key=len):
                yield from self.explain(error)
            return
        type_errors = [error for errors in branches for error in errors if error.kind.name == "type"]
        # A dictionary keeps the order of the types, and each of them once.
        types = dict.fromkeys(name for error in type_errors for name in error.kind.types if name != "null")
        detail = f"is not of type {' or '.join(types)}" if types else "has none of the allowed forms, or more than one"
        yield place, f"{self._name(place)} {detail}."


# The words for a limit that a value exceeds, by keyword: a comparison with the limit, and the unit of the limit.
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "minimum": ("is less than", ""),
    "maximum": ("is more than", ""),
    "exclusiveMinimum": ("is not more than", ""),
    "exclusiveMaximum": ("is not less than", ""),
    "minLength": ("has fewer than", "character"),
    "maxLength": ("has more than", "character"),
    "minItems": ("has fewer than", "item"),
    "maxItems": ("has more than", "item"),
    "minProperties": ("has fewer than", "field"),
    "maxProperties": ("has more than", "field"),
}


def _out_of_bounds(comparison: str, unit: str, limit: Any) -> str:
    if comparison == "has fewer than" and limit == 1:
        return "is empty"
    if not unit:
        return f"{comparison} {_plain(limit)}"
    plural_ending = "" if limit == 1 else "s"
    return f"{comparison} {_plain(limit)} {unit}{plural_ending}"


def _plain(number: Any) -> str:
    """A number without an exponent."""
    return format(Decimal(str(number)), "f")


def _none_of(value: Any, choices: list[str]) -> str:
    text = ", ".join(choices[:_MAX_CHOICES]) + (", ..." if len(choices) > _MAX_CHOICES else "")
    suggestion = did_you_mean(value, choices) if isinstance(value, str) else ""
    return f"is not one of: {text[:400]}.{suggestion}"


def _pattern_fault(text: str, pattern: str) -> str:
    """The words that follow the name of a field whose text does not match a pattern.

    If the pattern is a list of choices, such as the columns of `order`, they name the choices.
    """
    choice_list = _LIST_PATTERN.fullmatch(pattern)
    if choice_list is None:
        return "does not match the pattern of its schema"
    choices = choice_list["choices"].split("|")
    separator = choice_list["direction"]
    if separator is None:
        return _none_of(text, choices)
    suggestion = did_you_mean(text.partition(separator)[0], choices)
    return (
        f"is not one of these columns, without or with {separator}asc or {separator}desc after it: "
        f"{', '.join(choices)}.{suggestion}"
    )
