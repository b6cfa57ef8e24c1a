"""A hypothetical member, whom the request describes and no record stores, in a unit of work that is a dry run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from domain.audiences import CompiledAudience
from domain.events import DRY_RUN
from domain.fields import Key
from domain.ledger.postings import Earning, Holding
from domain.members import Member
from domain.missions.progress import Progress
from domain.missions.records import UnknownMission
from domain.problems import unknown_key
from domain.tier_history import TierHistory, TierPeriod
from domain.tier_policies import TierPoints
from domain.tiers import HeldTier, Points, TierSchedule
from handlers.call import Execution
from handlers.services import references
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.derived_events import tier_points_of
from handlers.services.unit_of_work.participants.badges import BadgeWork
from handlers.services.unit_of_work.participants.missions import MissionWork
from handlers.services.unit_of_work.unit import UnitOfWork

NOBODY = -1
"""The id of the hypothetical member and of the member's wallet: no record has it."""

_ZERO = Decimal(0)
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class HypotheticalMember:
    """Assumptions about a member: balances by key or alias of the account, badges and missions by their keys.

    `missions` has the progress in the form of the variable of expressions. Without any assumption, the member is new.
    """

    tier_keys: Sequence[Key] = ()
    balances: Mapping[str, Decimal] = field(default_factory=dict)
    audience_keys: Sequence[Key] = ()
    badges: Mapping[str, int] = field(default_factory=dict)
    missions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)


class HypotheticalUnit(UnitOfWork):
    """A dry run for one hypothetical member, who has the id NOBODY and has used no limit per member yet."""

    def __init__(
        self,
        execution: Execution,
        person: HypotheticalMember,
        campaign_keys: Collection[str] | None,
        tracing: bool,
    ) -> None:
        """Adopt the member; raises the refusals of unknown keys, such as UnknownTier."""
        super().__init__(execution, DRY_RUN, campaign_keys, tracing)
        configuration = self.configuration
        self._audience_keys = frozenset(person.audience_keys)
        if person.audience_keys:
            references.refuse_unknown_audiences(execution, person.audience_keys)
        references.refuse_unknown_tiers(configuration, person.tier_keys)
        self._balances = _balances_by_account(configuration, person.balances)
        self._badges = {_badge_id(configuration, key.lower()): amount for key, amount in person.badges.items()}
        self._missions = dict(_progress_by_mission(configuration, person.missions))
        self._tiers = dict(self._assumed_tiers(person.tier_keys))
        self.adopt([(_member(execution, person), self._tiers)])

    def _open(self, *arguments: Any, **options: Any) -> None:
        """Open the unit with the assumed balances, all of which were earned now."""
        super()._open(*arguments, **options)
        for account_id, balance in self._balances.items():
            self.ledger.assume(NOBODY, account_id, Holding(current=balance, earned=balance))
        earnings = {
            (NOBODY, account_id): (Earning(self.now, balance),) for account_id, balance in self._balances.items()
        }
        self.tier_points = partial(tier_points_of, self.ledger, earnings)

    @cached_property
    def audiences(self) -> Mapping[int, Sequence[CompiledAudience]]:
        """The audiences that the request names, if they apply now."""
        audiences = [
            audience
            for audience in self.configuration.audiences
            if audience.audience_key in self._audience_keys and audience.applies(self.now)
        ]
        return {**super().audiences, NOBODY: audiences}

    @cached_property
    def tier_history(self) -> TierHistory:
        """The tiers of the member at any moment: the member always had the assumed tiers."""
        periods = [
            TierPeriod(NOBODY, program_id, tier, _FIRST_MOMENT, ended_at=None)
            for program_id, tier in self._tiers.items()
        ]
        return TierHistory(periods, default_tiers={})

    @cached_property
    def badges(self) -> BadgeWork:
        """The badges of the members, with the assumed badges."""
        work = super().badges
        work.assume(NOBODY, self._badges)
        return work

    @cached_property
    def missions(self) -> MissionWork:
        """The missions of the members, with the assumed progress."""
        work = super().missions
        work.assume(NOBODY, self._missions)
        return work

    def _assumed_tiers(self, tier_keys: Collection[str]) -> Iterator[tuple[int, HeldTier]]:
        """The member's tier by program: the tier that the request names, or without one the tier of the points.

        A tier that the request names counts as set by request, unless it is the tier of the points.
        """
        all_tiers = self.configuration.tiers
        requested_tiers = [all_tiers[key] for key in tier_keys if key in all_tiers]
        requested_ids = {tier.loyalty_program_id: tier.loyalty_tier_id for tier in requested_tiers}
        for schedule in self.configuration.tier_schedules:
            program_id = schedule.loyalty_program_id
            tier_by_points = schedule.held_tier_of(self._points, self.now)
            id_by_points = None if tier_by_points is None else tier_by_points.loyalty_tier_id
            requested_id = requested_ids.pop(program_id, None)
            if requested_id is not None and requested_id != id_by_points:
                yield program_id, HeldTier(requested_id, is_manual=True)
            elif tier_by_points is not None and (requested_id is not None or self._is_in(schedule, self._points)):
                yield program_id, tier_by_points
        # The remaining tiers belong to inactive programs, in which members keep their tiers.
        for program_id, tier_id in requested_ids.items():
            yield program_id, HeldTier(tier_id)

    def _is_in(self, schedule: TierSchedule, points: Points) -> bool:
        """True for the default program, which all members are in, and for programs in which the member has points."""
        is_default = schedule.loyalty_program_id == self.organization.default_loyalty_program_id
        return is_default or schedule.counted_points(points, self.now) > 0

    def _points(self, ledger_account_id: int) -> TierPoints:
        """The assumed balance of an account, as tiers need it."""
        balance = self._balances.get(ledger_account_id, _ZERO)
        return TierPoints(balance, balance, (Earning(self.now, balance),))


