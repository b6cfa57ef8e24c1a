"""The text of cursors: JSON as base64url, which tells where the next page of a list begins."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from domain.problems import FieldFault, InvalidRequest


def cursor_of(told: Mapping[str, Any]) -> str:
    """The cursor that tells this."""
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def told_by(cursor: str) -> dict[str, Any]:
    """The object that a cursor tells, whatever is in it; raises InvalidRequest where there is none."""
    try:
        told = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise foreign_cursor()
    return told


def foreign_cursor() -> InvalidRequest:
    """The refusal of a cursor that no answer of the list told."""
    detail = "cursor is not one that an answer of this list told: send the nextCursor of the page before"
    return InvalidRequest([FieldFault(detail, parameter="cursor")])
