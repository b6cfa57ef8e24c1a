"""Calendar arithmetic of expiries, and the moment at which an idle balance ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import add_days, add_months
from domain.ledger.lots import KeptLots, unexpired_balance
from domain.ledger.postings import Holding
from tests.builders.campaigns import account

# 2024 is a leap year.
LAST_OF_JANUARY = datetime(2024, 1, 31, 12, 30, 15, 250, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "months", "later_moment"),
    [
        (LAST_OF_JANUARY, 0, LAST_OF_JANUARY),
        (LAST_OF_JANUARY, 1, LAST_OF_JANUARY.replace(month=2, day=29)),
        (LAST_OF_JANUARY, 2, LAST_OF_JANUARY.replace(month=3, day=31)),
        (LAST_OF_JANUARY, 3, LAST_OF_JANUARY.replace(month=4, day=30)),
        (LAST_OF_JANUARY, 11, LAST_OF_JANUARY.replace(month=12, day=31)),
        (LAST_OF_JANUARY, 12, LAST_OF_JANUARY.replace(year=2025)),
        (LAST_OF_JANUARY, 13, LAST_OF_JANUARY.replace(year=2025, month=2, day=28)),
        (datetime(2024, 2, 29, tzinfo=UTC), 12, datetime(2025, 2, 28, tzinfo=UTC)),
        (datetime(2024, 12, 1, tzinfo=UTC), 1, datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_months_are_added_on_the_calendar_and_end_with_a_shorter_month(moment, months, later_moment):
    assert add_months(moment, months, UTC) == later_moment


def test_months_are_added_in_the_zone_for_any_offset_of_the_moment():
    # 31 March, 01:00 by an offset of two hours, is 30 March, 23:00 in UTC.
    evening_before_in_utc = datetime(2024, 3, 31, 1, 0, tzinfo=timezone(timedelta(hours=2)))
    assert add_months(evening_before_in_utc, 1, UTC) == datetime(2024, 4, 30, 23, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "months", "later_moment"),
    [
        # 30 January, 21:30 in Los Angeles: the last day of February is the 28th.
        ("2030-01-31T05:30:00Z", 1, "2030-03-01T05:30:00Z"),
        # Noon stays noon when clocks are put forward in between, on 10 March.
        ("2030-03-05T20:00:00Z", 1, "2030-04-05T19:00:00Z"),
        ("2030-04-05T19:00:00Z", -1, "2030-03-05T20:00:00Z"),
        # 02:30 does not exist on 10 March: 03:30 replaces it. 01:30 comes twice on 3 November: the first counts.
        ("2030-02-10T10:30:00Z", 1, "2030-03-10T10:30:00Z"),
        ("2030-10-03T08:30:00Z", 1, "2030-11-03T08:30:00Z"),
    ],
)
def test_months_are_added_to_the_local_time_in_the_zone(moment, months, later_moment):
    end = add_months(datetime.fromisoformat(moment), months, ZoneInfo("America/Los_Angeles"))
    assert end == datetime.fromisoformat(later_moment)
    assert end.tzinfo is UTC


def test_days_are_added_in_the_zone():
    day_before_clocks_change = datetime(2030, 3, 9, 20, tzinfo=UTC)
    assert add_days(day_before_clocks_change, 1, UTC) == datetime(2030, 3, 10, 20, tzinfo=UTC)
    assert add_days(day_before_clocks_change, 1, ZoneInfo("America/Los_Angeles")) == datetime(
        2030, 3, 10, 19, tzinfo=UTC
    )


def test_a_moment_beyond_the_calendar_is_its_last_moment():
    assert add_months(datetime(9999, 12, 1, tzinfo=UTC), 1, UTC) == datetime.max.replace(tzinfo=UTC)


@given(
    st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2400, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 1200),
)
def test_adding_months_changes_the_month_and_keeps_the_time_of_day(moment, months):
    end = add_months(moment, months, UTC)
    assert (end.year * 12 + end.month) - (moment.year * 12 + moment.month) == months
    assert end.timetz() == moment.timetz()
    # A shorter month lacks the day, so its last day counts.
    is_last_day_of_month = (end + timedelta(days=1)).day == 1
    assert end.day == moment.day or (end.day < moment.day and is_last_day_of_month)


def end_of_idle_balance(months, last_transaction, zone):
    """When a balance expires by a policy about its last transaction; `months` are None without a policy."""
    policies = () if months is None else ({"expirationType": "lastTransaction", "period": months},)
    holding = Holding(last_transaction_date=last_transaction)
    return account(expiration_policies=policies).end_of_idle_balance(holding, zone)


def balance_at(now, *, months, zone=UTC, expired_lots="0"):
    """What is unexpired at `now` of a balance of 10 with a hold of 2, whose last transaction was at LAST_OF_JANUARY."""
    return unexpired_balance(
        current_balance=Decimal(10),
        pending_debit=Decimal(2),
        expired_lots=Decimal(expired_lots),
        end=end_of_idle_balance(months, LAST_OF_JANUARY, zone),
        now=now,
    )


@pytest.mark.parametrize(
    ("now", "balance"),
    [
        (LAST_OF_JANUARY.replace(month=2, day=29) - timedelta(microseconds=1), 10),
        # From then on, only the 2 held points of the 10 are left.
        (LAST_OF_JANUARY.replace(month=2, day=29), 2),
        (LAST_OF_JANUARY.replace(month=3), 2),
    ],
)
def test_a_balance_except_its_holds_expires_exactly_one_period_after_the_last_transaction(now, balance):
    assert balance_at(now, months=1) == balance


def test_an_idle_balance_ends_by_the_calendar_of_the_zone():
    # In Kiritimati LAST_OF_JANUARY is 1 February, 02:30. Its balance ends on the first day of a month there, which is
    # the last day of the month before in UTC.
    for months, end in (
        (1, LAST_OF_JANUARY.replace(month=2, day=29)),
        (2, LAST_OF_JANUARY.replace(month=3, day=31)),
        (3, LAST_OF_JANUARY.replace(month=4, day=30)),
    ):
        assert end_of_idle_balance(months, LAST_OF_JANUARY, ZoneInfo("Pacific/Kiritimati")) == end
    first_of_march = LAST_OF_JANUARY + timedelta(days=29, hours=12)
    assert end_of_idle_balance(months=1, last_transaction=first_of_march, zone=UTC) == first_of_march.replace(month=4)
    # In Los Angeles it is 29 February, 16:30; by 29 March clocks have gone forward.
    assert end_of_idle_balance(
        months=1, last_transaction=first_of_march, zone=ZoneInfo("America/Los_Angeles")
    ) == datetime(2024, 3, 29, 23, 30, 15, 250, tzinfo=UTC)


def test_a_balance_without_a_policy_or_a_transaction_does_not_expire():
    assert end_of_idle_balance(months=None, last_transaction=LAST_OF_JANUARY, zone=UTC) is None
    assert end_of_idle_balance(months=1, last_transaction=None, zone=UTC) is None
    assert balance_at(datetime(2100, 1, 1, tzinfo=UTC), months=None) == 10


def test_expired_lots_are_no_part_of_a_balance():
    assert balance_at(LAST_OF_JANUARY, months=None, expired_lots="3.25") == 10 - Decimal("3.25")


def idle_balance(*, end, now):
    """The unexpired points, at `now`, of a balance of 70: 2 are held, and four lots are kept to different moments."""
    kept_lots = [
        KeptLots(now + timedelta(seconds=seconds), Decimal(amount))
        for seconds, amount in ((-1, 10), (0, 20), (1, 4), (9, 8))
    ]
    return unexpired_balance(
        current_balance=Decimal(70),
        pending_debit=Decimal(2),
        expired_lots=Decimal(0),
        end=end,
        now=now,
        kept_lots=kept_lots,
    )


@pytest.mark.parametrize("end", [LAST_OF_JANUARY, LAST_OF_JANUARY - timedelta(seconds=1)])
def test_an_expired_idle_balance_keeps_held_points_and_lots_that_are_extended_beyond_now(end):
    held_points, extended_lots = 2, 4 + 8
    assert idle_balance(end=end, now=LAST_OF_JANUARY) == held_points + extended_lots


def test_a_balance_that_is_not_idle_yet_is_kept_in_full():
    assert idle_balance(end=LAST_OF_JANUARY + timedelta(seconds=1), now=LAST_OF_JANUARY) == 70
