"""JSON on the wire, with exact decimals; refuses bodies that are not JSON or that PostgreSQL cannot store.

The digest of a request is the hash of its canonical JSON. Two requests with one key are the same if their digests are
equal.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from itertools import chain
from types import NoneType
from typing import Any

import msgspec

from domain.calendar import instant_text
from domain.problems import FieldFault, InvalidRequest, name_of, pointer_part
from handlers.messages.faults import MAX_FAULTS

MAX_DEPTH = 200
# The maximum number of objects and lists in a body: they take much more time and memory than texts of the same size.
MAX_CONTAINERS = 20_000
# The maximum size, as JSON, of an object whose fields the client chooses.
MAX_FREE_BYTES = 65_536
FREE_OBJECTS = frozenset(
    {
        *("content", "couponData", "coupons", "customAttributes", "data", "extraFields", "forms", "links", "metadata"),
        *("referralAttributes", "smartRewards", "theme", "usageData", "values", "wallets"),
    }
)
"""The fields of request bodies that hold such an object, except fields with limits of their own."""
# The maximum number of characters of a number.
MAX_NUMBER_LENGTH = 80
# The decoder accepts longer whole numbers, but their validation takes much time: `decode` searches for them.
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * MAX_NUMBER_LENGTH
_LONG_POSITIVE, _LONG_NEGATIVE = 10**MAX_NUMBER_LENGTH, -(10 ** (MAX_NUMBER_LENGTH - 1))
# In a larger body, the number that cannot be read is not searched for.
_MAX_SEARCHED_BYTES = 65_536
# Includes all numbers that a client can have in a binary double, of which the smallest is 4.94e-324.
MAX_EXPONENT = 330
# The decoder's error for an incomplete body, and for a lone high surrogate near the end of the body.
_TRUNCATED = "Input data was truncated"
_OUT_OF_RANGE = f"is out of range: the exponent of a number is between {-MAX_EXPONENT} and {MAX_EXPONENT}"

_INT64 = 2**63
# More digits than any number of a request may have, so that removing trailing zeros never rounds.
_WITHOUT_ROUNDING = Context(prec=1000)
# Longer numbers are written with an exponent: an expression can evaluate to a number of thousands of digits.
_MAX_PLAIN_DIGITS = 40

_encoder = msgspec.json.Encoder(decimal_format="number")
encode = _encoder.encode
"""Encode a value as JSON; a Decimal becomes a number with all its digits, a UTC datetime a text that ends in `Z`."""


def exact_number(value: Decimal | int) -> Decimal | int:
    """The shortest exact JSON number of a decimal: 100 for 100.000, 0.5 for 0.50."""
    if isinstance(value, int):
        return value
    whole_number = value.to_integral_value()
    if whole_number != value or value.adjusted() > _MAX_PLAIN_DIGITS:
        return value.normalize(_WITHOUT_ROUNDING)
    return int(whole_number)


def to_json_value(value: Any) -> Any:
    """A value of an expression in the types that JSON has."""
    if isinstance(value, dict):
        return {str(name): to_json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    if isinstance(value, Decimal):
        return exact_number(value)
    return instant_text(value) if isinstance(value, datetime) else value


_canonical = msgspec.json.Encoder(order="deterministic").encode


def digest_of(value: Any) -> bytes:
    """The digest of a JSON value; equal numbers have equal digests, such as 10, 10.0 and 1e1."""
    return hashlib.sha256(_canonical(_with_shortest_numbers(value))).digest()


# Most values are of these types, which are encoded unchanged.
_UNCHANGED = frozenset({NoneType, bool, bytes, datetime, int, str})


def _with_shortest_numbers(value: Any) -> Any:
    """The value with each Decimal in it as `exact_number`."""
    if isinstance(value, Decimal):
        return exact_number(value)
    if isinstance(value, Mapping):
        return {
            name: part if type(part) in _UNCHANGED else _with_shortest_numbers(part) for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [part if type(part) in _UNCHANGED else _with_shortest_numbers(part) for part in value]
    return value


class UnreadableNumber(ValueError):
    """A number with too many digits, or a too large exponent; the message follows the name of the field."""


def read_number(text: str) -> Decimal | int:
    """Read a JSON number with a fraction or exponent; a whole number such as 1.0 becomes an int."""
    if len(text) > MAX_NUMBER_LENGTH:
        raise UnreadableNumber(f"has more than {MAX_NUMBER_LENGTH} characters")
    if text[-1] != "0" and "e" not in text and "E" not in text:
        # Without an exponent, a number whose fraction does not end in 0 is not a whole number.
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


def decode_stored(text: str | bytes) -> Any:
    """Read JSON that the server has written, with exact numbers; raises an error of the decoder for other texts."""
    return _decode(text)


def decode(raw: bytes) -> Any:
    """Read a request body; raises InvalidRequest for a body that is not JSON, or that cannot be stored."""
    try:
        value = _decode(raw)
    except msgspec.ValidationError:
        # A number cannot be read. The error names no field, so a slower decoder finds the number.
        raise InvalidRequest(_number_faults(raw)) from None
    except UnicodeDecodeError:
        raise _refusal("The body is not valid UTF-8.") from None
    except RecursionError:
        raise _refusal(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except (msgspec.MsgspecError, ValueError) as error:
        detail = str(error)[:200]
        if detail == _TRUNCATED and _is_complete(raw):
            detail = "a text ends in half of a UTF-16 surrogate pair"
        raise _refusal(f"The body is not valid JSON: {detail}") from None
    # A body with fewer brackets has neither too many objects and lists nor too deep ones.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        _check_containers(value)
    _check_duplicates(raw, value)
    # The digits may also be those of a text, so a number is searched for.
    if _MANY_DIGITS in raw.translate(_AS_ZEROS) and _has_long_integer(value):
        raise InvalidRequest(_number_faults(raw))
    if len(raw) > MAX_FREE_BYTES and (faults := list(_free_object_faults(value))):
        raise InvalidRequest(faults[:MAX_FAULTS])
    if b"\\u0000" in raw:
        faults = list(_nul_faults(value))
        if faults:
            raise InvalidRequest(faults[:MAX_FAULTS])
    return value


def pointer_to(parts: list[str | int] | tuple[str | int, ...]) -> str:
    """The JSON pointer (RFC 6901) to a place in a body, cut after 300 characters."""
    return "".join(f"/{pointer_part(str(part))}" for part in parts)[:300]


def _refusal(detail: str, pointer: str = "") -> InvalidRequest:
    return InvalidRequest([FieldFault(detail, pointer=pointer)])


def _is_complete(raw: bytes) -> bool:
    """True if a decoder that accepts lone surrogates can read the body."""
    try:
        json.loads(raw, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return True


def _check_containers(value: Any) -> None:
    """Raise InvalidRequest for a value with too many objects and lists, or with too deep ones."""
    # The objects and lists of one depth.
    level = [value] if type(value) in (dict, list) else []
    depth = count = 0
    while level:
        depth += 1
        count += len(level)
        if depth > MAX_DEPTH:
            raise _refusal(f"The body is nested deeper than {MAX_DEPTH} levels.")
        if count > MAX_CONTAINERS:
            raise _refusal(f"The body has more than {MAX_CONTAINERS:,} objects and lists.")
        children = chain.from_iterable(node.values() if type(node) is dict else node for node in level)
        level = [child for child in children if type(child) is dict or type(child) is list]


def _check_duplicates(raw: bytes, value: Any) -> None:
    """Raise InvalidRequest for a body in which an object has a field twice; `value` is the decoded body."""
    # The decoder keeps only the last of two fields with equal names. If a field was lost, the body has more quotes than
    # the encoded value. This check is fast; it is not possible if quotes are written as \u0022.
    if b"\\u0022" not in raw and raw.count(b'"') == encode(value).count(b'"'):
        return
    body = json.loads(raw, object_pairs_hook=_object_of, parse_float=str, parse_int=str)
    faults = []
    for path, node in _find_values(body, lambda node: type(node) is _Repeating):
        place = (*path, node.name)
        faults.append(FieldFault(f"{name_of(place)} is in the body twice.", pointer=pointer_to(place)))
    if faults:
        raise InvalidRequest(faults[:MAX_FAULTS])


class _Repeating(dict[str, Any]):
    """An object of a body that has the field `name` twice."""

    name: str


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these fields; a `_Repeating` if two fields have the same name."""
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    counts = Counter(name for name, _ in pairs)
    repeating = _Repeating(fields)
    repeating.name = next(name for name, count in counts.items() if count > 1)
    return repeating


