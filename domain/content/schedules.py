"""Schedules of documents: days of the week, and hours on them in a time zone (integration 2.5)."""

from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from domain.calendar import day_of_week, zone_named
from domain.problems import FieldFault
from domain.timezones import not_a_zone

HOURS_OF_DAY = 24


def hour_of_week(at: datetime, zone: tzinfo) -> int:
    """The hour of the week in a zone: 0 is Monday from 00:00 to 00:59, 167 is Sunday from 23:00."""
    day = day_of_week(at, zone) - 1
    try:
        hour = at.astimezone(zone).hour
    except OverflowError:
        hour = at.hour
    return day * HOURS_OF_DAY + hour


def open_hours(schedule: Mapping[str, Any]) -> list[int]:
    """The hours of the week that a schedule's windows cover, sorted; the last hour of a window is included."""
    hours = {
        (window["day"] - 1) * HOURS_OF_DAY + hour
        for window in schedule["schedule"]
        for hour in range(window["fromHour"], window["toHour"] + 1)
    }
    return sorted(hours)


def open_hours_now(zones: Iterable[str], at: datetime) -> dict[str, int]:
    """The current hour of the week in each of the zones."""
    return {name: hour_of_week(at, zone_named(name)) for name in zones}


def schedule_faults(schedule: Mapping[str, Any] | None, zones: frozenset[str]) -> list[FieldFault]:
    """Faults of a well-formed schedule; `zones` are the names of all time zones."""
    if schedule is None:
        return []
    faults = []
    if schedule["timezone"] not in zones:
        detail = not_a_zone(schedule["timezone"])
        faults.append(FieldFault(detail, pointer="/dayOfWeekSchedule/timezone"))
    for place, window in enumerate(schedule["schedule"]):
        if window["fromHour"] > window["toHour"]:
            detail = "fromHour is after toHour; a window across midnight is two, one for each day"
            faults.append(FieldFault(detail, pointer=f"/dayOfWeekSchedule/schedule/{place}/fromHour"))
    return faults
