"""Expiry of value: calendar months, and balances without expired value."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime
from decimal import Decimal

_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


def add_months(moment: datetime, months: int) -> datetime:
    """The same day and time of day, UTC, `months` later; a day that the month lacks becomes its last one.

    31 January plus one month is the end of February. A result beyond the calendar is the calendar's last moment.
    """
    utc = moment.astimezone(UTC)
    years, month_index = divmod(utc.month - 1 + months, 12)
    year, month = utc.year + years, month_index + 1
    if year > datetime.max.year:
        return _LAST_MOMENT
    return utc.replace(year=year, month=month, day=min(utc.day, monthrange(year, month)[1]))


def idle_too_long(period: int | None, last_transaction_date: datetime | None, now: datetime) -> bool:
    """True if a `lastTransaction` policy of `period` months has expired the whole balance by `now`."""
    if period is None or last_transaction_date is None:
        return False
    return add_months(last_transaction_date, period) <= now


def unexpired(
    current_balance: Decimal,
    pending_debit: Decimal,
    expired_lots: Decimal,
    *,
    period: int | None,
    last_transaction_date: datetime | None,
    now: datetime,
) -> Decimal:
    """The unexpired part of a stored balance at `now`; lots worth `expired_lots` have expired, but are not posted yet.

    `period` is the account's `lastTransaction` policy in months, if any. Amounts set aside by pending transactions
    (`pending_debit`) do not expire.
    """
    if idle_too_long(period, last_transaction_date, now):
        return pending_debit
    return current_balance - expired_lots
