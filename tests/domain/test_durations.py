"""Durations in the notation of ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from domain.durations import Duration, duration_of, end_of_validity
from domain.problems import InvalidRequest

MADRID = ZoneInfo("Europe/Madrid")


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("P14D", Duration(months=0, days=14, seconds=0)),
        ("P2W", Duration(months=0, days=2 * 7, seconds=0)),
        ("P1M", Duration(months=1, days=0, seconds=0)),
        ("P1Y2M3W4DT5H6M7S", Duration(months=12 + 2, days=3 * 7 + 4, seconds=5 * 3600 + 6 * 60 + 7)),
        ("PT48H", Duration(months=0, days=0, seconds=48 * 3600)),
        ("PT1M", Duration(months=0, days=0, seconds=60)),
        ("P0D", Duration(months=0, days=0, seconds=0)),
    ],
)
def test_a_duration_has_calendar_units_and_exact_ones(text, duration):
    assert duration_of(text) == duration


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P-1D", "P1.5D", "PT1D", "P1H", "P1D2M", "p1d", "P1D "])
def test_malformed_texts_are_no_durations(text):
    with pytest.raises(ValueError, match="is not a duration"):
        duration_of(text)


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        # Clocks go forward on 29 March: 14 days are an hour less than 336 hours.
        ("P14D", "2026-03-20T09:00:00Z", "2026-04-03T08:00:00Z"),
        ("PT336H", "2026-03-20T09:00:00Z", "2026-04-03T09:00:00Z"),
        # From 31 August to the last day of February, at midnight.
        ("P6M", "2025-08-30T22:00:00Z", "2026-02-27T23:00:00Z"),
        ("P1MT1H", "2026-01-31T12:00:00Z", "2026-02-28T13:00:00Z"),
        # 02:30 occurs twice on 25 October: these begin at the second one.
        ("PT30M", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"),
        ("P0DT1H", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"),
        ("P1D", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
        ("P1M", "2026-10-25T01:30:00Z", "2026-11-25T01:30:00Z"),
    ],
)
def test_days_and_months_are_those_of_the_zone_and_hours_are_exact(text, begin, end):
    assert duration_of(text).after(datetime.fromisoformat(begin), MADRID) == datetime.fromisoformat(end)


@pytest.mark.parametrize(
    ("text", "days", "seconds"),
    [
        ("P1D", 1 + 2, 0),
        ("P5D", 5 + 2, 0),
        ("P2M", 2 * 31 + 2, 0),
        ("P1M3DT1H", 31 + 3 + 2, 3600),
        ("PT5S", 2, 5),
    ],
)
def test_the_maximum_length_counts_31_days_for_a_month_and_two_days_for_the_clocks_of_a_zone(text, days, seconds):
    assert duration_of(text).upper_bound == timedelta(days=days, seconds=seconds)


def test_a_duration_that_leads_beyond_the_calendar_ends_at_the_last_moment():
    last_moment = datetime.max.replace(tzinfo=UTC)
    last_hour = datetime(9999, 12, 31, 23, tzinfo=UTC)
    for text in ("P9999Y", "P99999DT999999H", "PT999999H"):
        assert duration_of(text).after(last_hour, UTC) == last_moment


# Clocks in Madrid go forward in the night after this noon.
BEFORE_SUMMER_TIME = datetime(2026, 3, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("valid_for", "length"),
    [
        ("PT1S", timedelta(seconds=1)),
        ("PT30M", timedelta(minutes=30)),
        ("P7D", timedelta(days=7, hours=-1)),
        ("PT168H", timedelta(days=7)),
    ],
)
def test_a_validity_ends_after_its_duration(valid_for, length):
    end = end_of_validity(valid_for, BEFORE_SUMMER_TIME, MADRID, maximum="P7D")
    assert end == BEFORE_SUMMER_TIME + length


def test_a_validity_of_hours_is_exact_while_clocks_go_back():
    begin = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert end_of_validity("PT30M", begin, MADRID, maximum="P7D") == begin + timedelta(minutes=30)
    assert end_of_validity("PT24H", begin, MADRID, maximum="PT24H") == begin + timedelta(hours=24)
    with pytest.raises(InvalidRequest):
        end_of_validity("PT24H1S", begin, MADRID, maximum="PT24H")


@pytest.mark.parametrize(
    ("valid_for", "detail"),
    [
        ("PT0S", "validFor is PT0S, which is not longer than 0"),
        ("PT168H1S", "validFor is PT168H1S, which is longer than P7D"),
        ("P8D", "validFor is P8D, which is longer than P7D"),
        ("P1M", "validFor is P1M, which is longer than P7D"),
        ("PT-1H", "validFor PT-1H is not a duration such as P14D, P1M or PT36H"),
        ("soon", "validFor soon is not a duration such as P14D, P1M or PT36H"),
    ],
)
def test_an_invalid_validity_is_refused(valid_for, detail):
    with pytest.raises(InvalidRequest) as refusal:
        end_of_validity(valid_for, BEFORE_SUMMER_TIME, MADRID, maximum="P7D")
    assert [(fault.pointer, fault.detail) for fault in refusal.value.faults] == [("/validFor", f"{detail}.")]
