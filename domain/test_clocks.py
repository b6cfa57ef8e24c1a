"""Test clocks: the time of a test organization, which does not move until it is advanced."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from domain.calendar import instant_text
from domain.problems import Conflict, FieldFault, InvalidRequest, NotFound

# The status of a test clock.
READY, ADVANCING, FAILED = "ready", "advancing", "failed"

# Rules count dates back from the time of the clock, so it cannot be the first year of the calendar.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
# One advance is limited to two years, including a leap day.
MAX_ADVANCE = timedelta(days=731)
MAX_LEAD = timedelta(days=3653)


@dataclass(frozen=True, slots=True)
class TestClock:
    """The time of a test organization.

    `target` is the moment to which the clock is advanced, None if no advance is under way or has failed. `started_at`
    is when the last advance was requested, in real time, and `steps` the number of moments at which it found something
    to do. `last_error` is why the advance failed.
    """

    now: datetime
    target: datetime | None
    started_at: datetime | None
    steps: int
    last_error: str | None

    @property
    def status(self) -> str:
        """READY, ADVANCING or FAILED."""
        if self.target is None:
            return READY
        return ADVANCING if self.last_error is None else FAILED


class NotATestOrganization(Conflict, title="The organization is not a test organization"):
    """The organization is not a test organization, so its time cannot be changed."""


class TestClockExists(Conflict, title="The organization has a test clock"):
    """An organization has one test clock at most."""


class TestClockMissing(NotFound, title="The organization has no test clock"):
    """The organization uses the real time."""


class TestClockBackwards(Conflict, title="A test clock does not go back"):
    """The time of an organization cannot go back."""


class TestClockAdvancing(Conflict, title="The test clock is being advanced"):
    """Nothing is written while the time of the organization moves."""


class TestClockInUse(Conflict, title="Records are dated later than the real time"):
    """A record of the organization is dated later than the real time."""


def refuse_moment(moment: datetime, real_now: datetime, pointer: str) -> None:
    """Raise InvalidRequest for a moment that no test clock shows: before 1970, or more than ten years from now."""
    if not EARLIEST <= moment <= real_now + MAX_LEAD:
        name = pointer.removeprefix("/")
        detail = f"{name} is before 1970, or more than 10 years after the real time"
        raise InvalidRequest([FieldFault(detail, pointer=pointer)])


def refuse_start(moment: datetime, newest: datetime | None) -> None:
    """Raise TestClockBackwards for a start before `newest`, the latest date of a record, None without records."""
    if newest is not None and moment < newest:
        raise TestClockBackwards(
            f"startsAt is before {instant_text(newest)}, the date of the newest event, ledger transaction or member."
        )


def refuse_during_advance(clock: TestClock) -> None:
    """Raise TestClockAdvancing during an advance, also if the clock shows the target and work is still due."""
    if clock.target is not None:
        raise TestClockAdvancing(
            f"The advance to {instant_text(clock.target)} is not finished. Repeat it until the clock is ready."
        )


def refuse_target(clock: TestClock, to: datetime) -> None:
    """Refuse an advance that goes back or too far, or that has another target than the one under way."""
    if to != clock.target:
        refuse_during_advance(clock)
    if to < clock.now:
        raise TestClockBackwards(f"The clock shows {instant_text(clock.now)}, which is after {instant_text(to)}.")
    if to - clock.now > MAX_ADVANCE:
        detail = f"to is more than {MAX_ADVANCE.days} days after {instant_text(clock.now)}, the time of the clock"
        raise InvalidRequest([FieldFault(detail, pointer="/to")])
