"""A clock that the application uses and that tests move forward."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from handlers.http import dispatch


class Clock:
    """Replaces the class `datetime` in the module where calls read the time."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self, zone: Any = UTC) -> datetime:
        """The real time plus the time that the test has added."""
        return datetime.now(zone) + self.ahead

    def wait(self, **span: float) -> None:
        """Move the time forward."""
        self.ahead += timedelta(**span)

    def moment(self, **span: float) -> str:
        """A moment relative to now, as a text for requests."""
        return (self.now() + timedelta(**span)).isoformat().replace("+00:00", "Z")


def install_clock(monkeypatch: Any) -> Clock:
    """Let all calls use a clock of the test until it ends; return the clock."""
    clock = Clock()
    monkeypatch.setattr(dispatch, "datetime", clock)
    return clock


def earlier(column: str, by: str) -> str:
    """The SQL of the moment that lies `by` (an SQL expression, such as `'1 day'`) before the moment of a column.

    It is immutable, as Citus requires of expressions in an UPDATE.
    """
    return f"(({column} AT TIME ZONE 'UTC') - CAST({by} AS interval)) AT TIME ZONE 'UTC'"
