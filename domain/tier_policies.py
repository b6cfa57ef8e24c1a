"""Tier policies: a program's tiers depend on the balance, or on points earned, ever or in a period."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Any

from domain.calendar import LAST_MOMENT, add_months, is_zone, local_time, not_a_zone, start_of_day, zone_named
from domain.ledger.postings import Earning
from domain.problems import FieldFault

ZERO = Decimal(0)

# The values of `basis` and of `period`.
BALANCE, EARNED = "balance", "earned"
LIFETIME, ROLLING, CALENDAR = "lifetime", "rolling", "calendar"

_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_MAX_GAP = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TierPoints:
    """A member's points of one account: the balance, the total earned, and earnings that a period needs.

    Earned points are minted points less reversals, whether or not they were spent, transferred or have expired.
    """

    balance: Decimal = ZERO
    earned: Decimal = ZERO
    earnings: tuple[Earning, ...] = ()


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """The points that count: the balance, or points earned, in a `period` of `months` or years from `start_month`."""

    basis: str = BALANCE
    period: str = LIFETIME
    months: int = 12
    start_month: int = 1
    zone: tzinfo = UTC

    @classmethod
    def of(cls, document: Mapping[str, Any], zone: tzinfo) -> TierPolicy:
        """The policy from its stored form; months and years are those of `zone` unless the policy names another."""
        zone_name = document["timezone"]
        return cls(
            basis=document["basis"],
            period=document["period"],
            months=document["months"] or 12,
            start_month=document["startMonth"] or 1,
            zone=zone if zone_name is None else zone_named(zone_name),
        )

    @property
    def has_period(self) -> bool:
        """True if points stop counting merely because time passes."""
        return self.period != LIFETIME

    def counted_points(self, points: TierPoints, at: datetime) -> Decimal:
        """The points that count at a moment."""
        if self.period == LIFETIME:
            return points.earned if self.basis == EARNED else points.balance
        earned_amount = sum(
            (
                earning.amount
                for earning in points.earnings
                if self._begins(earning.moment) <= at < self._ends(earning.moment)
            ),
            ZERO,
        )
        return max([earned_amount, *self._sums_of_ended_years(points, at)])

    def _sums_of_ended_years(self, points: TierPoints, at: datetime) -> Iterator[Decimal]:
        """The points earned in each ended year, for the years with points that were released only in the present year.

        The points of such a year count until the present year ends, since some of them were released too late to count
        in their own year.
        """
        if self.period != CALENDAR:
            return
        year = self._begins(at)
        begins_of_ended_years = {
            self._begins(earning.moment)
            for earning in points.earnings
            if earning.released_at is not None and self._ends(earning.moment) <= year <= earning.released_at <= at
        }
        for begin in begins_of_ended_years:
            yield sum((earning.amount for earning in points.earnings if self._begins(earning.moment) == begin), ZERO)

    def changes(self, points: TierPoints, at: datetime) -> Iterator[tuple[datetime, Decimal]]:
        """Later moments at which the counted points change because time passes, each with the points from then on."""
        if not self.has_period:
            return
        steps: dict[datetime, Decimal] = {}
        for earning in points.earnings:
            for moment, amount in (
                (self._begins(earning.moment), earning.amount),
                (self._ends(earning.moment), -earning.amount),
            ):
                if moment > at:
                    steps[moment] = steps.get(moment, ZERO) + amount
        releases = [earning.released_at for earning in points.earnings if earning.released_at is not None]
        # The points are no running sum then: points of an ended year count until the present year ends.
        if self.period == CALENDAR and any(self._begins(at) <= moment <= at for moment in releases):
            steps.setdefault(self._ends(at), ZERO)
            yield from ((moment, self.counted_points(points, moment)) for moment in sorted(steps))
            return
        counted_points = self.counted_points(points, at)
        for moment in sorted(steps):
            counted_points += steps[moment]
            yield moment, counted_points

    def earliest_counting_moment(self, at: datetime) -> datetime:
        """The earliest moment at which earned points may still count at `at` or later."""
        if self.period == CALENDAR:
            return self._begins(at)
        try:
            # If clocks were put forward at that time, up to a day had no local time.
            return add_months(at, -self.months, self.zone) - _MAX_GAP
        except (OverflowError, ValueError):
            return _FIRST_MOMENT

    def _begins(self, moment: datetime) -> datetime:
        """The moment from which points earned at `moment` count: with calendar years, the year's beginning."""
        if self.period != CALENDAR:
            return _FIRST_MOMENT
        begin, _ = _year(moment, self.start_month, self.zone)
        return begin

    def _ends(self, moment: datetime) -> datetime:
        """The moment from which points earned at `moment` do not count any more."""
        if self.period != CALENDAR:
            return _later(moment, self.months, self.zone)
        _, end = _year(moment, self.start_month, self.zone)
        return end


BY_BALANCE = TierPolicy()
"""The policy of programs that do not set one."""


@lru_cache(maxsize=65536)
def _later(moment: datetime, months: int, zone: tzinfo) -> datetime:
    """The moment `months` later, cached: each evaluation of a member's tier needs it for all earnings."""
    return add_months(moment, months, zone)


@lru_cache(maxsize=65536)
def _year(moment: datetime, start_month: int, zone: tzinfo) -> tuple[datetime, datetime]:
    """The first moments of the year that contains `moment`, and of the next year; years start with a given month."""
    day = local_time(moment, zone).date()
    year = day.year if day.month >= start_month else day.year - 1
    return _start(year, start_month, zone), _start(year + 1, start_month, zone)


def _start(year: int, month: int, zone: tzinfo) -> datetime:
    """The first moment of a month, or the nearest moment of the calendar for a year outside."""
    if year < date.min.year:
        return _FIRST_MOMENT
    return LAST_MOMENT if year > date.max.year else start_of_day(date(year, month, 1), zone)


def complete_tier_policy(document: Mapping[str, Any]) -> dict[str, Any]:
    """A policy with every field, as stored and returned."""
    defaults = {"basis": BALANCE, "period": LIFETIME, "months": None, "startMonth": None, "timezone": None}
    policy = {**defaults, **document}
    if policy["period"] == CALENDAR and policy["startMonth"] is None:
        policy["startMonth"] = 1
    return policy


def faults_of_policy(policy: Mapping[str, Any]) -> list[FieldFault]:
    """The contradictions between the fields of a policy, as returned by `complete_tier_policy`."""
    return [FieldFault(detail, pointer=f"/tierPolicy/{name}") for name, detail in _faults(policy)]


def _faults(policy: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The contradictions, each as the name of a field and a text."""
    period = policy["period"]
    if period != LIFETIME and policy["basis"] != EARNED:
        yield "period", f"period {period} needs the basis {EARNED}"
    if (policy["months"] is None) == (period == ROLLING):
        yield "months", f"months {'is required' if period == ROLLING else 'can only be sent'} with period {ROLLING}"
    for name in ("startMonth", "timezone"):
        if policy[name] is not None and period != CALENDAR:
            yield name, f"{name} can only be sent with period {CALENDAR}"
    if policy["timezone"] is not None and not is_zone(policy["timezone"]):
        yield "timezone", not_a_zone(policy["timezone"])
