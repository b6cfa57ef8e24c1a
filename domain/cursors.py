"""Encoding of cursors: JSON as base64url, with the position where the next page of a list begins."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from domain.problems import FieldFault, InvalidRequest


def encode_cursor(value: Mapping[str, Any]) -> str:
    """The cursor with this content."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> dict[str, Any]:
    """The content of a cursor, without a check of its fields; raises InvalidRequest if it is not a JSON object."""
    try:
        value = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise foreign_cursor()
    return value


def foreign_cursor() -> InvalidRequest:
    """The refusal of a cursor that no response of the list contained."""
    detail = "cursor is not from a response of this list: send the nextCursor of the page before"
    return InvalidRequest([FieldFault(detail, parameter="cursor")])
