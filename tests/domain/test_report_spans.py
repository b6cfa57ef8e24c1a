"""Covers of ranges by whole buckets: each moment within the range counts once, and no other moment counts.

A cover adds the buckets whose sign is 1 and subtracts the buckets whose sign is -1; the pieces at its ends are added.
"""

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


def count(range_cover, at):
    """How many times a moment counts."""
    count_in_spans = sum(span.sign for span in range_cover.spans if span.begin <= at < span.end)
    count_in_pieces = sum(1 for piece in range_cover.pieces if piece.begin <= at < piece.end)
    return count_in_spans + count_in_pieces


@pytest.mark.parametrize("levels", [TOTALS, WALLET_TOTALS], ids=["totals", "wallets"])
@given(st.tuples(moments, moments), st.lists(moments, max_size=3))
@example((FIRST, LAST), [])
@example((LAST - TICK, LAST), [])
def test_each_moment_counts_once_within_the_range(levels, ends, other_moments):
    begin, end = sorted(ends)
    range_cover = cover(begin, end, levels)
    edges = {at for span in range_cover.spans for at in (span.begin, span.end)} | {begin, end, *other_moments}
    probes = edges | {at - TICK for at in edges if at > FIRST}
    for at in probes:
        is_within_the_range = begin <= at < end
        assert count(range_cover, at) == (1 if is_within_the_range else 0), at
    for span in range_cover.spans:
        assert span.begin < span.end
        assert floor(span.begin, span.level) == span.begin
        assert floor(span.end, span.level) == span.end


def test_a_year_that_is_mostly_within_the_range_is_added_as_a_whole_and_its_first_days_are_subtracted():
    range_cover = cover(datetime(2026, 1, 6, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), WALLET_TOTALS)
    assert [(span.level, span.sign) for span in range_cover.spans] == [(YEAR, 1), (QUARTER_HOUR, -1)]


def test_the_cheaper_of_adding_and_subtracting_is_chosen():
    range_cover = cover(datetime(2026, 1, 26, tzinfo=UTC), datetime(2026, 8, 1, tzinfo=UTC), WALLET_TOTALS)
    levels_months_and_signs = {(span.level, span.begin.month, span.sign) for span in range_cover.spans}
    # The first two quarters less January, its last days, and July: fewer rows than the year less what is not covered.
    assert levels_months_and_signs == {(QUARTER, 1, 1), (MONTH, 1, -1), (QUARTER_HOUR, 1, 1), (MONTH, 7, 1)}


def spans(begin, end, levels):
    """(level, sign, day of the month of the begin, day of the month of the end) of each span."""
    range_cover = cover(datetime(*begin, tzinfo=UTC), datetime(*end, tzinfo=UTC), levels)
    return [(span.level, span.sign, span.begin.day, span.end.day) for span in range_cover.spans]


@pytest.mark.parametrize(
    ("end", "expected_spans"),
    [
        # 16 days are as many rows as a month and 15 subtracted days; 17 are more rows than a month and 14 days.
        ((2026, 1, 17), [(DAY, 1, 1, 17)]),
        ((2026, 1, 18), [(MONTH, 1, 1, 1), (DAY, -1, 18, 1)]),
        ((2026, 2, 1), [(MONTH, 1, 1, 1)]),
        ((2026, 2, 3), [(MONTH, 1, 1, 1), (DAY, 1, 1, 3)]),
    ],
)
def test_a_month_is_read_if_it_has_fewer_rows_than_its_days(end, expected_spans):
    assert spans((2026, 1, 1), end, TOTALS) == expected_spans


@pytest.mark.parametrize(
    ("last_day", "expected_spans"),
    [
        # A month weighs as much as 7 days of quarters of an hour, also the last month of a year.
        (19, [(QUARTER_HOUR, 1, 1, 19)]),
        (21, [(MONTH, 1, 1, 1), (QUARTER_HOUR, -1, 21, 1)]),
    ],
)
def test_quarters_of_an_hour_count_by_their_weight(last_day, expected_spans):
    assert spans((2025, 12, 1), (2025, 12, last_day), WALLET_TOTALS) == expected_spans


@pytest.mark.parametrize(("weight", "level"), [(95, DAY), (97, QUARTER_HOUR)])
def test_a_day_is_read_as_one_bucket_if_that_weighs_less_than_its_96_quarters(weight, level):
    assert spans((2026, 1, 1), (2026, 1, 2), levels={DAY: weight, QUARTER_HOUR: 1.0}) == [(level, 1, 1, 2)]


def test_a_range_within_a_quarter_of_an_hour_is_one_piece_and_an_empty_range_has_none():
    at = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)
    assert cover(at, at + TICK, TOTALS).pieces == (Piece(at, at + TICK),)
    assert cover(at, at, TOTALS).pieces == ()
