"""The test clock on the wire."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.calendar import instant_text
from domain.organizations import Organization
from domain.test_clocks import TestClock
from handlers.call import TEST_CLOCK_HEADER, Response
from handlers.messages.base import Plain, Shape, WireSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClock:
    """The body of `createTestClock`; without `starts_at` the clock begins with the real time."""

    starts_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockAdvance:
    """The body of `advanceTestClock`: the moment to which the clock is advanced."""

    to: datetime


class _Status(WireSchema):
    status = Plain()


CLOCK = Shape(TestClock, _Status)
CLOCK_OF_ORGANIZATION = Shape(TestClock, _Status, only=("now", "status"))


def audited_clock(organization: Organization) -> dict[str, Any]:
    """The clock of an organization for the audit log: its time, and the target of an advance."""
    if organization.clock_now is None:
        return {"testClock": None}
    return {"testClock": {"now": instant_text(organization.clock_now), "target": _text(organization.clock_target)}}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else instant_text(moment)


def clock_response(status: int, clock: TestClock) -> Response:
    """The response with the clock in its body, and in the header that all responses of the organization have."""
    return Response(status, {"testClock": CLOCK(clock)}, ((TEST_CLOCK_HEADER, instant_text(clock.now)),))