def _member(execution: Execution, person: HypotheticalMember) -> Member:
    """The record of the hypothetical member, for expressions and audiences."""
    return Member(
        organization_id=execution.organization.organization_id,
        member_id=NOBODY,
        loyalty_member_id="",
        public_loyalty_member_id=None,
        active=True,
        member_type=None,
        channel_acquisition=None,
        referral_code=None,
        profile=person.profile,
        custom_attributes=person.custom_attributes,
        notifications={},
        on_chain={},
        wallet_id=NOBODY,
        wallet_key="",
        created_at=execution.now,
        updated_at=execution.now,
    )


def _balances_by_account(configuration: Configuration, balances: Mapping[str, Decimal]) -> dict[int, Decimal]:
    """The balances by account id; raises UnknownLedgerAccount."""
    ids = {
        name: account.ledger_account_id
        for account in configuration.accounts.values()
        for name in (account.ledger_account_key, account.alias)
        if name is not None
    }
    for key in balances:
        if key not in ids:
            references.refuse_unknown_account(configuration, key)
    return {ids.get(key) or ids[key.lower()]: Decimal(balance) for key, balance in balances.items()}


def _badge_id(configuration: Configuration, key: str) -> int:
    """The id of a badge by its key; raises UnknownBadge."""
    references.refuse_unknown_badge(configuration, key)
    return configuration.badges[key].badge_id


def _progress_by_mission(
    configuration: Configuration, progress_by_key: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[int, Progress]]:
    """The progress by mission id; raises UnknownMission."""
    missions = {compiled.mission.mission_key: compiled.mission for compiled in configuration.missions.values()}
    for key, assumed_progress in progress_by_key.items():
        mission = missions.get(key.lower())
        if mission is None:
            raise UnknownMission(unknown_key("mission", key, missions))
        times_achieved = assumed_progress.get("timesAchieved", 0)
        count = assumed_progress.get("currentCounterCount", 0)
        # After an achievement, a counter at the goal was counted for this achievement. Before the first one, the next
        # event achieves the mission.
        progress = (
            Progress.from_counts(mission.goal_count, count, times_achieved)
            if times_achieved
            else Progress(mission.goal_count, count, times_achieved)
        )
        yield mission.mission_id, progress
