"""The configuration that the evaluation of events depends on, compiled once per process and version.

Every change of it raises the organization's `configuration_version` in the same transaction. Every call reads that
number with the organization, so all processes see a change at the next event.
"""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from domain.audiences import CompiledAudience, compile_audience
from domain.badges import Badge
from domain.campaigns.compiled import CompiledCampaign, compile_action, compile_campaign
from domain.campaigns.context import Functions, host_functions
from domain.campaigns.effects import ADVANCE_MISSION, SET_TIER
from domain.campaigns.limits import limit_rules_of
from domain.campaigns.plans import EvaluationPlan, EvaluationPlans
from domain.campaigns.records import Action, Campaign
from domain.campaigns.references import has_variable, names_variable
from domain.ledger.records import LedgerAccount
from domain.matchers import compile_matcher
from domain.missions.rules import CompiledMission, compile_mission
from domain.organizations import Organization
from domain.referrals import ReferralPrograms, ready_program
from domain.tiers import KnownTier, TierSchedule
from domain.triggers import Listener
from persistence import (
    audiences,
    campaigns,
    configuration,
    organizations,
    triggers,
)
from persistence.badges import BADGES
from persistence.event_types import EVENT_TYPES
from persistence.matchers import MATCHERS
from persistence.missions import MISSIONS
from persistence.referrals.lists import REFERRAL_PROGRAMS

_KEPT_ORGANIZATIONS = 1000


@dataclass(frozen=True, slots=True)
class Configuration:
    """An organization's active campaigns and the records that they refer to.

    These are accounts, tiers, event types, audiences and matchers. `audiences` are those that may match members;
    `badges` are all of them, by key; `functions` are those of expressions; `listeners` the active triggers. `missions`
    are all of them, by id; `speaks_of_missions` is True if an expression reads progress of any, or an effect advances
    one.
    """

    organization_id: int
    version: int
    plans: EvaluationPlans
    accounts: Mapping[int, LedgerAccount]
    accounts_by_key: Mapping[str, LedgerAccount]
    tier_keys: Mapping[int, str]
    tiers: Mapping[str, KnownTier]
    program_keys: frozenset[str]
    sets_tiers: bool
    tier_schedules: tuple[TierSchedule, ...]
    custom_event_types: Mapping[str, str]
    audiences: tuple[CompiledAudience, ...]
    matcher_keys: frozenset[str]
    badges: Mapping[str, Badge]
    functions: Functions
    listeners: tuple[Listener, ...]
    missions: Mapping[int, CompiledMission]
    missions_by_type: Mapping[str, tuple[CompiledMission, ...]]
    speaks_of_missions: bool
    referral_programs: ReferralPrograms
    main_accounts: Mapping[int | None, LedgerAccount | None]
    default_account: LedgerAccount | None

    def points_account(self, loyalty_program_id: int | None) -> LedgerAccount | None:
        """The account for points of a loyalty program (None: the default one), unless another account is named."""
        return self.main_accounts.get(loyalty_program_id)

    @property
    def campaigns(self) -> tuple[CompiledCampaign, ...]:
        """All active campaigns."""
        return self.plans.campaigns

    def concerns(self, plans: EvaluationPlans, event_type: str) -> bool:
        """True if events of this type can have an effect, by one of these campaigns or otherwise."""
        return event_type in self.missions_by_type or bool(plans.of(event_type).campaigns)

    def plans_among(self, keys: Collection[str] | None) -> EvaluationPlans:
        """The active campaigns with these keys, or all of them if no keys are given."""
        if keys is None:
            return self.plans
        requested_keys = set(keys)
        return EvaluationPlans(c for c in self.campaigns if c.campaign.campaign_key in requested_keys)


_kept: dict[int, Configuration] = {}
_lock = threading.Lock()


def configuration_of(db: Connection, organization: Organization) -> Configuration:
    """The organization's configuration at its present version, from memory if that version is loaded.

    Other transactions never see what a transaction that changes the configuration has loaded: it may be rolled back.
    """
    organization_id, version = organization.organization_id, organization.configuration_version
    kept = _kept.get(organization_id)
    if kept is not None and kept.version == version:
        return kept
    changing = organizations.changing_configurations(db)
    if changing is not None:
        own = changing.get(organization_id)
        if own is None or own.version != version:
            own = changing[organization_id] = _load(db, organization, own or kept)
        return own
    loaded = _load(db, organization, kept)
    with _lock:
        if len(_kept) >= _KEPT_ORGANIZATIONS:
            _kept.clear()
        _kept[organization_id] = loaded
    return loaded


def complete_plan(
    db: Connection,
    organization: Organization,
    campaigns_: tuple[CompiledCampaign, ...],
    keys: Collection[str] | None,
) -> EvaluationPlan:
    """All campaigns and actions, including inactive ones, so that all can be explained."""
    inactive, actions = campaigns.find_idle(db, organization.organization_id, keys)
    active = {campaign.campaign.campaign_id for campaign in campaigns_}
    compiled = [
        replace(campaign, idle_actions=tuple(actions.get(campaign.campaign.campaign_id, ()))) for campaign in campaigns_
    ] + [
        compile_campaign(campaign, (), (), None, organization.timezone)
        for campaign in inactive
        if campaign.campaign_id not in active
    ]
    return EvaluationPlan.of(sorted(compiled, key=lambda campaign: campaign.campaign.campaign_id))


