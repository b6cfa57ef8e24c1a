"""Moments of expiry: months after something happened, by the calendar of an account, rounded to the end of a unit."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, tzinfo

from domain.calendar import LAST_MOMENT, add_months, local_time, months_later, start_of_day

NO_ROUNDING = "none"
# The units at whose end points expire, in months. Quarters and half-years are counted from the first month of a year.
MONTHS_OF_UNIT: Mapping[str, int] = {"month": 1, "quarter": 3, "half-year": 6, "year": 12}


@dataclass(frozen=True, slots=True)
class ExpiryCalendar:
    """The calendar by which the points of an account expire: that of a zone, with years from `year_start_month`."""

    zone: tzinfo = UTC
    year_start_month: int = 1

    def expiry(self, moment: datetime, months: int, rounding: str = NO_ROUNDING) -> datetime:
        """The moment so many months later, or the end of the unit `rounding` that contains it."""
        later = add_months(moment, months, self.zone)
        return later if rounding == NO_ROUNDING else self._end_of_unit(later, MONTHS_OF_UNIT[rounding])

    def _end_of_unit(self, moment: datetime, months: int) -> datetime:
        """The first moment after the unit of so many months that contains a moment."""
        first = local_time(moment, self.zone).date().replace(day=1)
        left = months - (first.month - self.year_start_month) % months
        try:
            following = months_later(datetime.combine(first, time()), left)
        except ValueError:
            return LAST_MOMENT
        return start_of_day(following.date(), self.zone)
