"""The configuration that the evaluation of events depends on, compiled once per process and version.

Every change of the configuration increments the organization's `configuration_version` in the same transaction. Every
call reads that number with the organization, so all processes see a change at the next event.
"""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from itertools import chain

from sqlalchemy import Connection

from domain.audiences import CompiledAudience, compile_audience
from domain.badges import Badge
from domain.calendar import zone_named
from domain.campaigns.compiled import (
    CompiledCampaign,
    EvaluationPlans,
    compile_action,
    compile_campaign,
)
from domain.campaigns.context import Functions, host_functions
from domain.campaigns.effects import ADVANCE_MISSION, DISCOUNT, SET_TIER
from domain.campaigns.limits import limit_rules_of
from domain.campaigns.records import Action, Campaign, StackingGroup
from domain.campaigns.references import campaign_reads_orders, has_variable, names_variable, reads_orders
from domain.ledger.expiry import EARN, SPEND
from domain.ledger.records import LedgerAccount
from domain.matchers import ItemPredicate, compile_matcher
from domain.missions.records import Mission
from domain.missions.rules import CompiledMission, compile_mission
from domain.organizations import Organization
from domain.programs import LoyaltyProgram, configured_tiers, schedules_of
from domain.referrals import ReferralProgram, ReferralPrograms, program_with_rewards
from domain.tiers import ConfiguredTier, TierSchedule
from domain.triggers import Subscription
from handlers.services.possible_events import possible_derived_types
from persistence import audiences, campaigns, organizations, triggers
from persistence.badges import BADGES
from persistence.configuration_sizes import configuration_bytes
from persistence.event_types import EVENT_TYPES
from persistence.ledger import ACCOUNTS
from persistence.matchers import MATCHERS
from persistence.missions import MISSIONS
from persistence.programs import PROGRAMS, TIERS
from persistence.referrals import REFERRAL_PROGRAMS

# The limits of the cache, for all organizations together. The first one limits the memory of small configurations:
# each needs about 30 KB, however few texts it has.
_MAX_CACHED, _MAX_CACHED_BYTES = 1000, 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Configuration:
    """An organization's active campaigns and the records that they refer to.

    `accounts` are the accounts of the default ledger. `main_accounts` has the account of the points of each loyalty
    program; its key None is for records without a program. `audiences` are the audiences that can match members,
    `badges` all badges by key, `missions` all missions by id. `functions` are the functions of expressions,
    `subscriptions` the subscriptions of the active triggers. `member_accounts` are the accounts whose points can change
    tiers, or expire depending on the tier. `schedules_of_periods` are the tier schedules that count the points of a
    period. `activity_types` are the types of events that keep points alive; `possible_derived_types` are the types of
    derived events that can occur. `location_timezones` has the time zones of locations, by code. `size` is that of
    `configuration_bytes`.

    `uses_missions` is True if an expression reads the progress of missions, or an effect advances one;
    `reads_orders` if an expression depends on earlier orders of the member; `reads_order_after` if an expression reads
    `orderAfter`; `discounts_orders` if one reads it, or an effect is a discount.
    """

    organization_id: int
    version: int
    size: int
    plans: EvaluationPlans
    accounts: Mapping[int, LedgerAccount]
    accounts_by_key: Mapping[str, LedgerAccount]
    tier_keys: Mapping[int, str]
    tiers: Mapping[str, ConfiguredTier]
    program_keys: frozenset[str]
    sets_tiers: bool
    tier_schedules: tuple[TierSchedule, ...]
    schedules_of_periods: tuple[TierSchedule, ...]
    member_accounts: frozenset[int | None]
    activity_types: frozenset[str]
    custom_event_types: Mapping[str, str]
    audiences: tuple[CompiledAudience, ...]
    matcher_keys: frozenset[str]
    badges: Mapping[str, Badge]
    functions: Functions
    subscriptions: tuple[Subscription, ...]
    missions: Mapping[int, CompiledMission]
    missions_by_type: Mapping[str, tuple[CompiledMission, ...]]
    uses_missions: bool
    reads_orders: bool
    referral_programs: ReferralPrograms
    main_accounts: Mapping[int | None, LedgerAccount | None]
    default_account: LedgerAccount | None
    possible_derived_types: frozenset[str]
    discounts_orders: bool
    reads_order_after: bool
    location_timezones: Mapping[str, str]

    def account_with_key(self, key: str | None, default: LedgerAccount | None = None) -> LedgerAccount | None:
        """The account of the default ledger with this key, regardless of case; None if there is none.

        If `key` is None, it is `default`.
        """
        return default if key is None else self.accounts_by_key.get(key.lower())

    def zone_of_location(self, code: str | None) -> tzinfo | None:
        """The time zone of the location with this code; None if the location has no time zone of its own."""
        name = None if code is None else self.location_timezones.get(code)
        return None if name is None else zone_named(name)

    @property
    def campaigns(self) -> tuple[CompiledCampaign, ...]:
        """All active campaigns."""
        return self.plans.campaigns


