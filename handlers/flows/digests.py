"""What makes two requests under one key the same: a digest of all that they ask for, whatever they call it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

import msgspec

_canonical = msgspec.json.Encoder(order="deterministic").encode

# Wider than any number that a request may hold: dropping trailing zeros must not round.
_WIDE = Context(prec=1000)


def digest_of(asked: Any) -> bytes:
    """The digest of plain values; a number counts by its value, so that 10, 10.0 and 1e1 ask for the same."""
    return hashlib.sha256(_canonical(_by_value(asked))).digest()


def _by_value(asked: Any) -> Any:
    if isinstance(asked, Decimal):
        whole = asked.to_integral_value()
        return int(whole) if whole == asked else str(asked.normalize(_WIDE))
    if isinstance(asked, Mapping):
        return {name: _by_value(value) for name, value in asked.items()}
    if isinstance(asked, list | tuple):
        return [_by_value(value) for value in asked]
    return asked
