"""Covers of ranges by whole buckets: each moment counts once within the range, and not at all beyond it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.reports import DAY, MONTH, QUARTER, QUARTER_HOUR, TOTALS, WALLET_TOTALS, YEAR, Piece, cover, floor

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
TICK = timedelta(microseconds=1)

moments = st.one_of(
    st.datetimes(timezones=st.just(UTC)),
    st.datetimes(datetime(2023, 11, 1), datetime(2026, 3, 1), timezones=st.just(UTC)),
    st.datetimes(datetime(2023, 11, 1), datetime(2026, 3, 1), timezones=st.just(UTC)).map(lambda at: floor(at, MONTH)),
    st.datetimes(datetime(2025, 2, 27), datetime(2025, 3, 2), timezones=st.just(UTC)),
)


def count(made_of, at):
    """How often a moment counts."""
    spans = sum(span.sign for span in made_of.spans if span.begin <= at < span.end)
    return spans + sum(piece.begin <= at < piece.end for piece in made_of.pieces)


@pytest.mark.parametrize("levels", [TOTALS, WALLET_TOTALS], ids=["totals", "wallets"])
@given(st.tuples(moments, moments), st.lists(moments, max_size=3))
@example((FIRST, LAST), [])
@example((LAST - TICK, LAST), [])
def test_each_moment_counts_once_within_the_range(levels, ends, others):
    begin, end = sorted(ends)
    made_of = cover(begin, end, levels)
    edges = {at for span in made_of.spans for at in (span.begin, span.end)} | {begin, end, *others}
    probes = edges | {at - TICK for at in edges if at > FIRST}
    for at in probes:
        assert count(made_of, at) == (begin <= at < end), at
    for span in made_of.spans:
        assert span.begin < span.end
        assert (floor(span.begin, span.level), floor(span.end, span.level)) == (span.begin, span.end)


def test_a_bucket_that_is_mostly_within_is_added_as_a_whole():
    made_of = cover(datetime(2026, 1, 6, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), WALLET_TOTALS)
    assert [(span.level, span.sign) for span in made_of.spans] == [(YEAR, 1), (QUARTER_HOUR, -1)]


def test_the_cheaper_of_adding_and_subtracting_is_chosen():
    made_of = cover(datetime(2026, 1, 26, tzinfo=UTC), datetime(2026, 8, 1, tzinfo=UTC), WALLET_TOTALS)
    rows = {(span.level, span.begin.month, span.sign) for span in made_of.spans}
    # Both quarters but for January, of which the last days are added: not the whole year but for what follows.
    assert rows == {(QUARTER, 1, 1), (MONTH, 1, -1), (QUARTER_HOUR, 1, 1), (MONTH, 7, 1)}


def spans(begin, end, levels):
    """The level, sign and days of the month of each span."""
    made_of = cover(datetime(*begin, tzinfo=UTC), datetime(*end, tzinfo=UTC), levels)
    return [(span.level, span.sign, span.begin.day, span.end.day) for span in made_of.spans]


@pytest.mark.parametrize(
    ("end", "expected_spans"),
    [
        # 16 days are as many rows as a month less 15 days, and 17 are more than a month less 14.
        ((2026, 1, 17), [(DAY, 1, 1, 17)]),
        ((2026, 1, 18), [(MONTH, 1, 1, 1), (DAY, -1, 18, 1)]),
        ((2026, 2, 1), [(MONTH, 1, 1, 1)]),
        ((2026, 2, 3), [(MONTH, 1, 1, 1), (DAY, 1, 1, 3)]),
    ],
)
def test_a_month_is_read_where_that_takes_fewer_rows_than_its_days(end, expected_spans):
    assert spans((2026, 1, 1), end, TOTALS) == expected_spans


@pytest.mark.parametrize(
    ("day", "expected_spans"),
    [
        # A month has as many rows of wallets as 7 days of quarters of an hour, also the last one of a year.
        (19, [(QUARTER_HOUR, 1, 1, 19)]),
        (21, [(MONTH, 1, 1, 1), (QUARTER_HOUR, -1, 21, 1)]),
    ],
)
def test_quarters_of_an_hour_count_by_their_weight(day, expected_spans):
    assert spans((2025, 12, 1), (2025, 12, day), WALLET_TOTALS) == expected_spans


@pytest.mark.parametrize(("weight", "level"), [(95, DAY), (97, QUARTER_HOUR)])
def test_a_day_is_read_as_one_bucket_if_that_weighs_less_than_its_96_quarters(weight, level):
    assert spans((2026, 1, 1), (2026, 1, 2), {DAY: weight, QUARTER_HOUR: 1.0}) == [(level, 1, 1, 2)]


def test_a_range_within_a_quarter_of_an_hour_is_one_piece_and_an_empty_one_has_none():
    at = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)
    assert cover(at, at + TICK, TOTALS).pieces == (Piece(at, at + TICK),)
    assert cover(at, at, TOTALS).pieces == ()
