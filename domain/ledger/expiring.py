"""The part of a balance that expires next, and the parts that expire in each of the months to come."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal

from domain.calendar import local_time, months_later

MONTHS = 12
_ZERO = Decimal(0)
# The smallest difference between two distinct moments.
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class NextExpiry:
    """The amount that expires next, and when."""

    amount: Decimal
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class MonthOfExpiry:
    """The amount that expires in a month, such as `2026-03`; a month includes its end, but not its beginning."""

    month: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class ExpiringPoints:
    """The expiring parts of a balance: `next`, None if nothing expires, and `by_month` for twelve months."""

    next: NextExpiry | None
    by_month: tuple[MonthOfExpiry, ...]


def expiring_points(amounts: Mapping[datetime, Decimal], now: datetime, zone: tzinfo) -> ExpiringPoints:
    """The expiring points of a balance; `amounts` has the amounts that expire after `now`, by moment.

    Months are those of `zone`. Points that expire when a month begins count for the month before.
    """
    by_month: dict[str, Decimal] = {}
    for moment, amount in amounts.items():
        month = _month(local_time(moment - _INSTANT, zone).date())
        by_month[month] = by_month.get(month, _ZERO) + amount
    first = min((moment for moment, amount in amounts.items() if amount), default=None)
    next_expiry = None if first is None else NextExpiry(amounts[first], first)
    next_months = [MonthOfExpiry(month, by_month.get(month, _ZERO)) for month in _months(now, zone)]
    return ExpiringPoints(next_expiry, tuple(next_months))


def _months(now: datetime, zone: tzinfo) -> list[str]:
    """This month and the next ones, as texts such as `2026-05`."""
    this_month = local_time(now, zone).replace(day=1)
    return [_month(months_later(this_month, number).date()) for number in range(MONTHS)]


def _month(day: date) -> str:
    """The month of a day, as a text such as `2026-05`."""
    return f"{day.year:04}-{day.month:02}"