def _load(db: Connection, organization: Organization, before: Configuration | None) -> Configuration:
    """Load and compile the configuration; compiled actions of `before` that are unchanged are reused."""
    organization_id = organization.organization_id
    # Campaigns and the like first: the records that they name existed when they were saved, and are never removed.
    active = campaigns.find_active(db, organization_id)
    found_missions = MISSIONS.find_all(db, organization_id)
    found_programs = REFERRAL_PROGRAMS.find_all(db, organization_id)
    ledger_id = organization.default_ledger_id
    ledger_accounts = [] if ledger_id is None else configuration.accounts_of_ledger(db, organization_id, ledger_id)
    accounts = {account.ledger_account_id: account for account in ledger_accounts}
    default = next((account for account in ledger_accounts if account.is_default_account), None)
    main_accounts: dict[int | None, LedgerAccount | None] = {
        program_id: accounts.get(account_id or 0) or default
        for program_id, account_id in configuration.main_accounts(db, organization_id).items()
    }
    main_accounts[None] = main_accounts.get(organization.default_loyalty_program_id) or default
    accounts_by_key = {account.ledger_account_key: account for account in ledger_accounts}
    compiled = _compiled_campaigns(active, before, accounts_by_key, main_accounts, organization.timezone)
    items = [(matcher, compile_matcher(matcher.matcher)) for matcher in MATCHERS.find_all(db, organization_id)]
    item_matchers = {matcher.matcher_key: predicate for matcher, predicate in items}
    of_members = [
        audience for audience in map(compile_audience, audiences.find_matching(db, organization_id)) if audience
    ]
    by_id = {matcher.matcher_id: predicate for matcher, predicate in items}
    audience_keys = {audience.audience_id: audience.audience_key for audience in of_members}
    ready = [
        compile_mission(mission.in_zone_of(organization), by_id, audience_keys, accounts, default)
        for mission in found_missions
    ]
    tiers = configuration.tiers(db, organization_id)
    ready_programs = (
        ready_program(program, main_accounts.get(program.loyalty_program_id)) for program in found_programs
    )
    return Configuration(
        organization_id=organization_id,
        version=organization.configuration_version,
        plans=EvaluationPlans(compiled),
        accounts=accounts,
        accounts_by_key=accounts_by_key,
        tier_keys={tier.loyalty_tier_id: tier.loyalty_tier_key for tier in tiers},
        tiers={tier.loyalty_tier_key: tier for tier in tiers},
        program_keys=frozenset(configuration.program_keys(db, organization_id)),
        sets_tiers=any(_sets_tiers(campaign) for campaign in compiled),
        tier_schedules=tuple(configuration.tier_schedules(db, organization)),
        custom_event_types={
            event_type.api_code: event_type.schema_type
            for event_type in EVENT_TYPES.find_all(db, organization_id, active=True)
        },
        badges={badge.badge_key: badge for badge in BADGES.find_all(db, organization_id)},
        listeners=tuple(triggers.find_listeners(db, organization_id)),
        audiences=tuple(of_members),
        matcher_keys=frozenset(item_matchers),
        functions=host_functions(item_matchers),
        missions={mission.mission.mission_id: mission for mission in ready},
        missions_by_type=_by_type(ready),
        speaks_of_missions=any(map(_speaks_of_missions, compiled)) or any(map(_counts_by_missions, ready)),
        referral_programs=ReferralPrograms(ready_programs),
        main_accounts=main_accounts,
        default_account=default,
    )


def _compiled_campaigns(
    active: Iterable[tuple[Campaign, Sequence[Action]]],
    before: Configuration | None,
    accounts_by_key: Mapping[str, LedgerAccount],
    main_accounts: Mapping[int | None, LedgerAccount | None],
    timezone: str,
) -> list[CompiledCampaign]:
    """The active campaigns, ready to be evaluated; actions that were compiled before are taken over."""
    account_ids = {key: account.ledger_account_id for key, account in accounts_by_key.items()}
    known = {} if before is None else {a.action.action_id: a for campaign in before.campaigns for a in campaign.actions}
    return [
        compile_campaign(
            campaign,
            [compile_action(action, known.get(action.action_id)) for action in actions],
            limit_rules_of(campaign, account_ids),
            main_accounts.get(campaign.loyalty_program_id),
            timezone,
        )
        for campaign, actions in active
    ]


def _by_type(missions_: Iterable[CompiledMission]) -> dict[str, tuple[CompiledMission, ...]]:
    """The active missions by the type of the events that they count."""
    by_type: dict[str, tuple[CompiledMission, ...]] = {}
    for mission in missions_:
        if mission.mission.active:
            by_type[mission.mission.event_type] = (*by_type.get(mission.mission.event_type, ()), mission)
    return by_type


def _speaks_of_missions(campaign: CompiledCampaign) -> bool:
    effects = (effect.effect.effect_id for action in campaign.actions for effect in action.effects)
    return ADVANCE_MISSION in effects or names_variable(campaign, "missions")


def _counts_by_missions(mission: CompiledMission) -> bool:
    return mission.count is not None and has_variable(mission.count.checked.node, "missions")


def _sets_tiers(campaign: CompiledCampaign) -> bool:
    return any(effect.effect.effect_id == SET_TIER for action in campaign.actions for effect in action.effects)
