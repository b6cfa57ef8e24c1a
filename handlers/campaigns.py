"""Campaigns and their actions (administration "Campaigns and actions")."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.campaigns.checks import faults_of_constants, faults_of_limits
from domain.campaigns.compiled import CompiledEffect, compile_effects, compile_rules, without_nulls
from domain.campaigns.records import Action, Campaign, CampaignChanged
from domain.campaigns.references import (
    Sources,
    calls_matches,
    sources_of,
    unknown_keys,
    unknown_matchers,
)
from domain.event_types import BUILT_IN_EVENT_TYPES, EVENTS_WITH_ORDER
from domain.expressions import MAX_TEXTS, Node
from domain.ledger.session import refuse_untracked_expiry
from domain.problems import FieldFault, InvalidRequest
from domain.timezones import localized, zone_faults
from domain.triggers import CAMPAIGN, CREATED, UPDATED
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import listed, values_of, wrapped
from handlers.operation import operation
from handlers.schemas.campaigns import (
    ACTION,
    ACTION_BODY,
    ACTION_CHANGES,
    CAMPAIGN_BODY,
    CAMPAIGN_CHANGES,
    ActionProperties,
    CampaignProperties,
    campaign_record,
)
from handlers.services import references
from handlers.services.configuration import Configuration, configuration_of
from handlers.services.known_keys import known_keys
from handlers.services.webhooks.outbox import entity_changed
from persistence import campaigns
from persistence.campaigns import ACTIONS, CAMPAIGNS
from persistence.paging import Paged

_AUDITED = Audited("campaign", "campaign_id", campaign_record)
_AUDITED_ACTION = Audited("action", "action_id", ACTION)


@operation("listCampaigns", answer=listed(campaign_record))
def list_campaigns(call: Call, query: Mapping[str, Any]) -> Paged[Campaign]:
    """A page of campaigns."""
    return CAMPAIGNS.find_page(call.db, call.organization.organization_id, query)


@operation(
    "createCampaign",
    body=CAMPAIGN_BODY,
    answer=wrapped("campaign", campaign_record),
    audit=_AUDITED,
    changes_configuration=True,
)
def create_campaign(call: Call, body: CampaignProperties) -> Campaign:
    """Create a campaign, which has no actions yet."""
    values = {"campaign_key": call.new_key(), **values_of(_validated(call, body, None))}
    made = CAMPAIGNS.add(call.db, call.organization.organization_id, values, call.now)
    entity_changed(call, CAMPAIGN, CREATED, lambda: campaign_record(made))
    return made


@operation("getCampaign", answer=wrapped("campaign", campaign_record))
def get_campaign(call: Call, campaign: Campaign) -> Campaign:
    """One campaign."""
    return campaign


@operation(
    "updateCampaign",
    body=CAMPAIGN_CHANGES,
    merge_into="campaign",
    answer=wrapped("campaign", campaign_record),
    audit=_AUDITED.changing("campaign"),
    changes_configuration=True,
)
def update_campaign(call: Call, campaign: Campaign, body: CampaignProperties) -> Campaign:
    """Change a campaign; all processes use the change from their next event on."""
    body = _validated(call, body, campaign)
    changed = campaigns.store_campaign(call.db, campaign, values_of(body), call.now)
    entity_changed(call, CAMPAIGN, UPDATED, lambda: campaign_record(changed))
    return changed


@operation("listActions", answer=listed(ACTION))
def list_actions(call: Call, campaign: Campaign, query: Mapping[str, Any]) -> Paged[Action]:
    """A page of a campaign's actions."""
    return ACTIONS.find_page(call.db, campaign.organization_id, query, campaign_id=campaign.campaign_id)


@operation(
    "createAction",
    body=ACTION_BODY,
    answer=wrapped("action", ACTION),
    audit=_AUDITED_ACTION,
    changes_configuration=True,
)
def create_action(call: Call, campaign: Campaign, body: ActionProperties) -> Action:
    """Add an action, after the campaign's last one unless the body says where."""
    body = _checked_action(call, campaign, body, None)
    # Raising the configuration's version makes simultaneous creations take their places one after the other.
    _refuse_outdated(call, campaign, body.campaign_version_id)
    if body.action_index is None:
        body = replace(body, action_index=campaigns.next_action_index(call.db, campaign))
    made = campaigns.add_action(call.db, campaign, {"action_key": call.new_key(), **values_of(body)}, call.now)
    entity_changed(call, CAMPAIGN, UPDATED, lambda: _present_record(call, campaign))
    return made


@operation("getAction", answer=wrapped("action", ACTION))
def get_action(call: Call, campaign: Campaign, action: Action) -> Action:
    """One action."""
    return action


@operation(
    "updateAction",
    body=ACTION_CHANGES,
    merge_into="action",
    answer=wrapped("action", ACTION),
    audit=_AUDITED_ACTION.changing("action"),
    changes_configuration=True,
)
def update_action(call: Call, campaign: Campaign, action: Action, body: ActionProperties) -> Action:
    """Change an action; it keeps its place unless the body says where."""
    body = _checked_action(call, campaign, body, action)
    _refuse_outdated(call, campaign, body.campaign_version_id)
    if body.action_index is None:
        body = replace(body, action_index=action.action_index)
    changed = campaigns.store_action(call.db, campaign, action, values_of(body), call.now)
    entity_changed(call, CAMPAIGN, UPDATED, lambda: _present_record(call, campaign))
    return changed


def _present_record(call: Call, campaign: Campaign) -> dict[str, Any]:
    """The record of a campaign whose actions have changed, and therefore its version."""
    return campaign_record(CAMPAIGNS.find(call.db, campaign.organization_id, campaign.campaign_id))


