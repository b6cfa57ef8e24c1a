"""Expiry of value: policies that count from the last transaction, and balances without expired value."""

from datetime import datetime, tzinfo
from decimal import Decimal

from domain.calendar import add_months


def end_of_idle_balance(period: int | None, last_transaction_date: datetime | None, zone: tzinfo) -> datetime | None:
    """When a `lastTransaction` policy of `period` months in `zone` expires the whole balance; None is never."""
    if period is None or last_transaction_date is None:
        return None
    return add_months(last_transaction_date, period, zone)


def unexpired(
    current_balance: Decimal,
    pending_debit: Decimal,
    expired_lots: Decimal,
    *,
    period: int | None,
    last_transaction_date: datetime | None,
    now: datetime,
    zone: tzinfo,
) -> Decimal:
    """The unexpired part of a stored balance at `now`; lots worth `expired_lots` have expired, but are not posted yet.

    `period` is the account's `lastTransaction` policy in months of `zone`, if any. Amounts held by pending transactions
    (`pending_debit`) do not expire.
    """
    end = end_of_idle_balance(period, last_transaction_date, zone)
    if end is not None and end <= now:
        return pending_debit
    return current_balance - expired_lots
