"""Reports: their ranges of time, how stored totals cover them, and series without gaps.

A large bucket that only overlaps a range is added as a whole, and its part outside the range is subtracted, if fewer
rows are read that way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from domain.calendar import is_zone, local_time, not_a_zone, start_of_day, zone_named
from domain.problems import FieldFault, InvalidRequest

# All offsets of time zones since 1972 are whole quarters of an hour, so days of every zone consist of quarters.
# They are the levels of buckets.
QUARTER_HOUR, DAY, MONTH, QUARTER, YEAR = range(5)

# The lengths of the buckets of stored totals, longest first, each with the relative number of rows of a bucket. A
# wallet has one row in each long bucket. With four mints a month, hardly two fall into the same quarter of an hour, so
# that all quarters of an hour in a week have as many rows as a month.
TOTALS = {MONTH: 1.0, DAY: 1.0, QUARTER_HOUR: 1.0}
WALLET_TOTALS = {YEAR: 1.0, QUARTER: 1.0, MONTH: 1.0, QUARTER_HOUR: 1 / (7 * 96)}

_QUARTER_HOUR_LENGTH = timedelta(minutes=15)
_MONTHS = {MONTH: 1, QUARTER: 3, YEAR: 12}


@dataclass(frozen=True, slots=True)
class Span:
    """The buckets of a level that begin in [begin, end), added or, with `sign` -1, subtracted."""

    level: int
    begin: datetime
    end: datetime
    sign: int = 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a range that no bucket covers: its records are read one by one."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Cover:
    """The parts of [begin, end): whole buckets, and pieces that are shorter than any bucket."""

    begin: datetime
    end: datetime
    spans: tuple[Span, ...]
    pieces: tuple[Piece, ...]


def cover(begin: datetime, end: datetime, levels: Mapping[int, float]) -> Cover:
    """Cover a range with buckets, so that few rows are read; the ends that no bucket covers are pieces.

    `levels` are the allowed lengths of buckets, longest first, each with the relative number of rows of one bucket. The
    last level is `QUARTER_HOUR`.
    """
    first, last = ceiling(begin, QUARTER_HOUR), floor(end, QUARTER_HOUR)
    if first is None or first > last:
        return Cover(begin, end, spans=(), pieces=(Piece(begin, end),) if begin < end else ())
    ends = Piece(begin, first), Piece(last, end)
    pieces = tuple(piece for piece in ends if piece.begin < piece.end)
    return Cover(begin, end, _cheapest_cover(first, last, tuple(levels.items())).spans, pieces)


def floor(at: datetime, level: int) -> datetime:
    """The beginning of the bucket of size `level` that contains a moment."""
    if level == QUARTER_HOUR:
        return at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if level == DAY:
        return day
    length = _MONTHS[level]
    return day.replace(month=(day.month - 1) // length * length + 1, day=1)


def ceiling(at: datetime, level: int) -> datetime | None:
    """The first beginning of a bucket of size `level` at or after a moment; None beyond the end of the calendar."""
    begin = floor(at, level)
    if begin == at:
        return begin
    try:
        if level == QUARTER_HOUR:
            return begin + _QUARTER_HOUR_LENGTH
        if level == DAY:
            return begin + timedelta(days=1)
        months = begin.month - 1 + _MONTHS[level]
        return datetime(begin.year + months // 12, months % 12 + 1, 1, tzinfo=UTC)
    except (OverflowError, ValueError):
        return None


class _SpansWithCost(NamedTuple):
    """Spans, and the number of rows to be read for them."""

    rows: float = 0.0
    spans: tuple[Span, ...] = ()

    def negate_spans(self) -> _SpansWithCost:
        """The same spans with the opposite sign: subtracted instead of added."""
        return _SpansWithCost(self.rows, tuple(replace(span, sign=-span.sign) for span in self.spans))


@lru_cache(maxsize=1000)
def _cheapest_cover(begin: datetime, end: datetime, levels: tuple[tuple[int, float], ...]) -> _SpansWithCost:
    """The cheapest cover of a range of whole quarters of an hour."""
    if begin >= end:
        return _SpansWithCost()
    (level, weight), finer_levels = levels[0], levels[1:]
    if not finer_levels:
        return _SpansWithCost(_buckets(begin, end, level) * weight, (Span(level, begin, end),))
    # Either no buckets of this level, or buckets between `begin` and `end`, each of them rounded down or up.
    best = _cheapest_cover(begin, end, finer_levels)
    ends = ((floor(begin, level), ceiling(begin, level)), (floor(end, level), ceiling(end, level)))
    for first, last in product(*ends):
        if first is not None and last is not None and first < last:
            at_begin = _spans_between(first, begin, finer_levels)
            at_end = _spans_between(last, end, finer_levels).negate_spans()
            rows = _buckets(first, last, level) * weight + at_begin.rows + at_end.rows
            if rows < best.rows:
                best = _SpansWithCost(rows, (Span(level, first, last), *at_begin.spans, *at_end.spans))
    return best


def _spans_between(bucket_begin: datetime, at: datetime, finer_levels: tuple[tuple[int, float], ...]) -> _SpansWithCost:
    """The spans between `at`, where a range begins, and the start of the first bucket that is used for it.

    If the range begins before this bucket, the spans are to be added to the buckets. If it begins inside the bucket,
    the spans are to be subtracted.
    """
    if at <= bucket_begin:
        return _cheapest_cover(at, bucket_begin, finer_levels)
    return _cheapest_cover(bucket_begin, at, finer_levels).negate_spans()


def _buckets(begin: datetime, end: datetime, level: int) -> int:
    """The number of buckets of this level from `begin` to `end`, which are both boundaries of buckets."""
    if level in _MONTHS:
        return ((end.year - begin.year) * 12 + end.month - begin.month) // _MONTHS[level]
    return (end - begin) // (_QUARTER_HOUR_LENGTH if level == QUARTER_HOUR else timedelta(days=1))


DEFAULT_DAYS = 30
MAX_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class ReportRange:
    """From `begin` (inclusive) to `end` (exclusive), both in UTC; days begin at midnight in `zone`."""

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

    Days begin at midnight in the zone `tz`, or else in `default`. Raises InvalidRequest if the range ends before it
    begins, or for an unknown time zone.
    """
    zone = zone_of(tz, default)
    if since_from is not None and since_to is not None and since_to < since_from:
        fault = "sinceTo is before sinceFrom"
        raise InvalidRequest([FieldFault(fault, parameter="sinceTo")])
    if since_to is None:
        tomorrow = start_of_day(local_time(now, zone).date() + timedelta(days=1), zone)
        # A range that begins after today is empty.
        since_to = tomorrow if since_from is None else max(tomorrow, since_from)
    if since_from is None:
        since_from = _default_begin(since_to, zone)
    return ReportRange(since_from, since_to, zone)


