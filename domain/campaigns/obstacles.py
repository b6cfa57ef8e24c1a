"""What keeps a campaign from an event before any of its rules is asked."""

from __future__ import annotations

from domain.calendar import day_of_week
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.facts import EventFacts
from domain.campaigns.outcomes import Reason


def obstacle_of(compiled: CompiledCampaign, event: EventFacts) -> Reason | None:
    """Why the campaign does not apply to the event at all; None if it does. What costs least is asked first."""
    campaign = compiled.campaign
    if not campaign.active:
        return Reason("CAMPAIGN_INACTIVE", "the campaign is not active", False)
    if not compiled.considers(event.event_type):
        return Reason("EVENT_TYPE", f"the campaign does not look at {event.event_type}", event.event_type)
    if campaign.valid_from is not None and event.at < campaign.valid_from:
        return Reason("OUTSIDE_WINDOW", f"the campaign begins at {campaign.valid_from.isoformat()}", event.at)
    if campaign.valid_to is not None and event.at > campaign.valid_to:
        return Reason("OUTSIDE_WINDOW", f"the campaign ended at {campaign.valid_to.isoformat()}", event.at)
    if campaign.days_of_week and day_of_week(event.at) not in campaign.days_of_week:
        day = day_of_week(event.at)
        return Reason("DAY_OF_WEEK", f"the campaign does not run on day {day} of the week", day)
    if compiled.location_codes and event.location_code not in compiled.location_codes:
        label = f"the campaign does not run at location {event.location_code}"
        return Reason("LOCATION", label, event.location_code)
    if compiled.tier_keys and not compiled.tier_keys & event.tier_keys:
        return Reason("TIER", "the member is in none of the campaign's tiers", sorted(event.tier_keys))
    if compiled.audience_keys and not compiled.audience_keys & event.audience_keys:
        return Reason("AUDIENCE", "the member is in none of the campaign's audiences", sorted(event.audience_keys))
    if campaign.min_spend_value is not None and (event.spend is None or event.spend < campaign.min_spend_value):
        return Reason("MIN_SPEND", f"the spend {event.spend} is below {campaign.min_spend_value}", event.spend)
    return None