# The configurations that were loaded last come last.
_cache: dict[int, Configuration] = {}
_lock = threading.Lock()
# Calls of an organization that need a new version wait until one of them has loaded it.
_load_locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)


def configuration_of(db: Connection, organization: Organization) -> Configuration:
    """The organization's configuration at its current version, from memory if that version is loaded.

    What a transaction loads after it has changed the configuration is not shared with others: it may be rolled back.
    """
    organization_id, version = organization.organization_id, organization.configuration_version
    cached = _cache.get(organization_id)
    if cached is not None and cached.version == version:
        return cached
    # The configurations that this transaction has loaded; None unless it changes a configuration.
    own_configurations = organizations.changing_configurations(db)
    if own_configurations is not None:
        configuration = own_configurations.get(organization_id)
        if configuration is None or configuration.version != version:
            configuration = own_configurations[organization_id] = _load(db, organization, configuration or cached)
        return configuration
    with _load_locks[organization_id]:
        cached = _cache.get(organization_id)
        if cached is None or cached.version != version:
            cached = _load(db, organization, cached)
            _keep(cached)
    return cached


def _keep(configuration: Configuration) -> None:
    """Keep a configuration in memory, and forget the oldest ones if all together are too large."""
    with _lock:
        _cache.pop(configuration.organization_id, None)
        _cache[configuration.organization_id] = configuration
        excess = sum(cached.size for cached in _cache.values()) - _MAX_CACHED_BYTES
        while len(_cache) > 1 and (excess > 0 or len(_cache) > _MAX_CACHED):
            excess -= _cache.pop(next(iter(_cache))).size


def _load(db: Connection, organization: Organization, before: Configuration | None) -> Configuration:
    """Load and compile the configuration; compiled actions of `before` that are unchanged are reused."""
    organization_id = organization.organization_id
    # Campaigns, missions and programs first: the records that they name were saved before them, and are never removed.
    active_campaigns = campaigns.find_active(db, organization_id)
    stored_missions = MISSIONS.find_all(db, organization_id)
    stored_programs = REFERRAL_PROGRAMS.find_all(db, organization_id)
    stored_tiers, loyalty_programs = TIERS.find_all(db, organization_id), PROGRAMS.find_all(db, organization_id)
    accounts, matchers = _load_accounts(db, organization, loyalty_programs), _load_matchers(db, organization_id)
    matching_audiences = tuple(filter(None, map(compile_audience, audiences.find_matching(db, organization_id))))
    groups = _load_groups(db, organization_id, active_campaigns)
    programs = _programs_with_accounts(stored_programs, accounts)
    rules = _Rules(
        tuple(_compiled_campaigns(active_campaigns, before, accounts, organization, groups)),
        tuple(_compiled_missions(stored_missions, organization, accounts, matchers, matching_audiences)),
    )
    tiers = configured_tiers(loyalty_programs, stored_tiers)
    tier_schedules = schedules_of(loyalty_programs, stored_tiers, organization.zone)
    all_badges, activity_types = BADGES.find_all(db, organization_id), _activity_types(accounts.by_id.values())
    subscriptions = tuple(triggers.find_subscriptions(db, organization_id))
    details = organizations.find_details(db, organization_id)
    return Configuration(
        organization_id=organization_id,
        version=organization.configuration_version,
        size=configuration_bytes(db, organization_id),
        plans=EvaluationPlans(rules.campaigns),
        accounts=accounts.by_id,
        accounts_by_key=accounts.by_key,
        tier_keys={tier.loyalty_tier_id: tier.loyalty_tier_key for tier in tiers},
        tiers={tier.loyalty_tier_key: tier for tier in tiers},
        program_keys=accounts.program_keys,
        sets_tiers=SET_TIER in rules.effect_ids,
        tier_schedules=tier_schedules,
        schedules_of_periods=tuple(filter(TierSchedule.moves_by_period, tier_schedules)),
        member_accounts=_member_accounts(tier_schedules, accounts.by_id.values()),
        activity_types=activity_types,
        custom_event_types=_load_custom_event_types(db, organization_id),
        badges={badge.badge_key: badge for badge in all_badges},
        subscriptions=subscriptions,
        audiences=matching_audiences,
        matcher_keys=frozenset(key for key, _ in matchers.values()),
        functions=host_functions(dict(matchers.values())),
        missions={mission.mission.mission_id: mission for mission in rules.missions},
        missions_by_type=rules.missions_by_type,
        uses_missions=rules.use_missions,
        reads_orders=rules.read_orders,
        referral_programs=programs,
        main_accounts=accounts.by_program,
        default_account=accounts.default,
        discounts_orders=DISCOUNT in rules.effect_ids or rules.read_order_after,
        reads_order_after=rules.read_order_after,
        location_timezones=details.location_timezones,
        possible_derived_types=possible_derived_types(
            moves_tiers=SET_TIER in rules.effect_ids or any(schedule.moves_members for schedule in tier_schedules),
            has_badges=bool(all_badges),
            has_missions=bool(rules.missions_by_type),
            has_notices=any(account.points_expiring or details.points_expiring for account in accounts.by_id.values()),
            trigger_types={event_type for subscription in subscriptions for event_type in subscription.event_types},
            considered_types={*rules.event_types, *programs.active_types, *activity_types},
        ),
    )


