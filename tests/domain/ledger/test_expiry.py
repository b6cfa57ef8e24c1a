from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ledger.expiry import add_months, idle_too_long, unexpired

NOON = datetime(2024, 1, 31, 12, 30, 15, 250, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "months", "expected"),
    [
        (NOON, 0, NOON),
        (NOON, 1, NOON.replace(month=2, day=29)),
        (NOON, 2, NOON.replace(month=3, day=31)),
        (NOON, 3, NOON.replace(month=4, day=30)),
        (NOON, 11, NOON.replace(month=12, day=31)),
        (NOON, 12, NOON.replace(year=2025)),
        (NOON, 13, NOON.replace(year=2025, month=2, day=28)),
        (datetime(2024, 2, 29, tzinfo=UTC), 12, datetime(2025, 2, 28, tzinfo=UTC)),
        (datetime(2024, 12, 1, tzinfo=UTC), 1, datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_months_are_added_on_the_calendar(moment, months, expected):
    assert add_months(moment, months) == expected


def test_the_calendar_is_that_of_utc():
    evening_before_in_utc = datetime(2024, 3, 31, 1, 0, tzinfo=timezone(timedelta(hours=2)))
    assert add_months(evening_before_in_utc, 1) == datetime(2024, 4, 30, 23, 0, tzinfo=UTC)


def test_what_lies_beyond_the_calendar_is_its_last_moment():
    assert add_months(datetime(9999, 12, 1, tzinfo=UTC), 1) == datetime.max.replace(tzinfo=UTC)


@given(
    st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2400, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 1200),
)
def test_it_is_the_month_so_many_later_and_the_time_of_day_stays(moment, months):
    later = add_months(moment, months)
    assert (later.year * 12 + later.month) - (moment.year * 12 + moment.month) == months
    assert later.timetz() == moment.timetz()
    assert later.day == moment.day or (later.day < moment.day and (later + timedelta(days=1)).day == 1)


@pytest.mark.parametrize(
    ("now", "gone"),
    [
        (NOON.replace(month=2, day=29) - timedelta(microseconds=1), False),
        (NOON.replace(month=2, day=29), True),
        (NOON.replace(month=3), True),
    ],
)
def test_a_balance_ends_exactly_the_period_after_the_last_transaction(now, gone):
    assert idle_too_long(1, NOON, now) is gone


def test_without_a_policy_or_a_transaction_nothing_ends():
    late = datetime(2100, 1, 1, tzinfo=UTC)
    assert not idle_too_long(None, NOON, late)
    assert not idle_too_long(1, None, late)


def test_expired_lots_are_no_part_of_a_balance():
    shown = unexpired(Decimal("10.5"), Decimal(2), Decimal("3.25"), period=None, last_transaction_date=NOON, now=NOON)
    assert shown == Decimal("7.25")


def test_an_idle_balance_is_gone_but_for_what_is_set_aside():
    kept = unexpired(
        Decimal(10), Decimal(2), Decimal(0), period=1, last_transaction_date=NOON, now=NOON + timedelta(days=40)
    )
    assert kept == 2
