"""Literals: conversion between spelling and value."""

import re
from decimal import Decimal

from domain.expressions.errors import ExpressionError, Fault
from domain.expressions.limits import MAX_INT, MIN_INT, PRECISION
from domain.expressions.numbers import DECIMALS

_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.)|$)", re.DOTALL)
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_PREFIX = re.compile(r"[rR]?")
_QUOTED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DECIMAL = re.compile(r"-?(?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)", re.ASCII)


def fault(message: str, start: int, end: int) -> ExpressionError:
    """The error that reports one fault of a literal."""
    return ExpressionError([Fault(message, start, end, "literal")])


def read_int(spelling: str, start: int) -> int:
    """The value of `42`, `-42` or `0x2A`; refuses numbers that do not fit 64 bits."""
    digits = spelling.lstrip("-")
    end = start + len(spelling)
    # No conversion of a text that is much too long: it takes time.
    if len(digits) > 40:
        raise fault("the integer does not fit 64 bits", start, end)
    value = int(digits[2:], 16) if digits[:2] in ("0x", "0X") else int(digits)
    if spelling.startswith("-"):
        value = -value
    if not MIN_INT <= value <= MAX_INT:
        raise fault("the integer does not fit 64 bits", start, end)
    return value


def read_decimal(spelling: str, start: int) -> Decimal:
    """The exact value of `0.05` or `1e3`; refuses more than 34 significant digits."""
    end = start + len(spelling)
    if not _DECIMAL.fullmatch(spelling) or len(spelling) > 100:
        raise fault("not a decimal number", start, end)
    value = Decimal(spelling)
    if len(value.as_tuple().digits) > PRECISION:
        raise fault(f"the decimal has more than {PRECISION} significant digits", start, end)
    if value and not DECIMALS.Emin <= value.adjusted() <= DECIMALS.Emax:
        bounds = f"from 1e{DECIMALS.Emin} to below 1e{DECIMALS.Emax + 1}"
        raise fault(f"a decimal must be 0, or {bounds} in absolute value", start, end)
    return value


def read_string(spelling: str, start: int) -> str:
    """The value of a quoted string: single or triple quotes, raw with the prefix `r`, else with the escapes of CEL."""
    match = _PREFIX.match(spelling)
    prefix = match.end() if match else 0
    quoted = spelling[prefix:]
    is_triple = quoted[:3] in ('"""', "'''") and len(quoted) >= 6
    width = 3 if is_triple else 1
    body = quoted[width:-width]
    value = body if prefix else _unescape(body, start + width)
    if "\0" in value:
        raise fault("the character U+0000 is not allowed", start, start + len(spelling))
    return value


def _unescape(body: str, start: int) -> str:
    """Replace the escapes in the body of a string literal that begins at `start`."""
    if "\\" not in body:
        return body
    parts, position = [], 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[position : match.start()])
        parts.append(_character_of_escape(match, start))
        position = match.end()
    parts.append(body[position:])
    return "".join(parts)


def _character_of_escape(match: re.Match[str], start: int) -> str:
    """The character of an escape in a string whose body begins at `start`."""
    byte, short, long, octal, simple = match.groups()
    # The last case is a backslash at the end.
    if simple is not None or not match.group()[1:]:
        if simple not in _SIMPLE:
            raise fault(f"unknown escape {match.group()}", start + match.start(), start + match.end())
        return _SIMPLE[simple]
    number = int(octal, 8) if octal else int(byte or short or long, 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise fault(f"{match.group()} is not a character", start + match.start(), start + match.end())
    return chr(number)


def spell(value: object) -> str:
    """The canonical spelling of a value: `"text"`, `0.05`, `42`, `true`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        text = DECIMALS.to_sci_string(value)
        return text if "." in text or "E" in text else text + ".0"
    if isinstance(value, str):
        return '"' + "".join(_QUOTED.get(c) or (c if c.isprintable() else _escape_of(c)) for c in value) + '"'
    return str(value)


def _escape_of(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
