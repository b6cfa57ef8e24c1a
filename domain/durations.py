"""Spans of time as ISO 8601 writes them: calendar units in a zone, and exact hours, minutes and seconds."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from domain.calendar import LAST_MOMENT, add_days, add_months
from domain.problems import FieldFault, InvalidRequest

_UNITS = (
    r"(?:(\d{1,4})Y)?(?:(\d{1,4})M)?(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?"
)
_DURATION = re.compile(f"P(?=.){_UNITS}(?<!T)")


@dataclass(frozen=True, slots=True)
class Duration:
    """Months and days of a calendar, then exact seconds."""

    months: int
    days: int
    seconds: int

    @property
    def upper_bound(self) -> timedelta:
        """An upper bound of the exact time, for any start and any time zone."""
        # Clocks that are changed, and zones that skip a day, make calendar days longer than 24 hours.
        return timedelta(days=31 * self.months + self.days + 2, seconds=self.seconds)

    def after(self, moment: datetime, zone: tzinfo) -> datetime:
        """The moment after this duration, in UTC; months and days are counted by the calendar of `zone`."""
        later = add_days(add_months(moment, self.months, zone), self.days, zone)
        try:
            return later + timedelta(seconds=self.seconds)
        except OverflowError:
            return LAST_MOMENT


def duration_of(text: str) -> Duration:
    """The duration of a text such as `P14D`, `P1M` or `PT36H`; raises ValueError for any other text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a duration such as P14D, P1M or PT36H")
    years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return Duration(12 * years + months, 7 * weeks + days, 3600 * hours + 60 * minutes + seconds)


def end_of_validity(valid_for: str, begin: datetime, zone: tzinfo, maximum: str) -> datetime:
    """The end of a validity that begins at `begin` and lasts for `valid_for`, the `validFor` of a request.

    Raises InvalidRequest for a text that is no duration, for a duration of 0, and for one longer than `maximum`. A day
    of `maximum` is at least 24 hours: on the day on which clocks are set forward, `PT24H` is not longer than `P1D`.
    """
    limit = duration_of(maximum)
    limit_in_hours = Duration(limit.months, 0, 86_400 * limit.days + limit.seconds)
    latest = max(limit.after(begin, zone), limit_in_hours.after(begin, zone))
    try:
        end = duration_of(valid_for).after(begin, zone)
    except ValueError as error:
        raise InvalidRequest([FieldFault(f"validFor {error}", pointer="/validFor")]) from error
    if not begin < end <= latest:
        bound = "not longer than 0" if end <= begin else f"longer than {maximum}"
        raise InvalidRequest([FieldFault(f"validFor is {valid_for}, which is {bound}", pointer="/validFor")])
    return end
