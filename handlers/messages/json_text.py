"""JSON on the wire: exact decimals in and out; texts that JSON or PostgreSQL cannot hold are refused.

The digest of a request is that of its canonical JSON: two requests under one key are the same if their digests are.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from types import NoneType
from typing import Any

import msgspec

from domain.calendar import instant_text
from domain.problems import FieldFault, InvalidRequest, name_of, pointer_part

MAX_DEPTH = 200
MAX_DIGITS = 80
# Every number that a client can hold in a binary double has a place here: the smallest one is 4.94e-324.
MAX_EXPONENT = 330
_OUT_OF_RANGE = f"is out of range: the exponent of a number is between {-MAX_EXPONENT} and {MAX_EXPONENT}"

_INT64 = 2**63
# Wider than any number that a request may hold, so that dropping trailing zeros never rounds.
_WITHOUT_ROUNDING = Context(prec=1000)
# Beyond it a number is written with an exponent: an expression can evaluate to a number of thousands of digits.
_MOST_PLAIN_DIGITS = 40

_encoder = msgspec.json.Encoder(decimal_format="number")
encode = _encoder.encode
"""Write a response; a Decimal becomes a JSON number with all its digits, a UTC datetime ends in `Z`."""


def exact_number(value: Decimal | int) -> Decimal | int:
    """The shortest exact JSON number of a decimal: 100 for 100.000, 0.5 for 0.50."""
    if isinstance(value, int):
        return value
    whole = value.to_integral_value()
    if whole != value or value.adjusted() > _MOST_PLAIN_DIGITS:
        return value.normalize(_WITHOUT_ROUNDING)
    return int(whole)


def json_able(value: Any) -> Any:
    """A value of an expression as JSON has it."""
    if isinstance(value, dict):
        return {str(name): json_able(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_able(item) for item in value]
    if isinstance(value, Decimal):
        return exact_number(value)
    return instant_text(value) if isinstance(value, datetime) else value


_canonical = msgspec.json.Encoder(order="deterministic").encode


def digest_of(value: Any) -> bytes:
    """The digest of plain values; a number counts by its value, so that 10, 10.0 and 1e1 are the same."""
    return hashlib.sha256(_canonical(_by_value(value))).digest()


# Most values are of these types, which are encoded unchanged.
_UNCHANGED = frozenset({NoneType, bool, bytes, datetime, int, str})


def _by_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return exact_number(value)
    if isinstance(value, Mapping):
        return {name: part if type(part) in _UNCHANGED else _by_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [part if type(part) in _UNCHANGED else _by_value(part) for part in value]
    return value


class UnreadableNumber(ValueError):
    """A number with more digits, or a larger exponent, than the product reads; the text follows the field's name."""