def days_of(report_range: ReportRange) -> list[Day]:
    """The days of a range, in order; raises InvalidRequest for a range that is longer than `MAX_DAYS` whole days."""
    if (report_range.end - report_range.begin).days > MAX_DAYS:
        fault = f"sinceFrom is {MAX_DAYS + 1:,} days or more before sinceTo; request a shorter range"
        raise InvalidRequest([FieldFault(fault, parameter="sinceFrom")])
    days: list[Day] = []
    begin = report_range.begin
    day = local_time(begin, report_range.zone).date()
    while begin < report_range.end:
        # A day that the zone skipped when it crossed the date line has no time at all.
        next_begin = _start_of_next_day(day, report_range.zone)
        if next_begin is None or next_begin > begin:
            end = report_range.end if next_begin is None else min(next_begin, report_range.end)
            days.append(Day(day, begin, end))
            begin = end
        if day == date.max:
            break
        day += timedelta(days=1)
    return days


def _default_begin(end: datetime, zone: tzinfo) -> datetime:
    """The default begin of a range: the range then has `DEFAULT_DAYS` days, and the last one may be incomplete."""
    try:
        last_day = local_time(end - timedelta(microseconds=1), zone).date()
        return start_of_day(last_day - timedelta(days=DEFAULT_DAYS - 1), zone)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _start_of_next_day(day: date, zone: tzinfo) -> datetime | None:
    """The beginning of the following day; None at the end of the calendar."""
    try:
        return start_of_day(day + timedelta(days=1), zone)
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class DailySeries:
    """Named figures of consecutive days; `rows` has a figure of each name for every day."""

    title: str
    names: tuple[str, ...]
    days: Sequence[date]
    rows: Sequence[tuple[Decimal, ...]]
