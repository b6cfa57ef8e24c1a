"""Restrictions of a campaign, which are checked before any of its rules."""

from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from typing import Any, NamedTuple

from domain.calendar import day_of_week
from domain.campaigns.context import EventFacts
from domain.campaigns.outcomes import Reason
from domain.campaigns.records import Campaign
from domain.hours import hours_of, local_clock


class Restriction(NamedTuple):
    """One restriction of a campaign: whether it `forbids` an event.

    `fact_of` returns the fact of an event that decides this, `label` the sentence about such a fact.
    """

    code: str
    forbids: Callable[[EventFacts], bool]
    fact_of: Callable[[EventFacts], Any]
    label: Callable[[Any], str]

    def reason(self, event: EventFacts) -> Reason:
        """The reason why the campaign does not apply to an event that the restriction forbids."""
        fact = self.fact_of(event)
        return Reason(self.code, self.label(fact), fact)


def first_violated(restrictions: Iterable[Restriction], event: EventFacts) -> Restriction | None:
    """The first of the restrictions that forbids the event; None if the campaign applies."""
    for restriction in restrictions:
        if restriction.forbids(event):
            return restriction
    return None


def restrictions_of(campaign: Campaign, event_types: frozenset[str], zone: tzinfo) -> tuple[Restriction, ...]:
    """The restrictions of a campaign; the cheapest to check come first.

    Days and hours are in the time zone of the event's location, or in `zone` if the location has none.
    """
    return (
        *_campaign_restrictions(campaign, event_types),
        *_time_restrictions(campaign, zone),
        *_member_restrictions(campaign),
    )


def _campaign_restrictions(campaign: Campaign, event_types: frozenset[str]) -> Iterator[Restriction]:
    if not campaign.active:
        yield Restriction(
            "CAMPAIGN_INACTIVE", lambda event: True, lambda event: False, lambda fact: "the campaign is not active"
        )
    if event_types:
        yield Restriction(
            "EVENT_TYPE",
            lambda event: event.event_type not in event_types,
            lambda event: event.event_type,
            lambda fact: f"the campaign does not apply to events of type {fact}",
        )


def _time_restrictions(campaign: Campaign, zone: tzinfo) -> Iterator[Restriction]:
    """The restrictions to a range of dates, and to days and hours in the zone of the location or the campaign."""
    begin, end, days = campaign.valid_from, campaign.valid_to, frozenset(campaign.days_of_week)
    schedule = campaign.day_of_week_schedule
    if begin is not None:
        yield Restriction(
            "OUTSIDE_WINDOW",
            lambda event: event.at < begin,
            lambda event: event.at,
            lambda fact: f"the campaign begins at {begin.isoformat()}, the event is dated {fact.isoformat()}",
        )
    if end is not None:
        yield Restriction(
            "OUTSIDE_WINDOW",
            lambda event: event.at > end,
            lambda event: event.at,
            lambda fact: f"the campaign ended at {end.isoformat()}, the event is dated {fact.isoformat()}",
        )
    if days:
        yield Restriction(
            "DAY_OF_WEEK",
            lambda event: day_of_week(event.at, event.location_zone or zone) not in days,
            lambda event: day_of_week(event.at, event.location_zone or zone),
            lambda fact: f"the campaign does not run on day {fact} of the week",
        )
    if schedule is not None:
        hours = hours_of(schedule)
        yield Restriction(
            "OUTSIDE_HOURS",
            lambda event: not hours.is_open(event.at, event.location_zone or zone),
            lambda event: local_clock(event.at, event.location_zone or zone),
            lambda fact: (
                f"the campaign does not run at {fact['localTime']} on day {fact['day']} of the week"
                f" (time zone {fact['timezone']})"
            ),
        )


def _member_restrictions(campaign: Campaign) -> Iterator[Restriction]:
    """The restrictions to members, and to the location, the currency and the spend of an event."""
    locations, min_spend = frozenset(campaign.location_codes), campaign.min_spend_value
    currency = campaign.currency
    tiers, audiences = frozenset(campaign.loyalty_tier_keys), frozenset(campaign.audience_keys)
    if locations:
        yield Restriction(
            "LOCATION",
            lambda event: event.location_code not in locations,
            lambda event: event.location_code,
            lambda fact: (
                "the event has no location" if fact is None else f"the campaign does not run at location {fact}"
            ),
        )
    if currency is not None:
        yield Restriction(
            "CURRENCY",
            lambda event: event.currency != currency,
            lambda event: event.currency,
            lambda fact: (
                "the event has no currency"
                if fact is None
                else f"the campaign is for {currency}, the event is in {fact}"
            ),
        )
    if tiers:
        yield Restriction(
            "TIER",
            lambda event: tiers.isdisjoint(event.tier_keys),
            lambda event: sorted(event.tier_keys),
            lambda fact: "the member is in none of the campaign's tiers",
        )
    if audiences:
        yield Restriction(
            "AUDIENCE",
            lambda event: audiences.isdisjoint(event.audience_keys),
            lambda event: sorted(event.audience_keys),
            lambda fact: "the member is in none of the campaign's audiences",
        )
    if min_spend is not None:
        yield Restriction(
            "MIN_SPEND",
            lambda event: event.spend is None or event.spend < min_spend,
            lambda event: event.spend,
            lambda fact: "the event has no spend" if fact is None else f"the spend {fact} is below {min_spend}",
        )
