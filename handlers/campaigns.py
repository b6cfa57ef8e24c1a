"""Campaigns and their actions (administration "Campaigns and actions")."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.campaigns.records import Action, Campaign
from domain.triggers import CAMPAIGN, CREATED, UPDATED
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.campaigns import ACTION, campaign_record, campaign_view_response, saved_action
from handlers.services.campaign_limits import CampaignView, view_campaign
from handlers.services.campaigns import (
    ActionProperties,
    CampaignProperties,
    refuse_outdated,
    validated_action,
    validated_campaign,
)
from handlers.services.webhooks.outbox import queue_entity_change
from persistence import campaigns
from persistence.campaigns import ACTIONS, CAMPAIGNS
from persistence.paging import Paged

_AUDITED = Audited("campaign", "campaign_id", campaign_record)
_AUDITED_ACTION = Audited("action", "action_id", ACTION)


declare_list("listCampaigns", CAMPAIGNS.find_page, listed(campaign_record))


@operation("createCampaign", response=wrapped("campaign", campaign_record), audit=_AUDITED, changes_configuration=True)
def create_campaign(call: Call, body: CampaignProperties) -> Campaign:
    """Create a campaign, which has no actions yet."""
    values = {"campaign_key": call.new_key(), **values_of(validated_campaign(call, body, before=None))}
    campaign = CAMPAIGNS.add(call.db, call.organization.organization_id, values, call.now)
    queue_entity_change(call, CAMPAIGN, CREATED, lambda: campaign_record(campaign))
    return campaign


@operation("getCampaign", response=campaign_view_response)
def get_campaign(call: Call, campaign: Campaign, query: Mapping[str, Any]) -> CampaignView:
    """One campaign; with `include=limits` also the used part of each limit."""
    return view_campaign(call, campaign, with_limits="limits" in query.get("include", ()))


@operation(
    "updateCampaign",
    response=wrapped("campaign", campaign_record),
    audit=_AUDITED.changing("campaign"),
    changes_configuration=True,
)
def update_campaign(call: Call, campaign: Campaign, body: Merged[CampaignProperties]) -> Campaign:
    """Change a campaign; all processes use the change from their next event on."""
    body = validated_campaign(call, body, campaign)
    updated_campaign = campaigns.store_campaign(call.db, campaign, values_of(body), call.now)
    queue_entity_change(call, CAMPAIGN, UPDATED, lambda: campaign_record(updated_campaign))
    return updated_campaign


@operation("listActions", response=listed(ACTION))
def list_actions(call: Call, campaign: Campaign, query: Mapping[str, Any]) -> Paged[Action]:
    """A page of a campaign's actions."""
    return ACTIONS.find_page(call.db, campaign.organization_id, query, campaign_id=campaign.campaign_id)


@operation("createAction", response=saved_action, audit=_AUDITED_ACTION, changes_configuration=True)
def create_action(call: Call, campaign: Campaign, body: ActionProperties) -> Action:
    """Add an action at the position in the body, by default after the campaign's last action."""
    body = validated_action(call, campaign, body, before=None)
    # `changes_configuration` serializes creations, so no two actions get the same next position.
    refuse_outdated(call, campaign, body.campaign_version_id)
    if body.action_index is None:
        body = replace(body, action_index=campaigns.next_action_index(call.db, campaign))
    action = campaigns.add_action(call.db, campaign, {"action_key": call.new_key(), **values_of(body)}, call.now)
    queue_entity_change(call, CAMPAIGN, UPDATED, lambda: _current_record(call, campaign))
    return action


declare_get("getAction", "action", wrapped("action", ACTION))


@operation("updateAction", response=saved_action, audit=_AUDITED_ACTION.changing("action"), changes_configuration=True)
def update_action(call: Call, campaign: Campaign, action: Action, body: Merged[ActionProperties]) -> Action:
    """Change an action; it keeps its position unless the body has one."""
    body = validated_action(call, campaign, body, action)
    refuse_outdated(call, campaign, body.campaign_version_id)
    if body.action_index is None:
        body = replace(body, action_index=action.action_index)
    updated_action = campaigns.store_action(call.db, campaign, action, values_of(body), call.now)
    queue_entity_change(call, CAMPAIGN, UPDATED, lambda: _current_record(call, campaign))
    return updated_action


def _current_record(call: Call, campaign: Campaign) -> dict[str, Any]:
    """The record of a campaign, read again, because the change of an action has incremented its version."""
    return campaign_record(CAMPAIGNS.find(call.db, campaign.organization_id, campaign.campaign_id))
