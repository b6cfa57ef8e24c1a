"""Campaigns, actions and the catalogue of effects on the wire (administration "Campaigns and actions")."""

from typing import Any

from domain.campaigns.compiled import compile_action
from domain.campaigns.effects import Effect
from domain.campaigns.records import Action, Campaign
from domain.campaigns.warnings import warnings_of_action
from handlers.messages.base import Shape
from handlers.messages.campaigns import limit_rule
from handlers.messages.json_text import exact_number
from handlers.schemas.expressions import WARNING
from handlers.services.campaign_limits import CampaignView, LimitFigures

ACTION = Shape(Action)
_CAMPAIGN = Shape(Campaign, optional=("day_of_week_schedule",))


def campaign_record(campaign: Any) -> dict[str, Any]:
    """The record of a campaign; every limit rule has `ledgerAccountKey`, null if it names no account."""
    response = _CAMPAIGN.dump(campaign)
    response["limitRules"] = list(map(limit_rule, campaign.limit_rules))
    return response


def campaign_view_response(view: CampaignView) -> dict[str, Any]:
    """The response with one campaign, and with its limits if the view has them."""
    record = campaign_record(view.campaign)
    if view.limits is not None:
        record["limits"] = list(map(_limit, view.limits))
    return {"campaign": record}


def _limit(figures: LimitFigures) -> dict[str, Any]:
    """A limit rule with its used and remaining amounts, null for a limit that each member has."""
    amounts = {"used": figures.used, "left": figures.remaining}
    numbers = {name: None if amount is None else exact_number(amount) for name, amount in amounts.items()}
    return {**limit_rule(figures.rule), **numbers, "location": figures.location}


def saved_action(action: Action) -> dict[str, Any]:
    """The response to a request that saved an action: its record, and the warnings about its expressions."""
    return {"action": ACTION.dump(action), "warnings": list(map(WARNING, warnings_of_action(compile_action(action))))}


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