def _has_long_integer(value: Any) -> bool:
    """True if a whole number in the value has more than `MAX_NUMBER_LENGTH` characters.

    Calls no function for each value, as `_find_values` does: valid bodies are searched, too.
    """
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
        elif type(node) is int and not _LONG_NEGATIVE < node < _LONG_POSITIVE:
            return True
    return False


def _number_faults(raw: bytes) -> list[FieldFault]:
    """A fault for each unreadable number of a body, at most `MAX_FAULTS`; a single fault if no number is found."""

    def read(text: str) -> Decimal | int | UnreadableNumber:
        try:
            return read_number(text)
        except UnreadableNumber as error:
            return error

    body = None
    if len(raw) <= _MAX_SEARCHED_BYTES:
        # After the number, the body may have further faults, so that it cannot be decoded at all.
        with suppress(ValueError, RecursionError):
            body = json.loads(raw, parse_float=read, parse_int=read)
    faults = [
        FieldFault(f"{name_of(path)} {node}.", pointer=pointer_to(path))
        for path, node in _find_values(body, lambda node: type(node) is UnreadableNumber)
    ]
    # No number is found in a large body, in one with further faults, or if a second field of its name replaces it.
    detail = f"The body contains a number that is out of range or has more than {MAX_NUMBER_LENGTH} characters."
    return faults[:MAX_FAULTS] or [FieldFault(detail, pointer="")]


