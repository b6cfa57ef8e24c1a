"""Notices of points that will expire: how many days before the expiry, and at which time, members are notified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from domain.calendar import local_time, start_of_day
from domain.ledger.records import LedgerAccount

DEFAULT_TIME = "10:00"


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice of the points that expire on a local day; it is due at `moment`, `days_before` days earlier."""

    moment: datetime
    day: date
    days_before: int


@dataclass(frozen=True, slots=True)
class NoticeSchedule:
    """The notices of an account, by the local time of its zone."""

    zone: tzinfo
    days_before: tuple[int, ...]
    at: time

    @classmethod
    def of(
        cls, account: LedgerAccount, of_organization: Mapping[str, Any] | None, zone: tzinfo
    ) -> NoticeSchedule | None:
        """The schedule of an account, or else that of the organization, whose zone is `zone`; None for no notices."""
        document = account.points_expiring or of_organization
        if document is None:
            return None
        at = time.fromisoformat(document["at"])
        return cls(account.expiry_calendar(zone).zone, tuple(document["daysBefore"]), at)

    def due(self, after: datetime, until: datetime) -> list[Notice]:
        """The notices due later than `after` and up to `until`, in order.

        Of several notices of a day of expiry, only the last; none of a day that is past at `until`.
        """
        first, last = (local_time(moment, self.zone).date() for moment in (after, until))
        notices: dict[date, Notice] = {}
        for number in range((last - first).days + 1):
            day = first + timedelta(days=number)
            moment = self._moment(day)
            if not after < moment <= until:
                continue
            for days_before in self.days_before:
                expiry_day = day + timedelta(days=days_before)
                # Replaces an earlier notice of the same day of expiry.
                notices[expiry_day] = Notice(moment, expiry_day, days_before)
        upcoming_notices = (notice for notice in notices.values() if notice.day >= last)
        return sorted(upcoming_notices, key=lambda notice: (notice.moment, notice.day))

    def next_notice_at(self, expires_at: datetime, after: datetime) -> datetime | None:
        """The moment of the first notice after `after` of points that expire at `expires_at`; None if there is none."""
        day = local_time(expires_at, self.zone).date()
        moments = (self._moment(day - timedelta(days=days_before)) for days_before in self.days_before)
        return min((moment for moment in moments if after < moment < expires_at), default=None)

    def expiry_range(self, days_before: int, after: datetime, until: datetime) -> tuple[datetime, datetime]:
        """The range of expiries whose notice, `days_before` days earlier, may be due between `after` and `until`."""
        first, last = (local_time(moment, self.zone).date() for moment in (after, until))
        # The notices of the first day were due at or before `after`: begin with the next day.
        if self._moment(first) <= after:
            first += timedelta(days=1)
        days_between = timedelta(days=days_before)
        return start_of_day(first + days_between, self.zone), start_of_day(
            last + days_between + timedelta(days=1), self.zone
        )

    def bounds_of_day(self, day: date) -> tuple[datetime, datetime]:
        """The first moments of a local day and of the next day."""
        return start_of_day(day, self.zone), start_of_day(day + timedelta(days=1), self.zone)

    def _moment(self, day: date) -> datetime:
        """The moment on a day at which notices are due, in UTC."""
        return local_time(datetime.combine(day, self.at, self.zone), UTC).replace(tzinfo=UTC)


def complete_notices(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in stored form: `points_expiring` gets the default time if it leaves the time out."""
    document = settings.get("points_expiring")
    return {**settings} if document is None else {**settings, "points_expiring": {"at": DEFAULT_TIME, **document}}


@dataclass(frozen=True, slots=True)
class ExpiringAmount:
    """The amount of a wallet that expires in a period such as a day, the first part of it at `expires_at`."""

    wallet_id: int
    amount: Decimal
    expires_at: datetime


def amounts_between(
    lots: Iterable[tuple[int, datetime, Decimal]], begin: datetime, end: datetime
) -> dict[int, ExpiringAmount]:
    """The points of each wallet that expire from `begin` on and before `end`, by wallet id.

    `lots` are (wallet id, expiry, amount).
    """
    amounts: dict[int, ExpiringAmount] = {}
    for wallet_id, expires_at, amount in lots:
        if begin <= expires_at < end and amount:
            amount_so_far = amounts.get(wallet_id, ExpiringAmount(wallet_id, Decimal(0), expires_at))
            first = min(amount_so_far.expires_at, expires_at)
            amounts[wallet_id] = ExpiringAmount(wallet_id, amount_so_far.amount + amount, first)
    return amounts