def _load_matchers(db: Connection, organization_id: int) -> dict[int, tuple[str, ItemPredicate]]:
    """Load the matchers; return the key and the compiled form of each by its id."""
    records = MATCHERS.find_all(db, organization_id)
    return {record.matcher_id: (record.matcher_key, compile_matcher(record.matcher)) for record in records}


def _load_custom_event_types(db: Connection, organization_id: int) -> dict[str, str]:
    """Load the active custom event types; return their schema types by `apiCode`."""
    active_types = EVENT_TYPES.find_all(db, organization_id, active=True)
    return {event_type.api_code: event_type.schema_type for event_type in active_types}


@dataclass(frozen=True)
class _Rules:
    """The compiled campaigns and missions, with the properties that follow from their expressions and effects."""

    campaigns: tuple[CompiledCampaign, ...]
    missions: tuple[CompiledMission, ...]

    @cached_property
    def effect_ids(self) -> set[str]:
        """The kinds of effects."""
        actions = (action for campaign in self.campaigns for action in campaign.actions)
        return {effect.effect.effect_id for action in actions for effect in action.effects}

    @cached_property
    def missions_by_type(self) -> dict[str, tuple[CompiledMission, ...]]:
        """The active missions, by the type of the events that they count."""
        return _by_type(self.missions)

    @property
    def event_types(self) -> set[str]:
        """The types of events that the campaigns and missions consider."""
        return {*self.missions_by_type, *chain.from_iterable(campaign.event_types for campaign in self.campaigns)}

    @property
    def use_missions(self) -> bool:
        """True if an expression reads progress of missions, or an effect advances one."""
        is_read = any(names_variable(campaign, "missions") for campaign in self.campaigns)
        return is_read or ADVANCE_MISSION in self.effect_ids or any(map(_count_reads_missions, self.missions))

    @property
    def read_orders(self) -> bool:
        """True if an expression depends on earlier orders of the member."""
        return any(map(campaign_reads_orders, self.campaigns)) or any(map(_count_reads_orders, self.missions))

    @cached_property
    def read_order_after(self) -> bool:
        """True if an expression reads `orderAfter`."""
        return any(names_variable(campaign, "orderAfter") for campaign in self.campaigns)


def _member_accounts(
    tier_schedules: Iterable[TierSchedule], accounts: Iterable[LedgerAccount]
) -> frozenset[int | None]:
    """The accounts whose points can change tiers, or expire depending on the tier."""
    accounts_of_tiers = [schedule.ledger_account_id for schedule in tier_schedules if schedule.moves_members]
    expiring_by_tier = [account.ledger_account_id for account in accounts if account.tier_expirations]
    return frozenset([*accounts_of_tiers, *expiring_by_tier])


def _activity_types(accounts: Iterable[LedgerAccount]) -> frozenset[str]:
    """The event types that keep points of an account alive."""
    policies = (policy for account in accounts for policy in account.expiration_policies)
    activities = {activity for policy in policies for activity in policy.get("activities", ())}
    return frozenset(activities - {EARN, SPEND})


