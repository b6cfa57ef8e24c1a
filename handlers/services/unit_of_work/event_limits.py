"""The counters of limits that a unit of work may change: loaded, and locked if they count for all members."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, NamedTuple

from domain.calendar import DAILY, period_start
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.cooldowns import Applications, span_around
from domain.campaigns.counters import ALL_CAMPAIGNS, ALL_MEMBERS, Ceiling, CounterKey, Counters
from domain.campaigns.limits import LOCATION, MEMBER, counter_of
from persistence import events, limit_counters

if TYPE_CHECKING:
    from handlers.services.unit_of_work.tracked import TrackedEvent
    from handlers.services.unit_of_work.unit import UnitOfWork


class _Occasion(NamedTuple):
    """A moment and a location of events: a limit counts all events of one member and occasion in the same counter.

    `location_code` is None for events without a location, and if no limit is per location.
    """

    at: datetime
    location_code: str | None = None


# By event type.
_Occasions = Mapping[str, Collection[_Occasion]]


def open_limits(
    unit: UnitOfWork, tracked: Sequence[TrackedEvent], reversed_counters: Collection[CounterKey]
) -> Counters:
    """Load the counters of all limits that may count the tracked events or events derived from them.

    If campaigns have cooldowns, the members' earlier and later events that begin a cooldown are loaded, too.

    Counters for all members are locked unless this is a dry run; counters of one member are protected by the member's
    lock. `reversed_counters`, from which reversals subtract, are loaded even if no campaign uses them now. If one of
    them is for all members, all parts of the split counters are locked, since no single part knows how much can be
    subtracted.
    """
    limited_campaigns = [campaign for campaign in unit.plans.campaigns if campaign.limits]
    applications = _find_applications(unit) if unit.plans.have_cooldowns else None
    if not (limited_campaigns or reversed_counters):
        return Counters({}, applications=applications)
    occasions = _occasions(unit, tracked, limited_campaigns)
    reversed_shared_counters = [key for key in reversed_counters if key.member_id == ALL_MEMBERS]
    # The ceiling of each counter for all members; None for a counter that is only reduced, which needs no ceiling.
    ceilings: dict[CounterKey, Ceiling | None] = dict.fromkeys(reversed_shared_counters)
    campaign_ids: set[int] = set()
    period_starts: set[date] = set()
    for campaign in limited_campaigns:
        limited_occasions = {
            occasion for event_type in occasions if campaign.considers(event_type) for occasion in occasions[event_type]
        }
        if limited_occasions:
            _add_ceilings(campaign, limited_occasions, ceilings)
            member_starts = _period_starts_of_members(campaign, limited_occasions)
            if member_starts:
                campaign_ids |= {campaign.record.campaign_id, ALL_CAMPAIGNS}
                period_starts |= member_starts
    db, organization_id = unit.db, unit.organization_id
    used_amounts = limit_counters.read(
        db, organization_id, [key for key in reversed_counters if key.member_id != ALL_MEMBERS]
    )
    if campaign_ids:
        used_amounts |= limit_counters.find_of_members(db, organization_id, unit.members, campaign_ids, period_starts)
    if not ceilings:
        return Counters(used_amounts, applications=applications)
    if unit.is_dry_run:
        return Counters(
            {**used_amounts, **limit_counters.read(db, organization_id, ceilings)}, applications=applications
        )
    locked_counters = limit_counters.lock(db, organization_id, ceilings, as_whole=bool(reversed_shared_counters))
    ceilings_of_rules = {key: ceiling for key, ceiling in ceilings.items() if ceiling is not None}
    return Counters(used_amounts, locked_counters, ceilings_of_rules, applications)


def _find_applications(unit: UnitOfWork) -> Applications:
    """Find the members' events that begin a cooldown, within the longest cooldown around the moments of the unit."""
    cooldowns = [campaign.cooldown for campaign in unit.plans.campaigns if campaign.cooldown is not None]
    span = span_around(unit.moments, cooldowns)
    return Applications(events.find_applications(unit.db, unit.organization_id, unit.members, *span))


def _add_ceilings(
    campaign: CompiledCampaign, occasions: Collection[_Occasion], ceilings: dict[CounterKey, Ceiling | None]
) -> None:
    """Add the counters of a campaign's limits for all members, each with its ceiling."""
    for rule in campaign.limits:
        if rule.scope == MEMBER:
            continue
        for at, code in occasions:
            key = counter_of(rule, campaign.record.campaign_id, ALL_MEMBERS, at, campaign.zone, code)
            ceiling = rule.ceiling(rule.limit_at(code))
            other_ceiling = ceilings.get(key)
            ceilings[key] = ceiling if other_ceiling is None else ceiling.combine(other_ceiling)


def _period_starts_of_members(campaign: CompiledCampaign, occasions: Collection[_Occasion]) -> set[date]:
    """The first days of the periods in which the campaign's limits for each member count these occasions."""
    return {
        period_start(rule.period, occasion.at, campaign.zone)
        for rule in campaign.limits
        if rule.scope == MEMBER
        for occasion in occasions
    }


def _occasions(
    unit: UnitOfWork, tracked: Sequence[TrackedEvent], limited_campaigns: Collection[CompiledCampaign]
) -> _Occasions:
    """The occasions of the tracked events and of their possible derived events, by event type.

    A derived event has no location; it happens at one of the moments of the unit, such as that of a tracked event.
    Moments on the same day in all the zones of the campaigns are merged into one. Locations are distinguished only if a
    limit is per location.
    """
    zones = {campaign.zone for campaign in limited_campaigns}

    def days_of(at: datetime) -> tuple[date, ...]:
        return tuple(period_start(DAILY, at, zone) for zone in zones)

    has_locations = any(rule.scope == LOCATION for campaign in limited_campaigns for rule in campaign.limits)
    locations = _locations(unit, tracked) if has_locations else {}
    # By event type: one occasion for all events with the same days in all zones and the same location.
    distinct_occasions: dict[str, dict[tuple[tuple[date, ...], str | None], _Occasion]] = {}
    for event in tracked:
        code = None if event.order is None else locations.get(event.order["externalId"])
        distinct_occasions.setdefault(event.event.event_type, {})[days_of(event.at), code] = _Occasion(event.at, code)
    by_type = {event_type: set(occasions.values()) for event_type, occasions in distinct_occasions.items()}
    moments_by_days = {days_of(at): at for at in unit.moments}
    derived_occasions = {_Occasion(at) for at in moments_by_days.values()}
    for event_type in unit.possible_derived_types:
        by_type[event_type] = derived_occasions | by_type.get(event_type, set())
    return by_type


def _locations(unit: UnitOfWork, tracked: Sequence[TrackedEvent]) -> Mapping[str, str | None]:
    """The locations of the orders that the events are about, by external id; an order keeps its first location."""
    locations: dict[str, str | None] = {}
    for order in [event.order for event in tracked if event.order is not None]:
        external_id = order["externalId"]
        stored_order = None if unit.orders is None else unit.orders.order_before(external_id)
        if stored_order is not None:
            locations[external_id] = stored_order.location_code
        elif external_id not in locations:
            # The first event of an order that is not stored can only be its creation.
            locations[external_id] = order.get("locationCode")
    return locations
