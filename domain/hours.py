"""The hours of the week at which a campaign or a coupon book is open, by the wall clock of a time zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise
from typing import Any, NamedTuple

from domain.calendar import local_time
from domain.problems import FieldFault

MINUTES_OF_DAY = 24 * 60
MINUTES_OF_WEEK = 7 * MINUTES_OF_DAY
FIELD = "dayOfWeekSchedule"


class Occasion(NamedTuple):
    """When and where an event happened; `zone` is the zone of its location, None if the location has none."""

    at: datetime
    zone: tzinfo | None = None


class Window(NamedTuple):
    """A span in minutes of the week, Monday 00:00 being 0; one that begins on Sunday may end beyond the week."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class WeeklyHours:
    """Windows of the week; `begin` belongs to a window, and `end` does not."""

    windows: tuple[Window, ...]

    def is_open(self, at: datetime, zone: tzinfo) -> bool:
        """True if the wall clock of the zone is within a window.

        When clocks change, an hour may be skipped or occur twice.
        """
        local = local_time(at, zone)
        minute = local.weekday() * MINUTES_OF_DAY + local.hour * 60 + local.minute
        return any(begin <= minute < end or minute + MINUTES_OF_WEEK < end for begin, end in self.windows)


def hours_of(schedule: Mapping[str, Any]) -> WeeklyHours:
    """The hours of a schedule without faults, `{schedule: [{day, from, to}]}`."""
    return WeeklyHours(tuple(map(_window, schedule["schedule"])))


def local_clock(at: datetime, zone: tzinfo) -> dict[str, Any]:
    """The time and the day of the week on the clock of the zone, and its name, for explanations."""
    local = local_time(at, zone)
    return {"localTime": f"{local:%H:%M}", "day": local.isoweekday(), "timezone": str(zone)}


def hours_faults(schedule: Mapping[str, Any] | None, *, has_days_of_week: bool) -> list[FieldFault]:
    """The faults of a schedule that the OpenAPI document cannot exclude.

    `has_days_of_week` is true if the campaign or coupon book also has `daysOfWeek`.
    """
    if schedule is None:
        return []
    faults = list(_window_faults(schedule["schedule"]))
    if has_days_of_week:
        detail = "dayOfWeekSchedule names the days itself; send an empty daysOfWeek with it"
        faults.append(FieldFault(detail, pointer=f"/{FIELD}"))
    return faults


def _window_faults(windows: list[Mapping[str, Any]]) -> Iterator[FieldFault]:
    """The faults of empty and of overlapping windows; Sunday's windows may overlap Monday's."""
    numbered_windows: list[tuple[Window, int]] = []
    for position, window in enumerate(windows):
        if window["from"] == window["to"]:
            detail = f"from is {window['from']}, the same as to; a whole day is from 00:00 to 24:00"
            yield FieldFault(detail, pointer=f"{_pointer(position)}/from")
        else:
            numbered_windows.append((_window(window), position))
    numbered_windows.sort()
    if len(numbered_windows) > 1:
        # The first window of the next week follows the last one of this week.
        first_window, first_position = numbered_windows[0]
        numbered_windows.append((Window(*(minute + MINUTES_OF_WEEK for minute in first_window)), first_position))
    for (earlier, position), (later, later_position) in pairwise(numbered_windows):
        if earlier.end > later.begin:
            texts = [_window_text(windows[index]) for index in (position, later_position)]
            yield FieldFault(
                f"schedule has overlapping windows, {' and '.join(texts)}", pointer=_pointer(later_position)
            )


def _pointer(position: int) -> str:
    """The pointer to the window at a position of the schedule."""
    return f"/{FIELD}/schedule/{position}"


def _window_text(window: Mapping[str, Any]) -> str:
    return f"day {window['day']} {window['from']} to {window['to']}"


def _window(window: Mapping[str, Any]) -> Window:
    """The window in minutes of the week; one whose end is not after its begin ends on the next day."""
    day = (window["day"] - 1) * MINUTES_OF_DAY
    begin, end = _minute(window["from"]), _minute(window["to"])
    return Window(day + begin, day + end + (MINUTES_OF_DAY if end <= begin else 0))


def _minute(text: str) -> int:
    """The minute of the day of a text such as `09:30`."""
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
