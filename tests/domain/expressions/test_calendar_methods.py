"""Calendar methods of timestamps: days, months and years later, the start and the end of a unit."""

from bisect import bisect_left
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.expressions import STRING, TIMESTAMP, Budget, EvaluationError, compile_expression, from_tree, to_tree
from domain.expressions.calendar_units import UNITS
from domain.expressions.environment import Environment
from domain.expressions.labels import label
from domain.expressions.parse import parse
from domain.expressions.program import to_text
from tests.domain.expressions.expression_cases import ENVIRONMENT, failure, faults, run

MADRID = ZoneInfo("Europe/Madrid")
ZONES = (
    "UTC", "Europe/Madrid", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Atlantic/Canary", "Atlantic/Azores",
    "America/New_York", "America/Los_Angeles", "America/Sao_Paulo", "America/Buenos_Aires", "America/Caracas",
    "America/Havana", "America/Santiago", "America/Bogota", "America/Mexico_City", "Asia/Tehran", "Asia/Kolkata",
    "Asia/Kathmandu", "Asia/Tokyo", "Asia/Amman", "Asia/Gaza", "Africa/Casablanca", "Africa/Cairo", "Australia/Sydney",
    "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia", "Pacific/Kwajalein", "Antarctica/Troll",
)  # fmt: skip


def in_madrid(text):
    """The value of an expression in the zone of Madrid, as text."""
    budget = Budget()
    budget.zone = MADRID
    return run(f"string({text})", budget)


@pytest.mark.parametrize(
    # Madrid is 1 hour ahead of UTC, and 2 hours in summer. The count is 3, and payload.n is 7.
    ("text", "value"),
    [
        ("timestamp('2026-02-10T12:00:00Z').endOf('quarter')", "2026-03-31T22:00:00Z"),
        ("timestamp('2026-02-10T12:00:00Z').endOf('quarter', 'UTC')", "2026-04-01T00:00:00Z"),
        ("timestamp('2027-05-01T00:00:00Z').endOf('year')", "2027-12-31T23:00:00Z"),
        ("timestamp('2025-08-30T22:00:00Z').addMonths(6)", "2026-02-27T23:00:00Z"),
        ("timestamp('2026-03-20T09:00:00Z').addDays(14)", "2026-04-03T08:00:00Z"),
        ("timestamp('2026-03-20T09:00:00Z') + duration('336h')", "2026-04-03T09:00:00Z"),
        ("timestamp('2026-03-28T01:30:00Z').addDays(1)", "2026-03-29T01:00:00Z"),
        ("timestamp('2026-03-28T01:30:00.25Z').addDays(1)", "2026-03-29T01:00:00Z"),
        ("timestamp('2026-03-30T00:30:00Z').addDays(-1)", "2026-03-29T01:00:00Z"),
        # 02:30 comes twice on 25 October: the first one is taken, except that 0 days keep the second one.
        ("timestamp('2026-10-24T00:30:00Z').addDays(1)", "2026-10-25T00:30:00Z"),
        ("timestamp('2026-10-25T01:30:00Z').addDays(0)", "2026-10-25T01:30:00Z"),
        ("timestamp('2026-10-25T01:30:00Z').addDays(1).addDays(-1)", "2026-10-25T00:30:00Z"),
        ("timestamp('2026-01-31T12:00:00Z').addMonths(1).addMonths(1)", "2026-03-28T12:00:00Z"),
        ("timestamp('2026-01-31T12:00:00Z').addMonths(2)", "2026-03-31T11:00:00Z"),
        ("timestamp('2024-02-29T12:00:00Z').addYears(1)", "2025-02-28T12:00:00Z"),
        ("timestamp('2024-02-29T12:00:00Z').addYears(-4)", "2020-02-29T12:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').startOf('day')", "2026-06-09T22:00:00Z"),
        ("timestamp('2026-06-14T21:59:59Z').startOf('week')", "2026-06-07T22:00:00Z"),
        ("timestamp('2026-06-14T22:00:00Z').startOf('week')", "2026-06-14T22:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').startOf('month')", "2026-05-31T22:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').startOf('half-year')", "2025-12-31T23:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').endOf('half-year')", "2026-06-30T22:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').endOf('day', '-03:00')", "2026-06-11T03:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').startOf('year', 'Asia/Tokyo')", "2025-12-31T15:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').addDays(count)", "2026-06-13T12:00:00Z"),
        ("timestamp('2026-06-10T12:00:00Z').addDays(payload.n)", "2026-06-17T12:00:00Z"),
    ],
)
def test_calendar_methods_use_the_zone_of_madrid(text, value):
    assert in_madrid(text) == value


def test_a_day_that_a_zone_skips_begins_and_ends_at_the_same_moment():
    # Samoa had no 30 December 2011. Its 29 December was 10 hours behind UTC, and its 31 December 14 hours ahead.
    assert run("string(timestamp('2011-12-29T20:00:00Z').endOf('day', 'Pacific/Apia'))") == "2011-12-30T10:00:00Z"
    assert run("string(timestamp('2011-12-29T22:00:00Z').addDays(1, 'Pacific/Apia'))") == "2011-12-30T10:00:00Z"


