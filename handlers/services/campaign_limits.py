"""The used and remaining amounts of the limits of a campaign."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from domain.calendar import zone_named
from domain.campaigns.counters import ALL_MEMBERS
from domain.campaigns.limits import LOCATION, MEMBER, LimitRule, counter_of, limit_rules_of
from domain.campaigns.records import Campaign
from handlers.call import Call
from handlers.services.configuration import configuration_of
from persistence import limit_counters

MAX_LOCATIONS = 100


@dataclass(frozen=True, slots=True)
class LimitFigures:
    """The used and remaining amount of a rule in the current period, in total or at one `location`.

    Both amounts are None for a rule per member, which has them for each member.
    """

    rule: Mapping[str, Any]
    used: Decimal | None = None
    remaining: Decimal | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class CampaignView:
    """A campaign, with the figures of its limits, None if they were not requested."""

    campaign: Campaign
    limits: list[LimitFigures] | None = None


def view_campaign(call: Call, campaign: Campaign, *, with_limits: bool) -> CampaignView:
    """A campaign in the form of the response; it has the figures of its limits only if `with_limits`."""
    if not with_limits:
        return CampaignView(campaign)
    accounts = configuration_of(call.db, call.organization).accounts_by_key
    account_ids = {key: account.ledger_account_id for key, account in accounts.items()}
    rules = [rule for rule in limit_rules_of(campaign, account_ids) if rule.api_form]
    return CampaignView(campaign, [figures for rule in rules for figures in _figures(call, campaign, rule)])


def _figures(call: Call, campaign: Campaign, rule: LimitRule) -> Iterator[LimitFigures]:
    """The figures of a rule, the most used location first."""
    if rule.scope == MEMBER:
        yield LimitFigures(rule.api_form)
        return
    db, organization_id = call.db, campaign.organization_id
    zone = zone_named(campaign.timezone or call.organization.timezone)
    key = counter_of(rule, campaign.campaign_id, ALL_MEMBERS, call.now, zone)
    if rule.scope != LOCATION:
        total = limit_counters.read(db, organization_id, [key]).get(key, Decimal(0))
        yield LimitFigures(rule.api_form, total, max(Decimal(0), rule.limit - total))
        return
    for counter, total in limit_counters.find_most_used(db, organization_id, key, MAX_LOCATIONS):
        code = counter.location_code or ""
        yield LimitFigures(rule.api_form, total, max(Decimal(0), rule.limit_at(code) - total), code)
