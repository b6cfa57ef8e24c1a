"""Timelines on the wire, and their cursors."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.calendar import instant_of
from domain.cursors import decode_cursor, encode_cursor, foreign_cursor
from domain.timeline.rows import TimelineRow
from handlers.messages.base import Shape
from handlers.messages.json_text import exact_number
from handlers.services.members.timeline import TimelinePage, TimelineQuery
from persistence.timeline import SOURCES

_MAX_ID = 2**63 - 1
_ROW = Shape(TimelineRow, without=("details", "details_name"))


def timeline_query(query: Mapping[str, Any]) -> TimelineQuery:
    """The query for the rows that the parameters select; raises InvalidRequest for a cursor that no page returned."""
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
        "nextCursor": None if page.next is None else encode_cursor(page.next),
        "results": [timeline_row(row) for row in page.rows],
    }


def timeline_row(row: TimelineRow) -> dict[str, Any]:
    """A row; its details are in a field named after its kind, unless the row has another name for them."""
    return {**_ROW.dump(row), row.details_name or row.kind: _exact(row.details)}


def _exact(value: Any) -> Any:
    """A JSON value with each Decimal in its shortest exact form: 100 for 100.000."""
    if isinstance(value, Mapping):
        return {name: _exact(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_exact(part) for part in value]
    return exact_number(value) if isinstance(value, Decimal) else value


def _positions(cursor: str) -> dict[str, int]:
    """The positions that the cursor of a page contains; raises InvalidRequest for a cursor that no page returned."""
    positions = decode_cursor(cursor)
    for name, position in positions.items():
        if name not in SOURCES or type(position) is not int or not 0 <= position <= _MAX_ID:
            raise foreign_cursor()
    return positions
