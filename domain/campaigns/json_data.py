"""JSON objects that an action hands to other systems: constants, or values of expressions."""

from datetime import datetime
from decimal import Decimal
from typing import Any

# All values in all levels, and all characters of texts and names.
MOST_VALUES, MOST_CHARACTERS, MOST_LEVELS = 1000, 50_000, 20
# Numbers that every JSON reader can hold; an expression can produce greater ones.
LARGEST_EXPONENT = 300


def is_json_object(value: Any) -> bool:
    """True for an object of texts, numbers, booleans, nulls, moments, lists and objects, within bounds."""
    if not isinstance(value, dict):
        return False
    values = characters = 0
    left = [(value, 1)]
    while left:
        part, level = left.pop()
        values += 1
        if isinstance(part, str):
            characters += len(part)
        elif isinstance(part, dict):
            if not all(isinstance(name, str) for name in part):
                return False
            characters += sum(map(len, part))
            left.extend((inner, level + 1) for inner in part.values())
        elif isinstance(part, list | tuple):
            left.extend((inner, level + 1) for inner in part)
        elif not _is_scalar(part):
            return False
        if values + len(left) > MOST_VALUES or characters > MOST_CHARACTERS or level > MOST_LEVELS:
            return False
    return True


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | datetime) or is_number(value)


def is_number(value: Any) -> bool:
    """True for a number that every JSON reader can hold."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    return not value or abs(Decimal(value).adjusted()) <= LARGEST_EXPONENT
