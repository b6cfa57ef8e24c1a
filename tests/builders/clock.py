"""The time that the application goes by, moved at will."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from handlers.http import dispatch


class Clock:
    """Stands in for `datetime` where calls are told what time it is."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self, zone: Any = UTC) -> datetime:
        """The time, so much later as the test has let go by."""
        return datetime.now(zone) + self.ahead

    def wait(self, **span: float) -> None:
        """Let time go by."""
        self.ahead += timedelta(**span)

    def moment(self, **span: float) -> str:
        """A moment from now, as requests say it."""
        return (self.now() + timedelta(**span)).isoformat().replace("+00:00", "Z")


def installed(monkeypatch: Any) -> Clock:
    """A clock that calls go by until the test ends."""
    clock = Clock()
    monkeypatch.setattr(dispatch, "datetime", clock)
    return clock


def earlier(column: str, by: str) -> str:
    """The SQL of a moment before that of a column; immutable, as Citus wants what an UPDATE computes of columns."""
    return f"(({column} AT TIME ZONE 'UTC') - CAST({by} AS interval)) AT TIME ZONE 'UTC'"
