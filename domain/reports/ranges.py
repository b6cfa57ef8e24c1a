"""The range of a report: from a moment (inclusive) to another (exclusive), and its days in a time zone."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from domain.calendar import is_zone, start_of_day, zone_named
from domain.problems import FieldFault, InvalidRequest
from domain.timezones import not_a_zone

DEFAULT_DAYS = 30
MOST_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class ReportRange:
    """From `begin` (inclusive) to `end` (exclusive), both in UTC; days are those of `zone`."""

    begin: datetime
    end: datetime
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class Day:
    """The part of a calendar day that lies within a range."""

    date: date
    begin: datetime
    end: datetime


def zone_of(name: str | None, default: tzinfo) -> tzinfo:
    """The IANA time zone of this name, `default` without one; raises InvalidRequest for an unknown name."""
    if name is None:
        return default
    if not is_zone(name):
        raise InvalidRequest([FieldFault(not_a_zone(name, "tz"), parameter="tz")])
    return zone_named(name)


def report_range(
    since_from: datetime | None, since_to: datetime | None, tz: str | None, now: datetime, default: tzinfo = UTC
) -> ReportRange:
    """The range of a request; by default the last 30 days, with today as the last of them.

    Days are those of the zone `tz`, else of `default`. Raises InvalidRequest if the range ends before it begins, or for
    an unknown time zone.
    """
    zone = zone_of(tz, default)
    if since_from is not None and since_to is not None and since_to < since_from:
        fault = "sinceTo is before sinceFrom"
        raise InvalidRequest([FieldFault(fault, parameter="sinceTo")])
    if since_to is None:
        tomorrow = start_of_day(_local_date(now, zone) + timedelta(days=1), zone)
        since_to = tomorrow if since_from is None else max(tomorrow, since_from)
    if since_from is None:
        since_from = _days_before(since_to, zone)
    return ReportRange(since_from, since_to, zone)


def days_of(asked: ReportRange) -> list[Day]:
    """The days of a range, in order; raises InvalidRequest for more than `MOST_DAYS` of them."""
    if (asked.end - asked.begin).days > MOST_DAYS:
        fault = f"sinceFrom is more than {MOST_DAYS:,} days before sinceTo, and a series has at most so many"
        raise InvalidRequest([FieldFault(fault, parameter="sinceFrom")])
    days: list[Day] = []
    begin = asked.begin
    day = _local_date(begin, asked.zone)
    while begin < asked.end:
        # A day that the zone skipped when it crossed the date line has no time at all.
        next_begin = _start_of_next(day, asked.zone)
        if next_begin is None or next_begin > begin:
            end = asked.end if next_begin is None else min(next_begin, asked.end)
            days.append(Day(day, begin, end))
            begin = end
        if day == date.max:
            break
        day += timedelta(days=1)
    return days


def _days_before(end: datetime, zone: tzinfo) -> datetime:
    """The beginning of the 30 days whose last one ends at `end`, or contains it."""
    try:
        last = _local_date(end - timedelta(microseconds=1), zone)
        return min(start_of_day(last - timedelta(days=DEFAULT_DAYS - 1), zone), end)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _start_of_next(day: date, zone: tzinfo) -> datetime | None:
    """The beginning of the following day; None at the end of the calendar."""
    try:
        return start_of_day(day + timedelta(days=1), zone)
    except OverflowError:
        return None


def _local_date(at: datetime, zone: tzinfo) -> date:
    try:
        return at.astimezone(zone).date()
    except OverflowError:
        return at.date()