def test_a_day_whose_midnight_comes_twice_ends_at_the_first_midnight_after_the_moment():
    # At 00:01 on 28 October 1990 clocks went back to 23:01 of the day before.
    zone = "America/St_Johns"
    assert run(f"string(timestamp('1990-10-28T02:00:00Z').endOf('day', '{zone}'))") == "1990-10-28T02:30:00Z"
    assert run(f"string(timestamp('1990-10-28T03:00:00Z').endOf('day', '{zone}'))") == "1990-10-28T03:30:00Z"


@pytest.mark.parametrize(
    ("text", "expected_faults"),
    [
        ("now.endOf('quater')", [("'quater'", "there is no such unit; did you mean 'quarter'?")]),
        (
            "now.startOf('hour', 'Mars/Olympus')",
            [
                ("'hour'", "there is no such unit; the units are day, week, month, quarter, half-year, year"),
                ("'Mars/Olympus'", 'the text is not a time zone such as "Europe/Madrid" or "-03:00"'),
            ],
        ),
        ("now.addDays(36601)", [("36601", "36601 is not between -36600 and 36600")]),
        ("now.addDays(-36601, 'UTC')", [("-36601", "-36601 is not between -36600 and 36600")]),
        ("now.addMonths(1201)", [("1201", "1201 is not between -1200 and 1200")]),
        ("now.addYears(-1201)", [("-1201", "-1201 is not between -1200 and 1200")]),
        ("now.addDays(36600).addDays(-36600).addYears(1200) > now", []),
        ("now.addDay(1)", [("now.addDay(1)", "unknown method 'addDay'; did you mean 'addDays'?")]),
        (
            "now.addDays(1.5)",
            [
                (
                    "now.addDays(1.5)",
                    "addDays() takes (timestamp, int) or (timestamp, int, string) (the value before the dot comes"
                    " first), not (timestamp, decimal)",
                )
            ],
        ),
    ],
)
def test_faults_are_found_when_the_expression_is_saved(text, expected_faults):
    assert faults(text) == expected_faults


@pytest.mark.parametrize(
    # The count is 3; of the payload, s is "text", d is 2.5, and none is null.
    ("text", "code"),
    [
        ("now.addDays(count + 36600)", "invalid"),
        ("now.addMonths(count + 1200)", "invalid"),
        ("now.addYears(-count - 1200)", "invalid"),
        ("now.endOf(payload.s)", "invalid"),
        ("now.endOf('day', payload.s)", "invalid"),
        ("now.addDays(payload.d)", "type"),
        ("now.addDays(payload.none)", "null"),
        ("dyn(null).startOf('day')", "null"),
        ("timestamp('9999-12-31T12:00:00Z').addDays(1)", "overflow"),
        ("timestamp('9999-06-01T00:00:00Z').endOf('year')", "overflow"),
        ("timestamp('9999-12-31T12:00:00Z').addMonths(1)", "overflow"),
        ("timestamp('1000-01-01T00:00:00Z').addYears(-1000)", "overflow"),
        ("timestamp('0001-01-01T00:00:00Z').startOf('day', 'America/New_York')", "overflow"),
        ("timestamp('0001-01-01T00:00:00Z').startOf('year', 'Asia/Tokyo')", "overflow"),
    ],
)
def test_a_computed_argument_or_result_out_of_range_fails_the_evaluation(text, code):
    error = failure(text)
    assert error.code == code
    assert (error.start, error.end) == (0, len(text))


def test_periods_may_begin_on_the_first_and_end_on_the_last_day_of_the_calendar():
    # 1 January of the year 1 was a Monday.
    assert run("string(timestamp('0001-01-03T10:00:00Z').startOf('week'))") == "0001-01-01T00:00:00Z"
    assert run("string(timestamp('9999-12-30T10:00:00Z').endOf('day'))") == "9999-12-31T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("now.endOf('quarter')", "the end of the quarter of the current time"),
        ("now.startOf('day', 'UTC')", 'the start of the day of the current time in "UTC"'),
        ("now.startOf(payload.s)", "the start of the payload s of the current time"),
        ("now.addDays(14) > now", "14 days after the current time is after the current time"),
        ("now.addMonths(-1, 'UTC')", '-1 months after the current time in "UTC"'),
        ("now.addYears(1).endOf('year')", "the end of the year of 1 years after the current time"),
    ],
)
def test_calendar_methods_have_labels(text, words):
    assert label(parse(text), ENVIRONMENT) == words


@pytest.mark.parametrize("text", ['now.addDays(-3, "UTC").endOf("half-year")', "now.startOf(payload.s).addYears(1)"])
def test_calendar_methods_survive_annotated_trees(text):
    program = compile_expression(parse(text), ENVIRONMENT)
    tree = to_tree(parse(text), annotate=False)
    assert to_text(from_tree(tree)) == text
    assert program.type == TIMESTAMP
    assert to_tree(program.analysis.node, annotate=program.analysis)["type"] == "timestamp"