def _find_values(body: Any, is_wanted: Callable[[Any], bool]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The wanted values in a body, among them objects and lists, each with its place."""
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), body)]
    while stack:
        path, node = stack.pop()
        if is_wanted(node):
            yield path, node
        if isinstance(node, dict | list):
            children = node.items() if isinstance(node, dict) else enumerate(node)
            # It takes time to build a place, so only wanted values, objects and lists get one.
            children_to_visit = [
                ((*path, name), child) for name, child in children if isinstance(child, dict | list) or is_wanted(child)
            ]
            stack.extend(reversed(children_to_visit))


def _free_object_faults(body: Any) -> Iterator[FieldFault]:
    """A fault for each object that is too large in a field of `FREE_OBJECTS`."""
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), body)]
    while stack:
        path, node = stack.pop()
        for name, child in _children(node):
            if type(child) is not dict and type(child) is not list:
                continue
            child_path = (*path, name)
            if name not in FREE_OBJECTS:
                stack.append((child_path, child))
                continue
            # A free object within this one is smaller, so it needs no check of its own.
            if len(encode(child)) > MAX_FREE_BYTES:
                detail = f"{name_of(child_path)} has more than {MAX_FREE_BYTES // 1024} KiB of JSON."
                yield FieldFault(detail, pointer=pointer_to(child_path))


def _children(node: Any) -> Iterable[tuple[str | int, Any]]:
    """The fields of an object, or the elements of a list, each with its name or index; empty for other values."""
    if type(node) is dict:
        return node.items()
    return enumerate(node) if type(node) is list else ()


def _nul_faults(value: Any) -> Iterator[FieldFault]:
    """A fault for each text and each object with a U+0000, which PostgreSQL cannot store."""
    for path, node in _find_values(value, _has_nul):
        if type(node) is str:
            yield FieldFault(f"{name_of(path)} contains the character U+0000.", pointer=pointer_to(path))
        else:
            yield FieldFault(f"{name_of(path)} has a field with U+0000 in its name.", pointer=pointer_to(path))


def _has_nul(node: Any) -> bool:
    """True for a text with a U+0000, and for an object with a field of such a name."""
    if type(node) is str:
        return "\x00" in node
    return type(node) is dict and any("\x00" in name for name in node)
