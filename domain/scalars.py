"""Values inside JSON of any form, compared as in JSON: `true` is not 1, and 1.0 is 1."""

import re
from decimal import Decimal
from typing import Any

MAX_TEXT_LENGTH = 1000
_ITEM = re.compile(r"(?:\\[\\,]|[^,])*")
_ESCAPED = re.compile(r"\\([\\,])")
_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def equality_key(value: Any) -> tuple[str, Any] | None:
    """A hashable value that two scalars share exactly if they are equal; None for null, lists and objects."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | Decimal):
        return "number", value
    return ("text", value) if isinstance(value, str) else None


def is_number(value: Any) -> bool:
    """True for exact numbers, false for booleans."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """True for a text that can be searched for: not empty, and no longer than MAX_TEXT_LENGTH."""
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT_LENGTH


def is_scalar(value: Any) -> bool:
    """True for a text, number or boolean that can be searched for."""
    return isinstance(value, bool) or is_number(value) or is_text(value)


def is_key(text: str) -> bool:
    """True for a text in the form of a generated key: a UUID in lower case."""
    return _KEY.fullmatch(text) is not None


def split_list(text: str) -> list[str]:
    """The items of a comma-separated list, in which a backslash makes a comma or a backslash part of an item."""
    items, position = [], 0
    while position <= len(text):
        end = _ITEM.match(text, position).end()  # type: ignore[union-attr]
        items.append(_ESCAPED.sub(r"\1", text[position:end]))
        position = end + 1
    return items
