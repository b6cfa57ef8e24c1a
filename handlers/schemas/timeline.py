"""Timelines on the wire, and their cursors."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.calendar import instant_of
from domain.problems import FieldFault, InvalidRequest
from domain.timeline.rows import TimelineRow
from handlers.messages.base import exact_number, instant_text
from handlers.services.members.timeline import Positions, TimelinePage, TimelineQuery
from persistence.timeline import SOURCES

_GREATEST_ID = 2**63 - 1


def timeline_query(query: Mapping[str, Any]) -> TimelineQuery:
    """The rows that the parameters want; raises InvalidRequest for a cursor that no answer told."""
    return TimelineQuery(
        limit=query["limit"],
        kinds=frozenset(query.get("kinds", ())),
        created_from=instant_of(query["fromCreatedAt"]) if "fromCreatedAt" in query else None,
        created_to=instant_of(query["toCreatedAt"]) if "toCreatedAt" in query else None,
        positions=_positions(query["cursor"]) if "cursor" in query else None,
    )


def timeline_page(page: TimelinePage) -> dict[str, Any]:
    """A page with the cursor of the next one."""
    return {
        "limit": page.limit,
        "nextCursor": None if page.next is None else _cursor(page.next),
        "results": [timeline_row(row) for row in page.rows],
    }


def timeline_row(row: TimelineRow) -> dict[str, Any]:
    """A row, with its ids under the name of its kind."""
    return {
        "kind": row.kind,
        "recordedAt": instant_text(row.recorded_at),
        "happenedAt": instant_text(row.happened_at),
        "text": row.text,
        "by": row.by,
        "loyaltyEventId": row.loyalty_event_id,
        "isReversed": row.is_reversed,
        row.kind: _exact(row.details),
    }


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_exact(each) for each in value]
    return exact_number(value) if isinstance(value, Decimal) else value


def _cursor(positions: Positions) -> str:
    told = json.dumps(positions, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(told).decode().rstrip("=")


def _positions(cursor: str) -> dict[str, int]:
    try:
        told = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not all(_is_position(name, place) for name, place in told.items()):
        detail = "cursor is not one that an answer told: send the nextCursor of the page before"
        raise InvalidRequest([FieldFault(detail, parameter="cursor")])
    return told


def _is_position(name: str, place: Any) -> bool:
    return name in SOURCES and type(place) is int and 0 <= place <= _GREATEST_ID
