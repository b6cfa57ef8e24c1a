"""What keeps a campaign from an event before any of its rules is asked."""

from __future__ import annotations

from domain.calendar import day_of_week
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.facts import EventFacts


def obstacle_of(compiled: CompiledCampaign, event: EventFacts) -> tuple[str, str] | None:
    """Why the campaign does not apply to the event at all, as (code, label); None if it does."""
    campaign = compiled.campaign
    if not campaign.active:
        return "CAMPAIGN_INACTIVE", "the campaign is not active"
    if not compiled.considers(event.event_type):
        return "EVENT_TYPE", f"the campaign does not look at {event.event_type}"
    if campaign.valid_from is not None and event.at < campaign.valid_from:
        return "OUTSIDE_WINDOW", f"the campaign begins at {campaign.valid_from.isoformat()}"
    if campaign.valid_to is not None and event.at > campaign.valid_to:
        return "OUTSIDE_WINDOW", f"the campaign ended at {campaign.valid_to.isoformat()}"
    if campaign.days_of_week and day_of_week(event.at) not in campaign.days_of_week:
        return "DAY_OF_WEEK", f"the campaign does not run on day {day_of_week(event.at)} of the week"
    if compiled.location_codes and event.location_code not in compiled.location_codes:
        return "LOCATION", f"the campaign does not run at location {event.location_code}"
    if compiled.tier_keys and not compiled.tier_keys & event.tier_keys:
        return "TIER", "the member is in none of the campaign's tiers"
    if compiled.audience_keys and not compiled.audience_keys & event.audience_keys:
        return "AUDIENCE", "the member is in none of the campaign's audiences"
    if campaign.min_spend_value is not None and (event.spend is None or event.spend < campaign.min_spend_value):
        return "MIN_SPEND", f"the spend {event.spend} is below {campaign.min_spend_value}"
    return None
