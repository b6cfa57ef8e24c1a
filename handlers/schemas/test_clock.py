"""The test clock on the wire."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.organizations import Organization, OrganizationDetails
from domain.test_clocks import TestClock
from handlers.call import TEST_CLOCK_HEADER, Answer
from handlers.messages.base import Body, Plain, Shape, WireSchema, instant_text


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClock:
    """The body of `createTestClock`; without `starts_at` the clock begins with the real time."""

    starts_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockAdvance:
    """The body of `advanceTestClock`: the moment that the clock is to show."""

    to: datetime


class _Status(WireSchema):
    status = Plain()


NEW_CLOCK = Body(NewClock)
ADVANCE = Body(ClockAdvance)
CLOCK = Shape(TestClock, _Status)
CLOCK_OF_ORGANIZATION = Shape(TestClock, _Status, only=("now", "status"))


def audited_clock(organization: Organization) -> dict[str, Any]:
    """The clock of an organization as the audit log shows it: what it shows, and where an advance leads."""
    if organization.clock_now is None:
        return {"testClock": None}
    return {"testClock": {"now": instant_text(organization.clock_now), "target": _text(organization.clock_target)}}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else instant_text(moment)


def clock_answer(status: int, organization: OrganizationDetails) -> Answer:
    """The answer that shows the clock of an organization, in its body and by the header of all answers."""
    clock = organization.test_clock
    assert clock is not None
    return Answer(status, {"testClock": CLOCK(clock)}, ((TEST_CLOCK_HEADER, instant_text(clock.now)),))
