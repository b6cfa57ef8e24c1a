"""Timestamps and durations, to the microsecond."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from domain.calendar import ZONE_NAMES
from domain.expressions.errors import EvaluationError
from domain.expressions.numbers import int64

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|μs|ns)", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_MICROSECONDS = {
    "h": Decimal(3_600_000_000),
    "m": Decimal(60_000_000),
    "s": Decimal(1_000_000),
    "ms": Decimal(1_000),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ns": Decimal("0.001"),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DURATION_TEXT = 100
_MICROSECOND = timedelta(microseconds=1)
_MAX_DURATION = timedelta(seconds=9_223_372_036)
"""About 292 years, the range of CEL's durations."""


def _invalid(message: str) -> EvaluationError:
    """The error for a text that is no time, duration or zone."""
    return EvaluationError("invalid", message)


def timestamp_from_text(text: str) -> datetime:
    """The moment of an RFC 3339 text, in UTC; digits beyond the microsecond are cut off."""
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise _invalid('the text is not a timestamp such as "2024-05-31T18:30:00Z"')
    fraction, offset = match[7] or "", timedelta(0)
    if match[9]:
        offset = _offset(match[9], match[10], match[11])
    try:
        year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
        return datetime(year, month, day, hour, minute, second, int(fraction.ljust(6, "0")[:6]), UTC) - offset
    except (ValueError, OverflowError):
        raise _invalid("the date or time does not exist in the years 1 to 9999") from None


def timestamp_from_seconds(seconds: int) -> datetime:
    """The moment the given number of seconds after the start of 1970, UTC."""
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise EvaluationError("overflow", "the time is not within the years 1 to 9999") from None


def timestamp_to_text(value: datetime) -> str:
    """The time as RFC 3339 in UTC, with a fraction only if it is not 0."""
    local = aware(value).astimezone(UTC)
    text = local.replace(tzinfo=None, microsecond=0).isoformat()
    return text + _fraction(local.microsecond) + "Z"


def _fraction(microseconds: int) -> str:
    """The fraction of a second as the end of a text; empty if it is zero."""
    return f".{microseconds:06d}".rstrip("0") if microseconds else ""


def aware(value: datetime) -> datetime:
    """The time; raises EvaluationError if it has no time zone."""
    if value.tzinfo is None:
        raise EvaluationError("type", "the time has no time zone")
    return value


def duration_from_text(text: str) -> timedelta:
    """The duration of a text like `1h30m`, `90s` or `1.5s`; whole microseconds only."""
    if len(text) > _MAX_DURATION_TEXT:
        raise _invalid(f"the text has {len(text)} characters; a duration may have at most {_MAX_DURATION_TEXT}")
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return timedelta(0)
    parts = _DURATION.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise _invalid('the text is not a duration such as "36h", "1h30m" or "90s"')
    total = Decimal(0)
    for number, unit in parts:
        total += Decimal(number) * _MICROSECONDS[unit]
    if total != int(total):
        raise _invalid("a duration has no parts smaller than a microsecond")
    if total > _MAX_DURATION // _MICROSECOND:
        raise EvaluationError("overflow", "the duration is longer than about 292 years")
    return timedelta(microseconds=-int(total) if text.startswith("-") else int(total))


def duration_to_text(value: timedelta) -> str:
    """The duration in seconds, like `90s` or `-1.5s`."""
    total = value // _MICROSECOND
    seconds, microseconds = divmod(abs(total), 1_000_000)
    return f"{'-' if total < 0 else ''}{seconds}{_fraction(microseconds)}s"


def within_range(value: timedelta) -> timedelta:
    """The duration; raises EvaluationError if it exceeds about 292 years, the range of CEL's durations."""
    if -_MAX_DURATION <= value <= _MAX_DURATION:
        return value
    raise EvaluationError("overflow", "the duration is longer than about 292 years")


def move(value: datetime, by: timedelta) -> datetime:
    """The time plus a duration."""
    try:
        return aware(value) + by
    except OverflowError:
        raise EvaluationError("overflow", "the time is not within the years 1 to 9999") from None


@lru_cache(maxsize=4096)
def zone(name: str) -> tzinfo:
    """The time zone of a name like `Europe/Madrid` or an offset like `-03:00`."""
    if match := _OFFSET.fullmatch(name):
        return timezone(_offset(*match.groups()))
    # Checked against the known names first: searching for a file that does not exist is slow.
    if name in ZONE_NAMES:
        return ZoneInfo(name)
    raise _invalid('the text is not a time zone such as "Europe/Madrid" or "-03:00"')


def _offset(sign: str, hours: str, minutes: str) -> timedelta:
    """The offset of a text such as `-03:00`."""
    if int(hours) > 23 or int(minutes) > 59:
        raise _invalid('the text is not an offset from UTC such as "-03:00"')
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return -offset if sign == "-" else offset


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda t: t.year,
    "getMonth": lambda t: t.month - 1,
    "getDate": lambda t: t.day,
    "getDayOfMonth": lambda t: t.day - 1,
    "getDayOfWeek": lambda t: t.isoweekday() % 7,
    "getDayOfYear": lambda t: t.timetuple().tm_yday - 1,
    "getHours": lambda t: t.hour,
    "getMinutes": lambda t: t.minute,
    "getSeconds": lambda t: t.second,
    "getMilliseconds": lambda t: t.microsecond // 1000,
}


def _read_part(read: Callable[[datetime], int], value: datetime, local_zone: tzinfo) -> int:
    try:
        return read(aware(value).astimezone(local_zone))
    except OverflowError:
        raise EvaluationError("overflow", "the time is not within the years 1 to 9999") from None


def _accessor_with_zone(read: Callable[[datetime], int]) -> Callable[..., int]:
    """The method that reads a part of a timestamp in the zone that its argument names."""
    return lambda value, zone_name: _read_part(read, value, zone(zone_name))


def _accessor_in_campaign_zone(read: Callable[[datetime], int]) -> Callable[..., int]:
    """The method that reads a part of a timestamp in the zone of the campaign (`Budget.zone`)."""
    return lambda budget, value: _read_part(read, value, budget.zone)


ACCESSORS: dict[str, Callable[..., int]] = {name: _accessor_with_zone(read) for name, read in _PARTS.items()}
"""Parts of a time in the named zone; months, days of month, of week (Sunday is 0) and of year count from 0."""

LOCAL_ACCESSORS: dict[str, Callable[..., int]] = {
    name: _accessor_in_campaign_zone(read) for name, read in _PARTS.items()
}
"""The same parts of a time as `ACCESSORS`, in the zone of the campaign; the budget is the first argument."""


def _whole_units(value: timedelta, unit: timedelta) -> int:
    """The whole units of a duration, rounded towards 0."""
    return int64(abs(value) // unit * (-1 if value < timedelta(0) else 1))


def _milliseconds(value: timedelta) -> int:
    """The milliseconds of a duration without its whole seconds, with its sign."""
    total = _whole_units(value, timedelta(milliseconds=1))
    return total % 1000 if total >= 0 else -(-total % 1000)


DURATION_ACCESSORS: dict[str, Callable[[timedelta], int]] = {
    "getHours": lambda d: _whole_units(d, timedelta(hours=1)),
    "getMinutes": lambda d: _whole_units(d, timedelta(minutes=1)),
    "getSeconds": lambda d: _whole_units(d, timedelta(seconds=1)),
    "getMilliseconds": _milliseconds,
}
"""The whole hours, minutes or seconds of a duration; the milliseconds within its last second."""
