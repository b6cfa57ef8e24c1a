"""How a range of time is covered by totals of whole buckets: few great ones, and the smaller ones at its ends.

Where most of a great bucket lies within the range, the bucket is added as a whole and the rest of it subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

# All offsets of time zones since 1972 are whole quarters of an hour, so days of every zone are made of them.
QUARTER_HOUR, DAY, MONTH, QUARTER, YEAR = range(5)

# What totals are kept of, the longest first.
TOTALS = (MONTH, DAY, QUARTER_HOUR)
WALLET_TOTALS = (YEAR, QUARTER, MONTH, QUARTER_HOUR)

_MINUTES = timedelta(minutes=15)
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
    """A part of a range that no bucket covers: its records are read themselves."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Cover:
    """What makes up [begin, end): whole buckets, and pieces that are shorter than any."""

    begin: datetime
    end: datetime
    spans: tuple[Span, ...]
    pieces: tuple[Piece, ...]


def cover(begin: datetime, end: datetime, levels: Sequence[int]) -> Cover:
    """Cover a range with buckets of these levels, the longest first; the last is the quarter of an hour."""
    spans: list[Span] = []
    pieces: list[Piece] = []
    first, last = ceiling(begin, QUARTER_HOUR), floor(end, QUARTER_HOUR)
    if first is None or first > last:
        pieces = [Piece(begin, end)] if begin < end else []
    else:
        pieces = [Piece(a, b) for a, b in ((begin, first), (last, end)) if a < b]
        _cover(first, last, levels, 1, spans)
    return Cover(begin, end, tuple(spans), tuple(pieces))


def floor(at: datetime, level: int) -> datetime:
    """The beginning of the bucket that holds a moment."""
    if level == QUARTER_HOUR:
        return at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if level == DAY:
        return day
    length = _MONTHS[level]
    return day.replace(month=(day.month - 1) // length * length + 1, day=1)


def ceiling(at: datetime, level: int) -> datetime | None:
    """The first beginning of a bucket at a moment or after it; None beyond the end of the calendar."""
    found = floor(at, level)
    if found == at:
        return found
    try:
        if level == QUARTER_HOUR:
            return found + _MINUTES
        if level == DAY:
            return found + timedelta(days=1)
        months = found.month - 1 + _MONTHS[level]
        return datetime(found.year + months // 12, months % 12 + 1, 1, tzinfo=UTC)
    except (OverflowError, ValueError):
        return None


def _cover(begin: datetime, end: datetime, levels: Sequence[int], sign: int, spans: list[Span]) -> None:
    """Cover a range of whole quarters of an hour."""
    if begin >= end:
        return
    level, finer = levels[0], levels[1:]
    if not finer:
        spans.append(Span(level, begin, end, sign))
        return
    # As far as whole buckets reach, or reach beyond: whatever is nearer.
    first, last = _nearer(begin, level), _nearer(end, level)
    if first >= last:
        _cover(begin, end, finer, sign, spans)
        return
    spans.append(Span(level, first, last, sign))
    _cover(begin, first, finer, sign, spans)
    _cover(first, begin, finer, -sign, spans)
    _cover(last, end, finer, sign, spans)
    _cover(end, last, finer, -sign, spans)


def _nearer(at: datetime, level: int) -> datetime:
    before, after = floor(at, level), ceiling(at, level)
    return before if after is None or at - before < after - at else after
