"""Moments of expiry: months after something happened, by the calendar of an account, rounded to the end of a unit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Protocol

from domain.calendar import LAST_MOMENT, add_months, local_time, months_later, start_of_day
from domain.problems import FieldFault

NO_ROUNDING = "none"
# The units at whose end points expire, in months. Quarters and half-years are counted from the first month of a year.
MONTHS_OF_UNIT: Mapping[str, int] = {"month": 1, "quarter": 3, "half-year": 6, "year": 12}

_FIRST_MOMENT, _INSTANT = datetime.min.replace(tzinfo=UTC), timedelta(microseconds=1)
_AVERAGE_MONTH = timedelta(days=30, hours=10, minutes=30)
# Of two idle periods that begin at least this long after each other, the first ends first. If they begin closer to each
# other, the second can end first: clocks change, and months have different lengths.
_ORDERED_AFTER = timedelta(days=7)

# Policies by which a whole balance expires: some months after its last transaction, or after its last activity.
LAST_TRANSACTION, INACTIVITY = "lastTransaction", "inactivity"
# The activities that are no types of events.
EARN, SPEND = "earn", "spend"


@dataclass(frozen=True, slots=True)
class ExpiryCalendar:
    """The calendar by which the points of an account expire: days of `zone`, and years from `year_start_month` on."""

    zone: tzinfo = UTC
    year_start_month: int = 1

    def expiry(self, moment: datetime, months: int, rounding: str = NO_ROUNDING) -> datetime:
        """The moment `months` later, or the end of the unit `rounding` that contains this later moment."""
        later = add_months(moment, months, self.zone)
        return later if rounding == NO_ROUNDING else self._end_of_unit(later, MONTHS_OF_UNIT[rounding])

    def start_of_unit(self, moment: datetime, rounding: str) -> datetime:
        """The start of the calendar unit `rounding` that contains `moment`; without rounding, `moment` itself.

        Expiries are rounded to the end of their unit, so at `moment` only those of earlier units have passed.
        """
        if rounding == NO_ROUNDING:
            return moment
        first, months_before = self._month_in_unit(moment, MONTHS_OF_UNIT[rounding])
        return start_of_day(months_later(datetime.combine(first, time()), -months_before).date(), self.zone)

    def _end_of_unit(self, moment: datetime, months: int) -> datetime:
        """The end of the calendar unit that contains a moment, or LAST_MOMENT if the end is out of range.

        The unit is the month, quarter or year of this calendar that has `months` months.
        """
        first, months_before = self._month_in_unit(moment, months)
        try:
            following = months_later(datetime.combine(first, time()), months - months_before)
        except ValueError:
            return LAST_MOMENT
        return start_of_day(following.date(), self.zone)

    def _month_in_unit(self, moment: datetime, months: int) -> tuple[date, int]:
        """The first day of the month that contains `moment`, and how many months of its calendar unit are before it.

        The unit is the one of `months` months, as in `_end_of_unit`.
        """
        first = local_time(moment, self.zone).date().replace(day=1)
        return first, (first.month - self.year_start_month) % months


class HasLastDates(Protocol):
    """The holding of an account, with the dates of its last transaction and activity."""

    @property
    def last_transaction_date(self) -> datetime | None:
        """When something last moved."""

    @property
    def last_activity_date(self) -> datetime | None:
        """When something last happened that keeps the points alive, if that is known."""


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """A policy by which a whole balance expires `months` after the last of `activities`, at the end of a unit.

    If `activities` is None, it expires after the last transaction of any kind. A balance whose months had passed before
    the policy was set, at `since`, expires at this moment.
    """

    calendar: ExpiryCalendar
    months: int
    rounding: str = NO_ROUNDING
    activities: frozenset[str] | None = None
    since: datetime | None = None

    @classmethod
    def of(
        cls, policies: Iterable[Mapping[str, Any]], calendar: ExpiryCalendar, since: datetime | None = None
    ) -> "IdlePolicy | None":
        """The idle policy among the policies of an account, which were set at `since`; None if there is none."""
        for policy in policies:
            if policy["expirationType"] == LAST_TRANSACTION:
                return cls(calendar, int(policy["period"]), since=since)
            if policy["expirationType"] == INACTIVITY:
                activities = frozenset(policy["activities"])
                return cls(calendar, int(policy["period"]), policy["rounding"], activities, since)
        return None

    def end(self, last_transaction_date: datetime | None, last_activity_date: datetime | None) -> datetime | None:
        """When a balance with these dates expires; None means never. Without activity, the last transaction counts."""
        last = last_transaction_date
        if self.activities is not None and last_activity_date is not None:
            last = last_activity_date
        if last is None:
            return None
        end = self.calendar.expiry(last, self.months, self.rounding)
        return end if self.since is None else max(end, self.since)

    def bounds_of_start(self, moment: datetime) -> tuple[datetime, datetime]:
        """Two bounds for the start of idle periods, which decide whether a period has ended at `moment`.

        Periods that began up to the first bound have ended, periods that began after the second have not. The bounds
        are equal, unless clocks change or months of different lengths follow each other near them.
        """
        if self.since is not None and moment < self.since:
            return _FIRST_MOMENT, _FIRST_MOMENT
        limit = self.calendar.start_of_unit(moment, self.rounding)
        if self.rounding != NO_ROUNDING:
            limit -= _INSTANT
        # Estimate the start of the period that ends at the limit, then correct it three times by the error of its end.
        estimate = limit - self.months * _AVERAGE_MONTH
        for _ in range(3):
            estimate -= self.calendar.expiry(estimate, self.months) - limit
        first_bound, second_bound = estimate - _ORDERED_AFTER, estimate + _ORDERED_AFTER
        ends = [self.calendar.expiry(start, self.months) for start in (first_bound, estimate, second_bound)]
        offsets = {local_time(start, self.calendar.zone).utcoffset() for start in (first_bound, second_bound)}
        if ends == [limit - _ORDERED_AFTER, limit, limit + _ORDERED_AFTER] and len(offsets) == 1:
            return estimate, estimate
        return first_bound, second_bound

    def start_after_movement(
        self,
        last_transaction_date: datetime | None,
        last_activity_date: datetime | None,
        has_points: bool,
        arrived_at: datetime | None = None,
    ) -> datetime | None:
        """The start of the idle period after a movement that is no activity; None if no period has begun.

        Such a movement does not prolong a period. If no activity is recorded, the period began with the last
        transaction before the movement, but only if the balance `has_points` that could expire. Points that arrive at
        `arrived_at` begin a period if the balance has expired by then, or if no period has begun yet.
        """
        if not self.activities:
            return last_activity_date
        end = self.end(last_transaction_date, last_activity_date)
        if arrived_at is not None and end is not None and end <= arrived_at:
            return arrived_at
        if last_activity_date is not None:
            return last_activity_date
        return last_transaction_date if has_points and last_transaction_date is not None else arrived_at


def complete_policies(policies: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The policies in stored form, with defaults for the fields that they leave out."""
    return tuple(
        {"activities": [EARN, SPEND], "rounding": NO_ROUNDING, **policy}
        if policy["expirationType"] == INACTIVITY
        else {**policy}
        for policy in policies
    )


def policy_faults(policies: Iterable[Mapping[str, Any]]) -> list[FieldFault]:
    """The faults of policies: fields that the type of a policy does not have."""
    faults = []
    for position, policy in enumerate(policies):
        if policy["expirationType"] == LAST_TRANSACTION:
            for name in sorted(policy.keys() & {"activities", "rounding"}):
                detail = f"{name} cannot be set on a policy of the type {LAST_TRANSACTION}"
                faults.append(FieldFault(detail, f"/expirationPolicies/{position}/{name}"))
    return faults
