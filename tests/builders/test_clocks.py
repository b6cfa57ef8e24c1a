"""Test organizations with a clock, moved through the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.builders.api import Api, Organization


@dataclass(frozen=True)
class Clock:
    """The clock of a test organization."""

    organization: Organization

    @classmethod
    def new(cls, api: Api, *, starts_at: str = "2026-03-01T09:00:00Z", **properties: Any) -> Clock:
        """The clock of a new test organization, by default in Madrid and at 10:00 (09:00 UTC) on 1 March 2026."""
        organization = api.organization(environment="test", **{"timezone": "Europe/Madrid", **properties})
        clock = cls(organization)
        clock.start(startsAt=starts_at)
        return clock

    def start(self, *, expect: int = 201, **body: Any) -> dict[str, Any]:
        """Create the clock; return its record, or the problem if `expect` is not 201."""
        return _clock(self.organization.administration.post("/test-clock", body, expect=expect))

    def get(self, *, expect: int = 200) -> dict[str, Any]:
        """The record of the clock, or the problem if `expect` is not 200."""
        return _clock(self.organization.administration.get("/test-clock", expect=expect))

    def advance(self, to: str, *, expect: int = 200) -> dict[str, Any]:
        """Advance to a moment, within the time of a call; return the record of the clock, or the problem."""
        return _clock(self.organization.administration.post("/test-clock/advance", {"to": to}, expect=expect))

    def remove(self, *, expect: int = 204) -> Any:
        """Remove the clock."""
        return self.organization.administration.delete("/test-clock", expect=expect)


def _clock(response: Any) -> Any:
    """The clock of a response, or the problem."""
    return response.get("testClock", response)
