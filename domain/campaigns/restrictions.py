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
    """The restrictions to active campaigns, and to the event types of the campaign, if it names any."""
    if not campaign.active:
        yield Restriction(
            "CAMPAIGN_INACTIVE",
            forbids=lambda event: True,
            fact_of=lambda event: False,
            label=lambda fact: "the campaign is not active",
        )
    if event_types:
        yield Restriction(
            "EVENT_TYPE",
            forbids=lambda event: event.event_type not in event_types,
            fact_of=lambda event: event.event_type,
            label=lambda fact: f"the campaign does not apply to events of type {fact}",
        )


def _time_restrictions(campaign: Campaign, zone: tzinfo) -> Iterator[Restriction]:
    """The restrictions to a range of dates, and to days and hours in the zone of the location or the campaign."""
    begin, end, days = campaign.valid_from, campaign.valid_to, frozenset(campaign.days_of_week)
    schedule = campaign.day_of_week_schedule
    if begin is not None:
        yield Restriction(
            "OUTSIDE_WINDOW",
            forbids=lambda event: event.at < begin,
            fact_of=lambda event: event.at,
            label=lambda fact: f"the campaign begins at {begin.isoformat()}, the event is dated {fact.isoformat()}",
        )
    if end is not None:
        yield Restriction(
            "OUTSIDE_WINDOW",
            forbids=lambda event: event.at > end,
            fact_of=lambda event: event.at,
            label=lambda fact: f"the campaign ended at {end.isoformat()}, the event is dated {fact.isoformat()}",
        )
    if days:
        yield Restriction(
            "DAY_OF_WEEK",
            forbids=lambda event: day_of_week(event.at, event.location_zone or zone) not in days,
            fact_of=lambda event: day_of_week(event.at, event.location_zone or zone),
            label=lambda fact: f"the campaign does not run on day {fact} of the week",
        )
    if schedule is not None:
        hours = hours_of(schedule)
        yield Restriction(
            "OUTSIDE_HOURS",
            forbids=lambda event: not hours.is_open(event.at, event.location_zone or zone),
            fact_of=lambda event: local_clock(event.at, event.location_zone or zone),
            label=lambda fact: (
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
            forbids=lambda event: event.location_code not in locations,
            fact_of=lambda event: event.location_code,
            label=lambda fact: (
                "the event has no location" if fact is None else f"the campaign does not run at location {fact}"
            ),
        )
    if currency is not None:
        yield Restriction(
            "CURRENCY",
            forbids=lambda event: event.currency != currency,
            fact_of=lambda event: event.currency,
            label=lambda fact: (
                "the event has no currency"
                if fact is None
                else f"the campaign is for {currency}, the event is in {fact}"
            ),
        )
    if tiers:
        yield Restriction(
            "TIER",
            forbids=lambda event: tiers.isdisjoint(event.tier_keys),
            fact_of=lambda event: sorted(event.tier_keys),
            label=lambda fact: "the member is in none of the campaign's tiers",
        )
    if audiences:
        yield Restriction(
            "AUDIENCE",
            forbids=lambda event: audiences.isdisjoint(event.audience_keys),
            fact_of=lambda event: sorted(event.audience_keys),
            label=lambda fact: "the member is in none of the campaign's audiences",
        )
    if min_spend is not None:
        yield Restriction(
            "MIN_SPEND",
            forbids=lambda event: event.spend is None or event.spend < min_spend,
            fact_of=lambda event: event.spend,
            label=lambda fact: "the event has no spend" if fact is None else f"the spend {fact} is below {min_spend}",
        )