def read_number(text: str) -> Decimal | int:
    """Read a JSON number with a fraction or exponent; a whole one such as 1.0 becomes an int."""
    if len(text) > MAX_DIGITS:
        raise UnreadableNumber(f"has more than {MAX_DIGITS} digits")
    if text[-1] != "0" and "e" not in text and "E" not in text:
        # A fraction that does not end in 0 is no whole number.
        return Decimal(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise UnreadableNumber(_OUT_OF_RANGE) from None
    if not -MAX_EXPONENT <= number.adjusted() <= MAX_EXPONENT:
        raise UnreadableNumber(_OUT_OF_RANGE)
    if -_INT64 <= number < _INT64 and number == number.to_integral_value():
        return int(number)
    return number


_decode = msgspec.json.Decoder(float_hook=read_number).decode


def decode_stored(text: str) -> Any:
    """Read JSON that the server has stored, with exact numbers; what it cannot read is a fault of the server."""
    return _decode(text)


def decode(raw: bytes) -> Any:
    """Read a request body; raises InvalidRequest for a text that is not JSON, and for JSON that cannot be stored."""
    try:
        value = _decode(raw)
    except msgspec.ValidationError:
        # Its text names no field: the body is read again, slowly, to find the number.
        raise InvalidRequest(_number_faults(raw)) from None
    except UnicodeDecodeError:
        raise _refusal("The body is not valid UTF-8.") from None
    except RecursionError:
        raise _refusal(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise _refusal(f"The body is not valid JSON: {str(error)[:200]}") from None
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        _check_depth(value)
    _check_duplicates(raw, value)
    if b"\\u0000" in raw:
        faults = list(_nul_faults(value))
        if faults:
            raise InvalidRequest(faults[:50])
    return value


def pointer_to(parts: list[str | int] | tuple[str | int, ...]) -> str:
    """The JSON pointer (RFC 6901) to a place in a body, cut after 300 characters."""
    return "".join(f"/{pointer_part(str(part))}" for part in parts)[:300]


def _refusal(detail: str, pointer: str = "") -> InvalidRequest:
    return InvalidRequest([FieldFault(detail, pointer=pointer)])


def _check_depth(value: Any) -> None:
    level = [value] if type(value) in (dict, list) else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _refusal(f"The body is nested deeper than {MAX_DEPTH} levels.")
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]


def _check_duplicates(raw: bytes, value: Any) -> None:
    # The decoder keeps the last of two equal names. Unless a quote is written as \u0022, the text has as many quotes as
    # the value written out again, and more if a member was lost: two scans in C, no walk.
    if b"\\u0022" not in raw and raw.count(b'"') == encode(value).count(b'"'):
        return
    faults = [
        FieldFault(f"{name_of((*path, node.name))} is in the body twice.", pointer=pointer_to((*path, node.name)))
        for path, node in _places(json.loads(raw, object_pairs_hook=_members, parse_float=str, parse_int=str))
        if type(node) is _Repeating
    ]
    if faults:
        raise InvalidRequest(faults[:50])


class _Repeating(dict[str, Any]):
    """An object of a body in which a field is there twice: `name`."""

    name: str


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    names = [name for name, _ in pairs]
    repeating = _Repeating(members)
    repeating.name = next(name for name in names if names.count(name) > 1)
    return repeating


def _number_faults(raw: bytes) -> list[FieldFault]:
    """The places of the numbers that cannot be read."""

    def read(text: str) -> Decimal | int | UnreadableNumber:
        try:
            return read_number(text)
        except UnreadableNumber as error:
            return error

    def read_integer(text: str) -> int | UnreadableNumber:
        try:
            return int(text)
        except ValueError:
            return UnreadableNumber(f"has more than {sys.get_int_max_str_digits()} digits")

    try:
        body = json.loads(raw, parse_float=read, parse_int=read_integer)
    except (ValueError, RecursionError):
        # There is more wrong with it, behind the number.
        body = None
    faults = [
        FieldFault(f"{name_of(path)} {node}.", pointer=pointer_to(path))
        for path, node in _places(body)
        if isinstance(node, UnreadableNumber)
    ]
    # A value that occurs twice under one name is lost here, but the body is refused anyway.
    return faults[:50] or [FieldFault("The body holds a number that is out of range.", pointer="")]


def _places(body: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value in a body with its place."""
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), body)]
    while stack:
        path, node = stack.pop()
        yield path, node
        if isinstance(node, dict):
            stack.extend(((*path, name), child) for name, child in reversed(node.items()))
        elif isinstance(node, list):
            stack.extend(((*path, index), child) for index, child in reversed(list(enumerate(node))))


def _nul_faults(value: Any) -> Iterator[FieldFault]:
    for path, node in _places(value):
        if type(node) is str and "\x00" in node:
            yield FieldFault(f"{name_of(path)} holds the character U+0000.", pointer=pointer_to(path))
        elif type(node) is dict and any("\x00" in name for name in node):
            yield FieldFault(f"{name_of(path)} has a field with U+0000 in its name.", pointer=pointer_to(path))
