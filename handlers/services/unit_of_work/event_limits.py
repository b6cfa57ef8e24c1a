"""The counters of limits that a unit of work may touch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import TYPE_CHECKING

from domain.calendar import DAILY, period_start
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.cooldowns import Applications, span_around
from domain.campaigns.limits import ALL_MEMBERS, MEMBER, CounterKey, Counters, counter_of
from persistence import events

if TYPE_CHECKING:
    from handlers.services.unit_of_work.tracked import TrackedEvent
    from handlers.services.unit_of_work.unit import UnitOfWork


def open_limits(unit: UnitOfWork, tracked: Sequence[TrackedEvent], given_back: Collection[CounterKey]) -> Counters:
    """The counters of all limits that may count the events, or the derived events that are possible, and cooldowns.

    Counters of all members are locked unless this is a dry run; a member's own are protected by the member's lock.
    `given_back` are counters that are needed whatever the campaigns are now.
    """
    limited = [campaign for campaign in unit.plans.campaigns if campaign.limits]
    applications = _applications(unit) if unit.plans.have_cooldowns else None
    if not (limited or given_back):
        return Counters({}, applications)
    moments = _moments(tracked, unit.possible_types, unit.now, {campaign.zone for campaign in limited})
    shared: set[CounterKey] = set(given_back)
    own: set[int] = set()
    starts: set[date] = set()
    for campaign in limited:
        counted_at = {at for event_type, times in moments.items() if campaign.considers(event_type) for at in times}
        if counted_at:
            shared |= _shared_counters(campaign, counted_at)
            own_starts = _starts_of_own_counters(campaign, counted_at)
            if own_starts:
                own.add(campaign.campaign.campaign_id)
                starts |= own_starts
    counters = events.open_counters(unit.db, unit.organization_id, shared, lock=not unit.is_dry_run)
    if own:
        counters |= events.find_counters(unit.db, unit.organization_id, unit.members, own, starts)
    return Counters(counters, applications)


def _applications(unit: UnitOfWork) -> Applications:
    """The events of the members that cooldowns go by, as far as they are near to what the unit evaluates."""
    cooldowns = [campaign.cooldown for campaign in unit.plans.campaigns if campaign.cooldown is not None]
    span = span_around(unit.moments, cooldowns)
    return Applications(events.find_applications(unit.db, unit.organization_id, unit.members, *span))


def _shared_counters(campaign: CompiledCampaign, counted_at: Collection[datetime]) -> set[CounterKey]:
    """The counters of limits of all members together."""
    return {
        counter_of(rule, campaign.campaign.campaign_id, ALL_MEMBERS, at, campaign.zone)
        for rule in campaign.limits
        if rule.scope != MEMBER
        for at in counted_at
    }


def _starts_of_own_counters(campaign: CompiledCampaign, counted_at: Collection[datetime]) -> set[date]:
    """The first days of the periods of each member's own limits."""
    return {
        period_start(rule.period, at, campaign.zone)
        for rule in campaign.limits
        if rule.scope == MEMBER
        for at in counted_at
    }


def _moments(
    tracked: Sequence[TrackedEvent], derived: Collection[str], now: datetime, zones: Collection[tzinfo]
) -> Mapping[str, set[datetime]]:
    """The moments of the events, by type; derived events happen at the same moments or now.

    Moments on the same day in all the `zones` are merged into one.
    """
    days: dict[str, dict[tuple[date, ...], datetime]] = {}
    for event in tracked:
        day = tuple(period_start(DAILY, event.at, zone) for zone in zones)
        days.setdefault(event.event.event_type, {})[day] = event.at
    by_type = {event_type: set(moments.values()) for event_type, moments in days.items()}
    derived_at = {moment for moments in by_type.values() for moment in moments} | {now}
    return {**by_type, **{event_type: derived_at | by_type.get(event_type, set()) for event_type in derived}}
