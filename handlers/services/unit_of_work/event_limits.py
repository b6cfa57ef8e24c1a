"""The counters of limits that a unit of work may touch."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, tzinfo

from sqlalchemy import Connection

from domain.calendar import DAILY, period_start
from domain.campaigns.limits import ALL_MEMBERS, MEMBER, CounterKey, Counters, counter_of
from domain.campaigns.plans import EvaluationPlans
from handlers.services.unit_of_work.tracked import TrackedEvent
from persistence import events


def open_limits(
    db: Connection,
    organization_id: int,
    plans: EvaluationPlans,
    tracked: Sequence[TrackedEvent],
    derived: Collection[str],
    member_ids: Collection[int],
    now: datetime,
    given_back: Collection[CounterKey],
    lock: bool,
) -> Counters:
    """The counters of all limits that may count the events, or derived events of the types `derived`.

    Counters of all members are locked if `lock` is True; a member's own are protected by the member's lock.
    `given_back` are counters that are needed whatever the campaigns are now.
    """
    limited = {
        campaign.campaign.campaign_id: campaign
        for event_type in {*derived, *(tracked_event.event.event_type for tracked_event in tracked)}
        for campaign in plans.of(event_type).campaigns
        if campaign.limits
    }
    moments = _moments(tracked, derived, now, {campaign.zone for campaign in limited.values()})
    shared: set[CounterKey] = set()
    own: set[int] = set()
    starts: set[date] = set()
    for campaign_id, campaign in limited.items():
        at = {moment for event_type, of_type in moments.items() if campaign.considers(event_type) for moment in of_type}
        for rule in campaign.limits:
            if rule.scope == MEMBER:
                own.add(campaign_id)
                starts |= {period_start(rule.period, moment, campaign.zone) for moment in at}
            else:
                shared |= {counter_of(rule, campaign_id, ALL_MEMBERS, moment, campaign.zone) for moment in at}
    counters = events.open_counters(db, organization_id, shared | set(given_back), lock=lock)
    if own:
        counters |= events.find_counters(db, organization_id, member_ids, own, starts)
    return Counters(counters)


def _moments(
    tracked: Sequence[TrackedEvent], derived: Collection[str], now: datetime, zones: Collection[tzinfo]
) -> Mapping[str, set[datetime]]:
    """The moments of the events, by type; derived events happen at the same moments or now.

    Moments on the same day in all the `zones` are merged into one.
    """
    days: dict[str, dict[tuple[date, ...], datetime]] = {}
    for tracked_event in tracked:
        day = tuple(period_start(DAILY, tracked_event.at, zone) for zone in zones)
        days.setdefault(tracked_event.event.event_type, {})[day] = tracked_event.at
    by_type = {event_type: set(moments.values()) for event_type, moments in days.items()}
    then = {moment for moments in by_type.values() for moment in moments} | {now}
    return {**by_type, **{event_type: then | by_type.get(event_type, set()) for event_type in derived}}
