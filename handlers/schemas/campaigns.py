"""Campaigns, actions and the catalogue of effects on the wire (administration "Campaigns and actions")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from domain.campaigns.effects import Effect
from domain.campaigns.records import Action, Campaign
from handlers.messages.base import OF_REQUEST, Body, LocalMoment, Shape, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProperties:
    """The writable fields of a campaign."""

    loyalty_program_id: int | None = None
    code: str
    active: bool = True
    name: str
    description: str | None = None
    picture_url: str | None = None
    type: str | None = None
    tags: Sequence[str] = ()
    enabled_topics: Sequence[str] = ()
    audience_keys: Sequence[str] = ()
    days_of_week: Sequence[int] = ()
    location_codes: Sequence[str] = ()
    loyalty_tier_keys: Sequence[str] = ()
    event_type: str | None = None
    points_monthly_limit_per_member: Decimal | None = None
    allow_partial_application_on_limit: bool = False
    max_transactions_per_member: int | None = None
    limit_rules: Sequence[Mapping[str, Any]] = ()
    min_spend_value: Decimal | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    smart_rewards: Mapping[str, Any] = field(default_factory=dict)
    valid_from: LocalMoment | None = None
    valid_to: LocalMoment | None = None
    timezone: str | None = None
    external_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionProperties:
    """The writable fields of an action; `campaign_version_id` is the version that the request was made for."""

    campaign_version_id: int | None = field(default=None, metadata=OF_REQUEST)
    action_index: int | None = None
    abort_evaluation_if_false: bool = False
    abort_evaluation_on_error: bool = False
    name: str | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)
    effects: Mapping[str, Any]
    status: str
    priority: int
    exclusive_group: str | None = None
    external_key: str | None = None


CAMPAIGN_BODY = Body(CampaignProperties)
CAMPAIGN_CHANGES = Update(CampaignProperties)
ACTION_BODY = Body(ActionProperties)
ACTION_CHANGES = Update(ActionProperties)
ACTION = Shape(Action)
_CAMPAIGN = Shape(Campaign)


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