def _refuse_outdated(call: Call, campaign: Campaign, version: int | None) -> None:
    """Refuse a change based on another version of the campaign than the present one.

    Nobody else can change the campaign at this point.
    """
    if version is None:
        return
    now = CAMPAIGNS.find(call.db, campaign.organization_id, campaign.campaign_id) or campaign
    if now.campaign_version_id != version:
        raise CampaignChanged(f"The campaign is at version {now.campaign_version_id}, not {version}.")


def _validated(call: Call, body: CampaignProperties, before: Campaign | None) -> CampaignProperties:
    """The campaign as it is stored; refuses unknown references, an end before its begin, and limits out of reach.

    An event type that it named `before` may have been deactivated since.
    """
    body = localized(body, ("valid_from", "valid_to"), call.organization.timezone)
    if body.valid_from and body.valid_to and body.valid_to < body.valid_from:
        raise InvalidRequest([FieldFault("validTo is before validFrom", pointer="/validTo")])
    faults = [*zone_faults(body.timezone), *faults_of_limits(body.limit_rules)]
    if faults:
        raise InvalidRequest(faults)
    configuration = configuration_of(call.db, call.organization)
    references.refuse_unknown(call, loyalty_program=body.loyalty_program_id)
    references.refuse_unknown_tiers(configuration, body.loyalty_tier_keys)
    body = replace(body, audience_keys=[key.lower() for key in body.audience_keys])
    references.refuse_unknown_audiences(call, body.audience_keys)
    for rule in body.limit_rules:
        references.refuse_unknown_account(configuration, rule.get("ledgerAccountKey"))
    kept = set() if before is None else {before.event_type, *before.enabled_topics}
    for event_type in (*body.enabled_topics, *([body.event_type] if body.event_type else [])):
        if event_type not in kept:
            references.refuse_unknown_event_type(configuration, event_type)
    return body


def _refuse_unknown_records(call: Call, configuration: Configuration, effect: CompiledEffect) -> None:
    """Refuse an effect that names unknown records.

    Records that expressions name are looked up when an event is evaluated.
    """
    named = {param.parameter.id: param.value for param in effect.params if param.program is None}
    references.refuse_unknown_account(configuration, named.get("ledgerAccountKey"))
    references.refuse_unknown_badge(configuration, named.get("badgeKey"))
    references.refuse_unknown_mission(configuration, named.get("missionKey"))
    if named.get("couponBookKey") is not None:
        references.coupon_book(call, named["couponBookKey"])
    references.refuse_unknown_tier(configuration, named.get("loyaltyProgramKey"), named.get("loyaltyTierKey"))


def _matches_without_items(campaign: Campaign, sources: Sources) -> list[FieldFault]:
    """A fault if a rule looks at order items, but no event type of the campaign has any."""
    types = {*campaign.enabled_topics, *([campaign.event_type] if campaign.event_type else [])}
    if not types or not types.isdisjoint(EVENTS_WITH_ORDER) or not types <= set(BUILT_IN_EVENT_TYPES):
        return []
    if not calls_matches(sources):
        return []
    detail = f"rules call matches(), which looks at items of orders, and {', '.join(sorted(types))} has none"
    return [FieldFault(detail, pointer="/rules")]


def _too_long(effects: Mapping[str, Any]) -> list[FieldFault]:
    """A fault if the texts of all expressions together are too long to be compiled in a moment."""
    params = [param for item in effects.get("items", ()) for param in item.get("params", ())]
    size = sum(len(param.get("expression") or "") for param in params)
    if size <= MAX_TEXTS:
        return []
    return [FieldFault(f"effects have expressions of more than {MAX_TEXTS} characters together", pointer="/effects")]


def _checked_action(call: Call, campaign: Campaign, body: ActionProperties, before: Action | None) -> ActionProperties:
    """The action as it is stored; refuses all faults of its rules and effects at once, including unknown references.

    Rules and effects that equal those of `before` are not checked again, so that an action can always be stopped.
    """
    rules, written = without_nulls(body.rules, body.effects)
    body = replace(body, rules=rules, effects=written)
    if before is not None and (rules, written) == (before.rules, before.effects):
        return body
    faults = _too_long(written)
    if faults:
        raise InvalidRequest(faults)
    rule: Node | None = None
    effects: tuple[CompiledEffect, ...] = ()
    try:
        rule, _ = compile_rules(rules)
    except InvalidRequest as refusal:
        faults += refusal.faults
    try:
        effects = compile_effects(written)
        faults += faults_of_constants(effects, written, call.now)
    except InvalidRequest as refusal:
        faults += refusal.faults
    configuration = configuration_of(call.db, call.organization)
    if not faults:
        sources = sources_of(rules, rule, written, effects)
        faults += unknown_matchers(sources, configuration.matcher_keys)
        faults += unknown_keys(sources, known_keys(call.db, configuration, sources))
        faults += _matches_without_items(campaign, sources)
    if faults:
        raise InvalidRequest(faults)
    for effect in effects:
        _refuse_unknown_records(call, configuration, effect)
        _refuse_untracked_expiry(configuration, campaign, effect)
    return body


def _refuse_untracked_expiry(configuration: Configuration, campaign: Campaign, effect: CompiledEffect) -> None:
    """Refuse a constant expiration date for points of an account that does not track them."""
    named = {param.parameter.id: param.value for param in effect.params if param.program is None}
    if named.get("expirationDate") is None or "ledgerAccountKey" not in named:
        return
    key = named["ledgerAccountKey"]
    main = configuration.main_accounts.get(campaign.loyalty_program_id)
    account = main if key is None else configuration.accounts_by_key.get(key)
    if account is not None:
        refuse_untracked_expiry(account, named["expirationDate"])
