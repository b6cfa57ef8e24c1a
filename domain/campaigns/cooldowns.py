"""Cooldowns: how long a campaign waits between two events of a member on which it has an effect."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from domain.durations import Duration, duration_of
from domain.problems import Conflict, FieldFault


class CooldownActive(Conflict, slug="cooldown", title="The cooldown of the campaign has not ended"):
    """The campaign had an effect on another event of the member, less than a cooldown before or after this event."""


class Application(NamedTuple):
    """An event of a member on which a campaign with a cooldown had an effect."""

    campaign_id: int
    member_id: int
    loyalty_event_id: int
    at: datetime


class Applications:
    """The events of the members of a unit of work on which campaigns with a cooldown had an effect."""

    def __init__(self, applications: Iterable[Application] = ()) -> None:
        self._by_campaign_and_member: dict[tuple[int, int], list[Application]] = {}
        for application in applications:
            self.add(application)

    def add(self, application: Application) -> None:
        """Add an event on which a campaign has an effect."""
        key = application.campaign_id, application.member_id
        self._by_campaign_and_member.setdefault(key, []).append(application)

    def remove(self, loyalty_event_id: int) -> None:
        """Remove an event that is reversed."""
        for applications in self._by_campaign_and_member.values():
            applications[:] = [
                application for application in applications if application.loyalty_event_id != loyalty_event_id
            ]

    def last_within_cooldown(
        self, campaign_id: int, member_id: int, at: datetime, cooldown: Duration, zone: tzinfo
    ) -> datetime | None:
        """The date of the last event less than the cooldown before or after `at`; None if there is none."""
        dates = [application.at for application in self._by_campaign_and_member.get((campaign_id, member_id), ())]
        near_dates = (date for date in dates if max(date, at) < cooldown.after(min(date, at), zone))
        return max(near_dates, default=None)


def span_around(moments: Iterable[datetime], cooldowns: Iterable[Duration]) -> tuple[datetime, datetime]:
    """The range of dates that contains every event within the longest of the cooldowns before or after a moment."""
    dates, longest = list(moments), max(cooldown.upper_bound for cooldown in cooldowns)
    try:
        first = min(dates) - longest
    except OverflowError:
        first = datetime.min.replace(tzinfo=UTC)
    try:
        last = max(dates) + longest
    except OverflowError:
        last = datetime.max.replace(tzinfo=UTC)
    return first, last


def faults_of_cooldown(text: str | None) -> list[FieldFault]:
    """The faults of the cooldown of a campaign, a duration such as `P1D`; None means no cooldown."""
    if text is None:
        return []
    try:
        cooldown = duration_of(text)
    except ValueError as error:
        return [FieldFault(f"cooldown {error}", pointer="/cooldown")]
    if not (cooldown.months or cooldown.days or cooldown.seconds):
        return [FieldFault(f"cooldown is {text}, which is not longer than 0", pointer="/cooldown")]
    return []
