"""JSON on the wire: exact decimals in and out; texts that JSON or PostgreSQL cannot hold are refused."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from domain.problems import FieldFault, InvalidRequest

MAX_DEPTH = 200
MAX_DIGITS = 80
# Every number that a client can hold in a binary double has a place here: the smallest one is 4.94e-324.
MAX_EXPONENT = 330

_INT64 = 2**63

_encoder = msgspec.json.Encoder(decimal_format="number")
encode = _encoder.encode
"""Write an answer; a Decimal becomes a JSON number with all its digits, a UTC datetime ends in `Z`."""


class UnreadableNumber(ValueError):
    """A number with more digits, or a larger exponent, than the server reads."""


def exact_number(text: str) -> Decimal | int:
    """Read a JSON number with a fraction or exponent; a whole one such as 1.0 becomes an int."""
    if len(text) > MAX_DIGITS:
        raise UnreadableNumber(f"A number has more than {MAX_DIGITS} digits.")
    if text[-1] != "0" and "e" not in text and "E" not in text:
        return Decimal(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise UnreadableNumber("A number is out of range.") from None
    if not -MAX_EXPONENT <= number.adjusted() <= MAX_EXPONENT:
        raise UnreadableNumber("A number is out of range.")
    if -_INT64 <= number < _INT64 and number == number.to_integral_value():
        return int(number)
    return number


_decode = msgspec.json.Decoder(float_hook=exact_number).decode


def decode(raw: bytes) -> Any:
    """Read a request body; raises InvalidRequest for a text that is not JSON, and for JSON that cannot be stored."""
    try:
        value = _decode(raw)
    except msgspec.ValidationError as error:
        raise _refuse(str(error)[:200]) from None
    except UnicodeDecodeError:
        raise _refuse("The body is not valid UTF-8.") from None
    except RecursionError:
        raise _refuse(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise _refuse(f"The body is not valid JSON: {str(error)[:200]}") from None
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
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)[:300]


def _refuse(detail: str, pointer: str = "") -> InvalidRequest:
    return InvalidRequest([FieldFault(detail, pointer=pointer)])


def _check_depth(value: Any) -> None:
    level = [value] if type(value) in (dict, list) else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _refuse(f"The body is nested deeper than {MAX_DEPTH} levels.")
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
    seen: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> None:
        if len({name for name, _ in pairs}) < len(pairs):
            names = [name for name, _ in pairs]
            seen.append(next(name for name in names if names.count(name) > 1))

    json.loads(raw, object_pairs_hook=members, parse_float=str, parse_int=str)
    if seen:
        name = seen[0][:100]
        raise _refuse(f'The body names the member "{name}" twice in one object.')


def _nul_faults(value: Any) -> Any:
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while stack:
        path, node = stack.pop()
        if type(node) is str:
            if "\x00" in node:
                yield FieldFault("The character U+0000 is not allowed.", pointer=pointer_to(path))
        elif type(node) is dict:
            for name, child in node.items():
                if "\x00" in name:
                    yield FieldFault("The character U+0000 is not allowed in a name.", pointer=pointer_to(path))
                stack.append(((*path, name), child))
        elif type(node) is list:
            stack.extend(((*path, index), child) for index, child in enumerate(node))