def test_a_call_costs_one_unit_more_than_its_arguments():
    """The variable `now` and each constant cost one unit."""
    budget = Budget(100)
    run("now.endOf('quarter')", budget)
    assert budget.remaining == 100 - (2 + 1)
    run("now.addDays(1, 'UTC')", budget)
    assert budget.remaining == 100 - (2 + 1) - (3 + 1)


# The second implementation looks for the first moment whose local time is not before the requested one.


def local_time(moment, zone):
    """The local time of a moment, without its zone."""
    return moment.astimezone(zone).replace(tzinfo=None)


def moments_of(local, zone):
    """The moments with this local time; if clocks skip it, the first moment after the gap."""
    around = datetime(local.year, local.month, local.day, tzinfo=UTC)
    offsets = {(around + timedelta(hours=hours)).astimezone(zone).utcoffset() for hours in range(-50, 75)}
    possible = sorted((local - offset).replace(tzinfo=UTC) for offset in offsets)
    moments = [moment for moment in possible if local_time(moment, zone) == local]
    if moments:
        return moments
    begin, span = around - timedelta(hours=50), range(125 * 3600)
    seconds = bisect_left(span, local, key=lambda s: local_time(begin + timedelta(seconds=s), zone))
    return [begin + timedelta(seconds=seconds)]


def first_of_unit(local, unit):
    """The local time at which the unit begins, found by going back day by day."""
    begins = {
        "day": lambda day: True,
        "week": lambda day: day.weekday() == 0,
        "month": lambda day: day.day == 1,
        "quarter": lambda day: day.day == 1 and day.month in (1, 4, 7, 10),
        "half-year": lambda day: day.day == 1 and day.month in (1, 7),
        "year": lambda day: (day.month, day.day) == (1, 1),
    }[unit]
    day = datetime(local.year, local.month, local.day)
    while not begins(day):
        day -= timedelta(days=1)
    return day


def next_unit(first_day, unit):
    """The local time at which the next unit begins: that of the unit of a day which is within the next one."""
    days = {"day": 1, "week": 7, "month": 40, "quarter": 100, "half-year": 200, "year": 400}[unit]
    return first_of_unit(first_day + timedelta(days=days), unit)


ENVIRONMENT_OF_TIMES = Environment({"t": TIMESTAMP, "unit": STRING, "zone": STRING})
START, END = (
    compile_expression(parse(f"t.{method}(unit, zone)"), ENVIRONMENT_OF_TIMES) for method in ("startOf", "endOf")
)
ADD_METHODS = {
    name: compile_expression(parse(f"t.{name}(int(unit), zone)"), ENVIRONMENT_OF_TIMES)
    for name in ("addDays", "addMonths", "addYears")
}
TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2100, 12, 1), timezones=st.just(UTC))


@given(TIMES, st.sampled_from(ZONES), st.sampled_from(UNITS))
def test_units_agree_with_a_second_implementation(t, zone, unit):
    start, end = (program.run({"t": t, "unit": unit, "zone": zone}) for program in (START, END))
    first_day = first_of_unit(local_time(t, ZoneInfo(zone)), unit)
    assert start == moments_of(first_day, ZoneInfo(zone))[0]
    possible_ends = moments_of(next_unit(first_day, unit), ZoneInfo(zone))
    assert end == min(moment for moment in possible_ends if moment > t)
    assert start <= t < end


@given(TIMES, st.sampled_from(ZONES), st.sampled_from(UNITS))
def test_the_start_of_a_start_and_of_an_end_is_itself(t, zone, unit):
    start, end = (program.run({"t": t, "unit": unit, "zone": zone}) for program in (START, END))
    assert START.run({"t": start, "unit": unit, "zone": zone}) == start
    assert START.run({"t": end, "unit": unit, "zone": zone}) == end
    assert END.run({"t": start, "unit": unit, "zone": zone}) == end
    assert END.run({"t": end - timedelta(microseconds=1), "unit": unit, "zone": zone}) == end


@given(TIMES, st.sampled_from(ZONES), st.sampled_from(sorted(ADD_METHODS)), st.integers(-1200, 1200))
def test_sums_agree_with_a_second_implementation(t, zone, name, count):
    local = local_time(t, ZoneInfo(zone))
    if name == "addDays":
        local_sum = local + timedelta(days=count)
    else:
        months = local.year * 12 + local.month - 1 + count * (12 if name == "addYears" else 1)
        if not 12 <= months < 9999 * 12:
            with pytest.raises(EvaluationError):
                ADD_METHODS[name].run({"t": t, "unit": str(count), "zone": zone})
            return
        year, month = months // 12, months % 12 + 1
        _, last_day = monthrange(year, month)
        local_sum = local.replace(year=year, month=month, day=min(local.day, last_day))
    expected_sum = t if count == 0 else moments_of(local_sum, ZoneInfo(zone))[0]
    assert ADD_METHODS[name].run({"t": t, "unit": str(count), "zone": zone}) == expected_sum
