"""Calendar arithmetic of expressions: days, months and years later, the start and the end of a unit.

All functions work on the local time of a zone. A local time that clocks skip becomes the first moment after the gap;
a local time that occurs twice is its first occurrence.
"""

from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from domain.calendar import months_later
from domain.expressions.errors import EvaluationError
from domain.expressions.times import aware
from domain.problems import nearest

MAX_DAYS = 36_600
MAX_MONTHS = MAX_YEARS = 1_200

_DAYS_OF_UNIT = {"day": 1, "week": 7}
_MONTHS_OF_UNIT = {"month": 1, "quarter": 3, "half-year": 6, "year": 12}
UNITS = (*_DAYS_OF_UNIT, *_MONTHS_OF_UNIT)


def count_check(limit: int) -> Callable[[int], None]:
    """A function that raises EvaluationError for a number of units that is not between -`limit` and `limit`."""

    def check(count: int) -> None:
        if not -limit <= count <= limit:
            raise EvaluationError("invalid", f"{count} is not between -{limit} and {limit}")

    return check


def check_unit(name: str) -> None:
    """Raise EvaluationError for a name that is not the name of a unit."""
    if name not in UNITS:
        close = nearest(name, UNITS)
        hint = f"did you mean '{close}'?" if close is not None else f"the units are {', '.join(UNITS)}"
        raise EvaluationError("invalid", f"there is no such unit; {hint}")


def add_days(value: datetime, count: int, zone: tzinfo) -> datetime:
    """The same local time in `zone`, `count` days later."""
    return _shift_local(value, count, zone, lambda local: local + timedelta(days=count))


def add_months(value: datetime, count: int, zone: tzinfo) -> datetime:
    """The same local time in `zone`, `count` months later; a day that the month lacks becomes its last day."""
    return _shift_local(value, count, zone, lambda local: months_later(local, count))


def _shift_local(value: datetime, count: int, zone: tzinfo, move: Callable[[datetime], datetime]) -> datetime:
    """Apply `move` to the local time of a moment; a shift by 0 returns the same moment."""
    # When clocks are set back, an hour of local time occurs twice. A conversion to local time and back would move a
    # moment of the second occurrence to the first one.
    if count == 0:
        return aware(value)
    return _in_calendar(lambda: _moment(move(_local(value, zone)), zone))


def start_of(value: datetime, unit: str, zone: tzinfo) -> datetime:
    """The beginning in `zone` of the unit, such as a month, that contains the time."""
    return _in_calendar(lambda: _moment(_first_local(value, unit, zone), zone))


def end_of(value: datetime, unit: str, zone: tzinfo) -> datetime:
    """The end in `zone` of the unit that contains the time, which is the beginning of the next unit."""

    def end() -> datetime:
        first = _first_local(value, unit, zone)
        if unit in _DAYS_OF_UNIT:
            following = first + timedelta(days=_DAYS_OF_UNIT[unit])
        else:
            following = months_later(first, _MONTHS_OF_UNIT[unit])
        moment = _moment(following, zone)
        # In a zone whose clocks go back at midnight, the next midnight occurs twice; the first one may be over.
        return moment if moment > value else _moment(following, zone, fold=1)

    return _in_calendar(end)


def _first_local(value: datetime, unit: str, zone: tzinfo) -> datetime:
    """The local time at which the unit that contains the time begins."""
    midnight = _local(value, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        return midnight
    if unit == "week":
        return midnight - timedelta(days=midnight.weekday())
    return midnight.replace(day=1, month=midnight.month - (midnight.month - 1) % _MONTHS_OF_UNIT[unit])


def _in_calendar(compute: Callable[[], datetime]) -> datetime:
    """Compute a moment; raise EvaluationError if it is not in the calendar of Python."""
    try:
        return compute()
    except (OverflowError, ValueError):
        raise EvaluationError("overflow", "the time is not within the years 1 to 9999") from None


def _local(value: datetime, zone: tzinfo) -> datetime:
    """The local time, without a zone."""
    return aware(value).astimezone(zone).replace(tzinfo=None, fold=0)


def _moment(local: datetime, zone: tzinfo, fold: int = 0) -> datetime:
    """The moment in UTC at which clocks show a local time.

    If clocks show it twice, this is the first moment, or with `fold=1` the second. If clocks skip it, this is the
    moment at which the gap ends.
    """
    moment = local.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    if _local(moment, zone) == local:
        return moment
    # Clocks skip the local time: `moment` is after the gap, and the moment with `fold=1` before it.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    offset = before.astimezone(zone).utcoffset()

    def is_after_gap(seconds: int) -> bool:
        return (before + timedelta(seconds=seconds)).astimezone(zone).utcoffset() != offset

    gap = range(int((moment - before).total_seconds()))
    return (before + timedelta(seconds=bisect_left(gap, True, key=is_after_gap))).replace(microsecond=0)
