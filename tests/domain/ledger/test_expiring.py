"""What of a balance expires next, and in each month."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from domain.ledger.expiring import MonthOfExpiry, NextExpiry, expiring_points

MADRID = ZoneInfo("Europe/Madrid")
NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
# The first moments of April and of July in Madrid.
APRIL, JULY = datetime(2026, 3, 31, 22, tzinfo=UTC), datetime(2026, 6, 30, 22, tzinfo=UTC)


def months(expiring):
    """The amounts that expire, by month, without the months in which nothing expires."""
    return {month.month: month.amount for month in expiring.by_month if month.amount}


def test_the_forecast_counts_points_in_the_month_of_their_last_moment():
    """Points that expire when April begins in Madrid live in March for the last time."""
    expiring = expiring_points({JULY: Decimal(60), APRIL: Decimal(230)}, NOW, MADRID)
    assert expiring.next == NextExpiry(Decimal(230), APRIL)
    assert months(expiring) == {"2026-03": 230, "2026-06": 60}
    # Two hours later April begins in UTC; in Madrid the points live in it for two hours.
    assert months(expiring_points({APRIL + timedelta(hours=2): Decimal(1)}, NOW, UTC)) == {"2026-03": 1}
    assert months(expiring_points({APRIL + timedelta(hours=2): Decimal(1)}, NOW, MADRID)) == {"2026-04": 1}


def test_points_that_live_in_a_month_for_only_an_instant_expire_in_it():
    instant = timedelta(microseconds=1)
    assert months(expiring_points({APRIL + instant: Decimal(1)}, NOW, MADRID)) == {"2026-04": 1}
    assert months(expiring_points({APRIL - instant: Decimal(1)}, NOW, MADRID)) == {"2026-03": 1}


def test_the_forecast_has_twelve_months_from_the_present_one_on():
    # In Madrid this is the first moment of March.
    expiring = expiring_points({}, datetime(2026, 2, 28, 23, tzinfo=UTC), MADRID)
    assert expiring.next is None
    assert expiring.by_month[0] == MonthOfExpiry("2026-03", Decimal(0))
    assert [month.month for month in expiring.by_month][-3:] == ["2026-12", "2027-01", "2027-02"]


def test_an_expiry_after_the_twelve_months_is_the_next_one_if_none_precedes_it():
    in_two_years = datetime(2028, 1, 1, tzinfo=UTC)
    expiring = expiring_points({in_two_years: Decimal(5)}, NOW, MADRID)
    assert expiring.next == NextExpiry(Decimal(5), in_two_years)
    assert months(expiring) == {}


@given(
    st.dictionaries(
        st.datetimes(min_value=datetime(2026, 3, 2), max_value=datetime(2027, 1, 30), timezones=st.just(UTC)),
        st.integers(1, 10**6).map(Decimal),
        max_size=20,
    ),
    st.sampled_from([MADRID, UTC, ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Pacific/Pago_Pago")]),
)
def test_the_months_add_up_to_the_points_that_expire_within_them(amounts, zone):
    expiring = expiring_points(amounts, NOW, zone)
    assert sum(month.amount for month in expiring.by_month) == sum(amounts.values())
    assert (expiring.next is None) == (not amounts)
    if amounts:
        assert expiring.next == NextExpiry(amounts[min(amounts)], min(amounts))
