"""Cooldowns: how long a campaign waits between two events of a member on which it has an effect."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from domain.durations import Duration, duration_of
from domain.problems import Conflict, FieldFault


class CooldownActive(Conflict, slug="cooldown", title="The cooldown of the campaign has not ended"):
    """The campaign had an effect on an event of the member that is too near."""


class Application(NamedTuple):
    """An event of a member on which a campaign with a cooldown had an effect."""

    campaign_id: int
    member_id: int
    loyalty_event_id: int
    at: datetime


class Applications:
    """The events of the members of a unit of work on which campaigns with a cooldown had an effect."""

    def __init__(self, applications: Iterable[Application] = ()) -> None:
        self._by_place: dict[tuple[int, int], list[Application]] = {}
        for application in applications:
            self.add(application)

    def add(self, application: Application) -> None:
        """Add an event on which a campaign has an effect."""
        self._by_place.setdefault((application.campaign_id, application.member_id), []).append(application)

    def remove(self, loyalty_event_id: int) -> None:
        """Remove an event that is reversed."""
        for applications in self._by_place.values():
            applications[:] = [a for a in applications if a.loyalty_event_id != loyalty_event_id]

    def too_near(
        self, campaign_id: int, member_id: int, at: datetime, cooldown: Duration, zone: tzinfo
    ) -> datetime | None:
        """The last moment that is less than the cooldown before or after `at`; None if there is none."""
        moments = [application.at for application in self._by_place.get((campaign_id, member_id), ())]
        near = (moment for moment in moments if max(moment, at) < cooldown.after(min(moment, at), zone))
        return max(near, default=None)


def span_around(moments: Iterable[datetime], cooldowns: Iterable[Duration]) -> tuple[datetime, datetime]:
    """The first and the last moment that may be too near to one of the moments, for any of the cooldowns."""
    dates, longest = list(moments), max(cooldown.longest for cooldown in cooldowns)
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
    """The faults of the cooldown of a campaign; None, for no cooldown, has none."""
    if text is None:
        return []
    try:
        cooldown = duration_of(text)
    except ValueError as error:
        return [FieldFault(f"cooldown {error}", pointer="/cooldown")]
    if not (cooldown.months or cooldown.days or cooldown.seconds):
        return [FieldFault(f"cooldown is {text}, which is not longer than 0", pointer="/cooldown")]
    return []
