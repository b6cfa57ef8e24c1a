"""Time zones, and calendar periods in them: days, weeks from Monday, months and years."""

import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import Field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from domain.problems import MAX_NAME_LENGTH, FieldFault, did_you_mean

DAILY, WEEKLY, MONTHLY, YEARLY, TOTAL = "daily", "weekly", "monthly", "yearly", "total"
PERIODS = (DAILY, WEEKLY, MONTHLY, YEARLY)

_FIRST_DAY = date(1, 1, 1)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)

# Files of the database that are no zones of a place: the zone of this machine, the placeholder of an installation, and
# copies that count leap seconds or are named by their folder. Which of them exist differs from machine to machine.
_NO_ZONES = ("Factory", "localtime", "posix/", "posixrules", "right/")

# The names of all zones of the IANA time zone database. They are read when a process begins: reading looks into each
# file of the database. On a busy machine, that takes longer than the evaluation of an event may take.
ZONE_NAMES = frozenset(name for name in available_timezones() if not name.startswith(_NO_ZONES))

_OFFSET_WITHOUT_COLON = re.compile(r"([+-]\d{2})(\d{2})$")


def instant_of(text: str) -> datetime:
    """The moment of an RFC 3339 text, in UTC; a text without an offset is UTC (integration 1, convention 5).

    Raises ValueError for anything but a moment between the years 1 and 9999.
    """
    moment = _parse_moment(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the moment is not between the years 1 and 9999") from error


def instant_text(moment: datetime) -> str:
    """The moment as an RFC 3339 text in UTC with `Z`; microseconds are left out if they are 0."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def local_of(text: str) -> datetime:
    """The moment of a text as `instant_of` reads it, but without a zone if the text has no offset: a local time."""
    instant = instant_of(text)
    return instant if _parse_moment(text).tzinfo is not None else instant.replace(tzinfo=None)


def _parse_moment(text: str) -> datetime:
    """Parse a text that may be in lower case, with a blank instead of `T`, or with an offset without a colon."""
    return datetime.fromisoformat(_OFFSET_WITHOUT_COLON.sub(r"\1:\2", text.upper().replace(" ", "T")))


def is_zone(name: str) -> bool:
    """True for the name of a zone of the IANA time zone database."""
    return name in ZONE_NAMES


@cache
def zone_named(name: str | None) -> tzinfo:
    """The zone with this IANA name; None means UTC."""
    return UTC if name in (None, "UTC") else ZoneInfo(name)


def moment_in(zone: tzinfo, moment: datetime) -> datetime:
    """The unchanged moment if it has an offset; else the first moment at which `zone` has this local time."""
    return moment if moment.tzinfo is not None else _in_utc(moment.replace(tzinfo=zone))


def period_start(period: str, at: datetime, zone: tzinfo = UTC) -> date:
    """The first day, in `zone`, of the period that contains `at`; for `total`, the first day of the calendar."""
    day = local_time(at, zone).date()
    if period == DAILY:
        return day
    if period == WEEKLY:
        # This day exists: the first day of the calendar is a Monday.
        return day - timedelta(days=day.weekday())
    if period == MONTHLY:
        return day.replace(day=1)
    if period == YEARLY:
        return day.replace(month=1, day=1)
    if period == TOTAL:
        return _FIRST_DAY
    raise ValueError(f"unknown period {period!r}")


def start_of_day(day: date, zone: tzinfo = UTC) -> datetime:
    """The first moment of a day in `zone`, also if midnight is skipped or occurs twice on that day."""
    return _in_utc(datetime.combine(day, time(), zone))


def next_period(period: str, first_day: date) -> date:
    """The first day of the period that follows the one beginning on `first_day`.

    The calendar's last day if no period follows.
    """
    # Enough days to reach the next period, and too few to reach the one after it.
    days = {DAILY: 1, WEEKLY: 7, MONTHLY: 31, YEARLY: 366}[period]
    try:
        return period_start(period, datetime.combine(first_day + timedelta(days=days), time.min, UTC))
    except OverflowError:
        return date.max


def add_months(moment: datetime, months: int, zone: tzinfo) -> datetime:
    """The same day and time of day in `zone`, `months` later; a day that the month lacks becomes its last one.

    31 January plus one month is the end of February. The result is in UTC; a result after the calendar becomes
    its last moment. Raises ValueError for a result before the calendar.
    """
    # If clocks are put back, a local time occurs twice: the conversion to local time and back could change the moment.
    if months == 0:
        return _in_utc(moment)
    try:
        later = months_later(local_time(moment, zone), months)
    except ValueError:
        if months < 0:
            raise
        return LAST_MOMENT
    return _in_utc(later)


def months_later(local: datetime, months: int) -> datetime:
    """The same time of day on the same day of the month, `months` later; a day that the month lacks becomes its last.

    Raises ValueError for a result outside the calendar.
    """
    years, month_index = divmod(local.month - 1 + months, 12)
    year, month = local.year + years, month_index + 1
    return local.replace(year=year, month=month, day=min(local.day, monthrange(year, month)[1]), fold=0)


def add_days(moment: datetime, days: int, zone: tzinfo) -> datetime:
    """The same time of day in `zone`, `days` later, in UTC, but not after the last moment of the calendar."""
    if days == 0:
        return _in_utc(moment)
    try:
        return (local_time(moment, zone) + timedelta(days=days)).astimezone(UTC)
    except OverflowError:
        return LAST_MOMENT


def day_of_week(at: datetime, zone: tzinfo = UTC) -> int:
    """1 = Monday ... 7 = Sunday (integration 1, convention 6)."""
    return local_time(at, zone).isoweekday()


def local_time(at: datetime, zone: tzinfo) -> datetime:
    """The local time in `zone`; the unchanged moment if the local time is outside the calendar (year 1 or 9999)."""
    try:
        return at.astimezone(zone)
    except OverflowError:
        return at


def _in_utc(moment: datetime) -> datetime:
    """The moment in UTC; if that is outside the calendar, the unchanged local time as a time in UTC."""
    return local_time(moment, UTC).replace(tzinfo=UTC)


class _Zoned(Protocol):
    """A dataclass with a `timezone`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def timezone(self) -> str | None: ...


Zoned = TypeVar("Zoned", bound=_Zoned)


def not_a_zone(name: str, field: str = "timezone") -> str:
    """The error text for a name that is no time zone."""
    suggestion = did_you_mean(name, sorted(ZONE_NAMES))
    return (
        f"{field} {name[:MAX_NAME_LENGTH]} is not a time zone of the IANA database, such as Europe/Madrid.{suggestion}"
    )


def zone_faults(name: str | None) -> list[FieldFault]:
    """The faults of a `timezone`; none if it is None, which means no time zone."""
    return [] if name is None or is_zone(name) else [FieldFault(not_a_zone(name), pointer="/timezone")]


def with_offsets(record: Zoned, names: Iterable[str], default: str) -> Zoned:
    """The record, in which the moments in the fields `names` have an offset.

    A moment without an offset is local time in the `timezone` of the record, or else in `default`.
    """
    zone_name = record.timezone
    # `zone_faults` reports a name that is no zone.
    zone = zone_named(zone_name if zone_name is not None and is_zone(zone_name) else default)
    moments = {name: moment for name in names if (moment := getattr(record, name)) is not None}
    localized_moments: dict[str, Any] = {name: moment_in(zone, moment) for name, moment in moments.items()}
    return replace(record, **localized_moments)
