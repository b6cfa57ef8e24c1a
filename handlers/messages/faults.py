"""The faults that `jsonschema-rs` finds in a value, in sentences that begin with the name of the field."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from domain.problems import LONGEST_NAME, did_you_mean, name_of

MAX_FAULTS = 50

PATTERN_FAULT = "x-pattern-fault"
"""Next to a `pattern`: what is wrong with a text that does not match it, in words that follow the field's name."""

Place = tuple[str | int, ...]
SchemaAt = Callable[[Sequence[str | int]], Mapping[str, Any]]
"""The schema that holds the keyword at the end of a path, `{}` if the path does not lead to one."""

MASK = "The value"
"""The placeholder of the value in the messages of `jsonschema-rs`."""

_MOST_LISTED = 20
# Texts that list words, or columns to order by, as the documents write them.
_WORDS = re.compile(r"\^\((?P<words>[A-Za-z0-9|_<>=-]+)\)(?:\((?P<direction>[,:])\(asc\|desc\)\)\?)?\$")
_FORMS = {
    "date": "a date such as 2026-01-31",
    "date-time": "a date-time such as 2026-01-31T12:00:00Z",
    "uuid": "a UUID such as 0b8f5c1e-6f0e-4c3a-9d55-2f6f3c1f9b10",
}


class Explainer:
    """Reports the faults of one schema; `root` is the pointer of its values in a body."""

    def __init__(self, schema_at: SchemaAt, root: Place = ()) -> None:
        self._schema_at = schema_at
        self._root = root

    def explain(self, error: Any) -> Iterator[tuple[Place, str]]:
        """The faults as (place, sentence)."""
        place = tuple(error.instance_path)
        kind = error.kind
        match kind.name:
            case "required":
                yield (*place, kind.property), f"{self._name((*place, kind.property))} is missing."
            case "additionalProperties":
                names = self._schema_at(error.schema_path).get("properties", ())
                for name in kind.unexpected[:MAX_FAULTS]:
                    at = (*place, name[:LONGEST_NAME])
                    yield at, f"{self._name(at)} is not a known field.{did_you_mean(name, names)}"
            case "oneOf" | "anyOf":
                yield from self._closest(place, kind.context)
            case _:
                words = self._words(error)
                yield place, f"{self._name(place)} {words}" + ("" if words.endswith((".", "?")) else ".")

    def _name(self, place: Place) -> str:
        return name_of((*self._root, *place))

    def _words(self, error: Any) -> str:
        kind = error.kind
        match kind.name:
            case "enum":
                return _none_of(error.instance, ["null" if option is None else str(option) for option in kind.options])
            case "type":
                return f"is not of type {' or '.join(type_name for type_name in kind.types if type_name != 'null')}"
            case "pattern":
                schema = self._schema_at(error.schema_path)
                return schema.get(PATTERN_FAULT) or _in_words(error.instance, kind.pattern)
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
                return "has fields, and there are none here"
            case name if name in _BOUNDS:
                below, unit = _BOUNDS[name]
                return _out_of_bounds(below, unit, kind.limit)
            case _:
                # Keywords that only the schemas of content have.
                message = error.message[:300]
                return message.removeprefix(f"{MASK} ") if message.startswith(MASK) else f"is refused: {message}"

    def _closest(self, place: Place, branches: list[list[Any]]) -> Iterator[tuple[Place, str]]:
        """The faults of one alternative: of all that allow the type of the value, the one with the fewest faults.

        If no alternative does: one fault, which names the types that are allowed.
        """

        def has_wrong_type(errors: list[Any]) -> bool:
            return any(e.kind.name == "type" and tuple(e.instance_path) == place for e in errors)

        of_right_type = [errors for errors in branches if errors and not has_wrong_type(errors)]
        if of_right_type:
            for error in min(of_right_type, key=len):
                yield from self.explain(error)
            return
        kinds = dict.fromkeys(
            name
            for errors in branches
            for e in errors
            if e.kind.name == "type"
            for name in e.kind.types
            if name != "null"
        )
        detail = f"is not of type {' or '.join(kinds)}" if kinds else "has none of the allowed forms, or more than one"
        yield place, f"{self._name(place)} {detail}."


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


def _out_of_bounds(beyond: str, unit: str, limit: Any) -> str:
    if beyond == "has fewer than" and limit == 1:
        return "is empty"
    return f"{beyond} {_plain(limit)}" + (f" {unit}{'' if limit == 1 else 's'}" if unit else "")


def _plain(number: Any) -> str:
    """A number without an exponent."""
    return format(Decimal(str(number)), "f")


def _none_of(value: Any, choices: list[str]) -> str:
    text = ", ".join(choices[:_MOST_LISTED]) + (", ..." if len(choices) > _MOST_LISTED else "")
    suggestion = did_you_mean(value, choices) if isinstance(value, str) else ""
    return f"is not one of: {text[:400]}.{suggestion}"


def _in_words(text: str, pattern: str) -> str:
    """The form required by a pattern that does not match; lists of words or of columns are spelled out."""
    words = _WORDS.fullmatch(pattern)
    if words is None:
        return "does not match the pattern of its schema"
    listed = words["words"].split("|")
    mark = words["direction"]
    if mark is None:
        return _none_of(text, listed)
    suggestion = did_you_mean(text.partition(mark)[0], listed)
    return (
        f"is not one of these columns, alone or with {mark}asc or {mark}desc after it: {', '.join(listed)}.{suggestion}"
    )
