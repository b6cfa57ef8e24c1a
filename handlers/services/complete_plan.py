"""The plan of an evaluation that explains inactive campaigns, too."""

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import Connection

from domain.campaigns.compiled import CompiledCampaign, EvaluationPlan, compile_campaign
from domain.organizations import Organization
from persistence import campaigns


def complete_plan(
    db: Connection,
    organization: Organization,
    active_campaigns: tuple[CompiledCampaign, ...],
    keys: Collection[str] | None,
) -> EvaluationPlan:
    """The plan of the active campaigns, and of inactive campaigns and actions, so that all can be explained.

    Only inactive campaigns with these `keys` are added, None for all.
    """
    inactive_campaigns, inactive_actions = campaigns.find_inactive(db, organization.organization_id, keys)
    active_ids = {campaign.record.campaign_id for campaign in active_campaigns}
    compiled_campaigns = [
        replace(campaign, inactive_actions=tuple(inactive_actions.get(campaign.record.campaign_id, ())))
        for campaign in active_campaigns
    ]
    compiled_campaigns += [
        compile_campaign(campaign, actions=(), limits=(), main_account=None, default_timezone=organization.timezone)
        for campaign in inactive_campaigns
        if campaign.campaign_id not in active_ids
    ]
    return EvaluationPlan.of(sorted(compiled_campaigns, key=lambda campaign: campaign.record.campaign_id))
