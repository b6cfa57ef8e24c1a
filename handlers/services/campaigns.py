"""Checks of campaigns and their actions before they are saved: what can never work is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from domain.calendar import with_offsets, zone_faults
from domain.campaigns.checks import (
    SharedRule,
    faults_of_constants,
    faults_of_length,
    faults_of_limits,
    faults_of_sharing,
)
from domain.campaigns.compiled import CompiledEffect, compile_effects, compile_rules, without_nulls
from domain.campaigns.cooldowns import faults_of_cooldown
from domain.campaigns.records import PRORATE, Action, Campaign, CampaignChanged
from domain.campaigns.references import faults_of_matches, sources_of, unknown_keys, unknown_matchers
from domain.expressions import Node
from domain.fields import Key
from domain.hours import hours_faults
from domain.ledger.availability import Availability
from domain.ledger.session import refuse_untracked_expiry
from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call
from handlers.messages.base import OF_REQUEST, LocalMoment
from handlers.services import references, stacking_groups
from handlers.services.configuration import Configuration, configuration_of
from handlers.services.known_keys import known_keys
from persistence.campaigns import CAMPAIGNS


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
    audience_keys: Sequence[Key] = ()
    days_of_week: Sequence[int] = ()
    day_of_week_schedule: Mapping[str, Any] | None = None
    location_codes: Sequence[str] = ()
    loyalty_tier_keys: Sequence[Key] = ()
    event_type: str | None = None
    points_monthly_limit_per_member: Decimal | None = None
    allow_partial_application_on_limit: bool = False
    max_transactions_per_member: int | None = None
    limit_rules: Sequence[Mapping[str, Any]] = ()
    min_spend_value: Decimal | None = None
    cooldown: str | None = None
    currency: str | None = None
    exclusive: bool = False
    on_return: str = PRORATE
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
    stacking_group_key: Key | None = None
    external_key: str | None = None


def validated_campaign(call: Call, body: CampaignProperties, before: Campaign | None) -> CampaignProperties:
    """The campaign to store; refuses unknown references, an end before its begin, and faulty limits and hours.

    Event types that the stored campaign (`before`) already has are not checked again, as they may be inactive by now.
    """
    body = with_offsets(body, ("valid_from", "valid_to"), call.organization.timezone)
    body = replace(body, limit_rules=tuple(map(_with_lower_account_key, body.limit_rules)))
    if body.valid_from and body.valid_to and body.valid_to < body.valid_from:
        raise InvalidRequest([FieldFault("validTo is before validFrom", pointer="/validTo")])
    currency = body.currency or call.organization.currency
    faults = [*zone_faults(body.timezone), *faults_of_limits(body.limit_rules, has_currency=currency is not None)]
    faults += faults_of_cooldown(body.cooldown)
    faults += _faults_of_sharing(call, body, before)
    faults += hours_faults(body.day_of_week_schedule, has_days_of_week=bool(body.days_of_week))
    if faults:
        raise InvalidRequest(faults)
    configuration = configuration_of(call.db, call.organization)
    references.refuse_unknown(call, loyalty_program=body.loyalty_program_id)
    references.refuse_unknown_tiers(configuration, body.loyalty_tier_keys)
    references.refuse_unknown_audiences(call, body.audience_keys)
    for rule in body.limit_rules:
        references.refuse_unknown_account(configuration, rule.get("ledgerAccountKey"))
    stored_event_types = set() if before is None else {before.event_type, *before.enabled_topics}
    event_types = [*body.enabled_topics]
    if body.event_type:
        event_types.append(body.event_type)
    for event_type in event_types:
        if event_type not in stored_event_types:
            references.refuse_unknown_event_type(configuration, event_type)
    return body


def _with_lower_account_key(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """A limit rule whose account key, if it has one, is in lower case."""
    key = rule.get("ledgerAccountKey")
    return rule if key is None else {**rule, "ledgerAccountKey": key.lower()}


def _faults_of_sharing(call: Call, body: CampaignProperties, before: Campaign | None) -> list[FieldFault]:
    """The faults of limit rules that share a counter with rules of other active campaigns, but differ from them."""
    if not any(rule.get("sharedKey") for rule in body.limit_rules):
        return []
    # An inactive campaign counts nothing, so its rules are only compared with each other.
    compiled_campaigns = configuration_of(call.db, call.organization).campaigns if body.active else ()
    other_rules = []
    for compiled in compiled_campaigns:
        campaign = compiled.record
        if before is None or campaign.campaign_id != before.campaign_id:
            shared_rules = [rule for rule in campaign.limit_rules if rule.get("sharedKey")]
            other_rules += [SharedRule(rule, campaign.currency, campaign.code) for rule in shared_rules]
    return faults_of_sharing(body.limit_rules, body.currency, other_rules)


def validated_action(call: Call, campaign: Campaign, body: ActionProperties, before: Action | None) -> ActionProperties:
    """The action to store; refuses it with all faults of its rules and effects at once, including unknown references.

    Rules and effects that are the same as `before` are not checked again. They might be refused now, but an action can
    always be stopped.
    """
    rules, written_effects = without_nulls(body.rules, body.effects)
    body = replace(body, rules=rules, effects=written_effects)
    group = stacking_groups.group_of(call, body.stacking_group_key, body.exclusive_group, before)
    stays_in_group = before is not None and body.stacking_group_key == before.stacking_group_key
    if before is not None and (rules, written_effects) == (before.rules, before.effects) and stays_in_group:
        return body
    configuration = configuration_of(call.db, call.organization)
    effects = _compiled_effects(call, configuration, campaign, body)
    for effect in effects:
        _refuse_unknown_records(call, configuration, effect)
        _refuse_untracked_expiry(configuration, campaign, effect)
    if group is not None:
        stacking_groups.refuse_unfit_action(call, campaign, group, effects, "/stackingGroupKey")
    return body


def _compiled_effects(
    call: Call, configuration: Configuration, campaign: Campaign, body: ActionProperties
) -> tuple[CompiledEffect, ...]:
    """The effects of an action; raises InvalidRequest with all faults of its rules and effects."""
    faults = faults_of_length(body.effects)
    if faults:
        raise InvalidRequest(faults)
    rule: Node | None = None
    effects: tuple[CompiledEffect, ...] = ()
    try:
        rule, _ = compile_rules(body.rules)
    except InvalidRequest as refusal:
        faults += refusal.faults
    try:
        effects = compile_effects(body.effects)
        faults += faults_of_constants(effects, body.effects, call.now)
    except InvalidRequest as refusal:
        faults += refusal.faults
    if not faults:
        sources = sources_of(body.rules, rule, body.effects, effects)
        faults += unknown_matchers(sources, configuration.matcher_keys)
        faults += unknown_keys(sources, known_keys(call.db, configuration, sources))
        faults += faults_of_matches(campaign, sources)
    if faults:
        raise InvalidRequest(faults)
    return effects


def _refuse_unknown_records(call: Call, configuration: Configuration, effect: CompiledEffect) -> None:
    """Refuse an effect that names unknown records.

    Records that expressions name are looked up when an event is evaluated.
    """
    constants = effect.constants
    references.refuse_unknown_account(configuration, constants.get("ledgerAccountKey"))
    references.refuse_unknown_event_types(configuration, Availability.of(constants))
    references.refuse_unknown_badge(configuration, constants.get("badgeKey"))
    references.refuse_unknown_mission(configuration, constants.get("missionKey"))
    if constants.get("couponBookKey") is not None:
        references.coupon_book(call, constants["couponBookKey"])
    references.refuse_unknown_tier(configuration, constants.get("loyaltyProgramKey"), constants.get("loyaltyTierKey"))


def _refuse_untracked_expiry(configuration: Configuration, campaign: Campaign, effect: CompiledEffect) -> None:
    """Refuse a constant expiration date for points of an account that does not track when points expire."""
    constants = effect.constants
    if constants.get("expirationDate") is None or "ledgerAccountKey" not in constants:
        return
    key = constants["ledgerAccountKey"]
    main_account = configuration.main_accounts.get(campaign.loyalty_program_id)
    account = configuration.account_with_key(key, default=main_account)
    if account is not None:
        refuse_untracked_expiry(account, constants["expirationDate"])


def refuse_outdated(call: Call, campaign: Campaign, version: int | None) -> None:
    """Refuse a change that is based on another version of the campaign than the current one; None fits any version.

    No other transaction can change the campaign at this point.
    """
    if version is None:
        return
    current_campaign = CAMPAIGNS.find_again(call.db, campaign)
    if current_campaign.campaign_version_id != version:
        raise CampaignChanged(
            f"The campaign is at version {current_campaign.campaign_version_id}, not {version};"
            " read the campaign again, and repeat the change."
        )
