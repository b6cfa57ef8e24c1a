"""Campaigns, actions and the catalogue of effects on the wire (administration "Campaigns and actions")."""

from __future__ import annotations

from typing import Any

from domain.campaigns.effects import Effect
from handlers.messages.base import OF_REQUEST, Exact, Instant, LocalInstant, Plain, Shape, WireSchema


class _Campaign(WireSchema):
    loyalty_program_id = Plain()
    code = Plain()
    active = Plain(load_default=True)
    name = Plain()
    description = Plain()
    picture_url = Plain()
    type = Plain()
    tags = Plain(load_default=list)
    enabled_topics = Plain(load_default=list)
    audience_keys = Plain(load_default=list)
    days_of_week = Plain(load_default=list)
    location_codes = Plain(load_default=list)
    loyalty_tier_keys = Plain(load_default=list)
    event_type = Plain()
    points_monthly_limit_per_member = Exact()
    allow_partial_application_on_limit = Plain(load_default=False)
    max_transactions_per_member = Plain()
    limit_rules = Plain(load_default=list)
    min_spend_value = Exact()
    custom_attributes = Plain(load_default=dict)
    smart_rewards = Plain(load_default=dict)
    valid_from = LocalInstant()
    valid_to = LocalInstant()
    timezone = Plain()


class _CampaignRecord(_Campaign):
    organization_id = Plain()
    campaign_id = Plain()
    campaign_key = Plain()
    campaign_version_id = Plain()
    created_at = Instant()
    updated_at = Instant()


class _Action(WireSchema):
    campaign_version_id = Plain(metadata=OF_REQUEST)
    action_index = Plain()
    abort_evaluation_if_false = Plain(load_default=False)
    abort_evaluation_on_error = Plain(load_default=False)
    name = Plain()
    rules = Plain(load_default=dict)
    effects = Plain()
    status = Plain()
    priority = Plain()
    exclusive_group = Plain()


class _ActionRecord(_Action):
    organization_id = Plain()
    campaign_id = Plain()
    action_id = Plain()
    action_key = Plain()
    created_at = Instant()
    updated_at = Instant()


CAMPAIGN_BODY = Shape(_Campaign, complete=True)
CAMPAIGN_CHANGES = Shape(_Campaign)
ACTION_BODY = Shape(_Action, complete=True)
ACTION_CHANGES = Shape(_Action)
ACTION = Shape(_ActionRecord)
_CAMPAIGN = Shape(_CampaignRecord)


def campaign_record(campaign: Any) -> dict[str, Any]:
    """The record of a campaign; every limit rule has `ledgerAccountKey`, null if it names no account."""
    answer = _CAMPAIGN.dump(campaign)
    answer["limitRules"] = [{"ledgerAccountKey": None, **rule} for rule in campaign.limit_rules]
    return answer


def effect_record(effect: Effect, organization_id: int) -> dict[str, Any]:
    """An effect of the catalogue."""
    return {
        "organizationId": organization_id,
        "effectId": effect.effect_id,
        "name": effect.name,
        "supportedEventTypes": dict(effect.supported_event_types),
        "params": [
            {
                "id": param.id,
                "label": param.label,
                "type": str(param.type),
                "defaultValue": param.default_value,
                "isOptional": param.is_optional,
            }
            for param in effect.params
        ],
    }
