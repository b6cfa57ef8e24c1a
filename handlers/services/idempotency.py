"""Digests of requests: two requests under one key are the same if their digests are."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import Any

import msgspec

from handlers.messages.base import exact_number

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