@dataclass(frozen=True, slots=True)
class _Accounts:
    """The accounts of the default ledger; `by_program` has the account of the points of each loyalty program.

    Its key None is for records without a program. `program_keys` are the keys of all programs.
    """

    by_id: Mapping[int, LedgerAccount]
    by_key: Mapping[str, LedgerAccount]
    program_keys: frozenset[str]
    by_program: Mapping[int | None, LedgerAccount | None]
    default: LedgerAccount | None


def _load_accounts(db: Connection, organization: Organization, programs: Collection[LoyaltyProgram]) -> _Accounts:
    """Load the accounts of the default ledger, and find the main account of each program."""
    organization_id, ledger_id = organization.organization_id, organization.default_ledger_id
    accounts = [] if ledger_id is None else ACCOUNTS.find_all(db, organization_id, ledger_id=ledger_id)
    by_id = {account.ledger_account_id: account for account in accounts}
    default = next((account for account in accounts if account.is_default_account), None)
    by_program: dict[int | None, LedgerAccount | None] = {
        program.loyalty_program_id: by_id.get(program.main_ledger_account_id or 0) or default for program in programs
    }
    by_program[None] = by_program.get(organization.default_loyalty_program_id) or default
    by_key = {account.ledger_account_key: account for account in accounts}
    return _Accounts(by_id, by_key, frozenset(program.loyalty_program_key for program in programs), by_program, default)


def _load_groups(
    db: Connection, organization_id: int, active_campaigns: Iterable[tuple[Campaign, Sequence[Action]]]
) -> Mapping[str, StackingGroup]:
    """Load the stacking groups by key, if an action names one."""
    if all(action.stacking_group_key is None for _, actions in active_campaigns for action in actions):
        return {}
    return {group.stacking_group_key: group for group in campaigns.STACKING_GROUPS.find_all(db, organization_id)}


def _compiled_campaigns(
    active_campaigns: Iterable[tuple[Campaign, Sequence[Action]]],
    before: Configuration | None,
    accounts: _Accounts,
    organization: Organization,
    groups: Mapping[str, StackingGroup],
) -> list[CompiledCampaign]:
    """The active campaigns, ready to be evaluated; unchanged actions of the configuration `before` are reused."""
    account_ids = {key: account.ledger_account_id for key, account in accounts.by_key.items()}
    campaigns_before = () if before is None else before.campaigns
    actions_before = {action.record.action_id: action for campaign in campaigns_before for action in campaign.actions}
    return [
        compile_campaign(
            campaign,
            [compile_action(action, actions_before.get(action.action_id), groups) for action in actions],
            limit_rules_of(campaign, account_ids, organization.currency),
            accounts.by_program.get(campaign.loyalty_program_id),
            organization.timezone,
        )
        for campaign, actions in active_campaigns
    ]


def _programs_with_accounts(programs: Iterable[ReferralProgram], accounts: _Accounts) -> ReferralPrograms:
    """The referral programs, each with the account of its points."""
    return ReferralPrograms(
        program_with_rewards(program, accounts.by_program.get(program.loyalty_program_id)) for program in programs
    )


def _compiled_missions(
    stored_missions: Iterable[Mission],
    organization: Organization,
    accounts: _Accounts,
    matchers: Mapping[int, tuple[str, ItemPredicate]],
    matching_audiences: Iterable[CompiledAudience],
) -> list[CompiledMission]:
    """All missions, ready to count events; `matchers` has the key and the compiled matcher by id."""
    predicates = {matcher_id: predicate for matcher_id, (_, predicate) in matchers.items()}
    audience_keys = {audience.audience_id: audience.audience_key for audience in matching_audiences}
    return [
        compile_mission(mission.in_zone_of(organization), predicates, audience_keys, accounts.by_id, accounts.default)
        for mission in stored_missions
    ]


def _by_type(compiled_missions: Iterable[CompiledMission]) -> dict[str, tuple[CompiledMission, ...]]:
    """The active missions by the type of the events that they count."""
    by_type: defaultdict[str, list[CompiledMission]] = defaultdict(list)
    for mission in compiled_missions:
        if mission.mission.active:
            by_type[mission.mission.event_type].append(mission)
    return {event_type: tuple(missions_of_type) for event_type, missions_of_type in by_type.items()}


def _count_reads_missions(mission: CompiledMission) -> bool:
    """True if the expression that counts events for the mission reads the progress of missions."""
    return mission.count is not None and has_variable(mission.count.analysis.node, "missions")


def _count_reads_orders(mission: CompiledMission) -> bool:
    """True if the expression that counts events for the mission depends on earlier orders of the member."""
    return mission.count is not None and reads_orders(mission.count)
