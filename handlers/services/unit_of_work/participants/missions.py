"""Missions in a unit of work: count events, reward achievements, and reverse the counts of events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from domain.badges import BadgeGrant, BadgeLimit
from domain.calendar import next_period, period_start, start_of_day, zone_named
from domain.campaigns.context import EventFacts, ExecutorResult
from domain.campaigns.outcomes import NothingToDo, RuleError
from domain.event_types import MISSION_ACHIEVED
from domain.expressions import EVENT_COST, Budget, Deadline, EvaluationError
from domain.hours import Occasion
from domain.ledger.availability import Availability
from domain.ledger.postings import Details
from domain.ledger.refusals import UnknownLedgerAccount
from domain.missions.progress import Advance, Progress, count_of
from domain.missions.records import Mission, MissionExhausted, MissionTracking, Reward, UnknownMission
from domain.missions.rules import COUNT_COST, CompiledMission, expiry_of_reward
from domain.missions.state import MissionMove, MissionProgress, MissionProgressState, ProgressCause
from domain.problems import Refusal
from domain.reversals import ReversedPart
from handlers.messages.missions import achieved_payload, reversed_mission
from handlers.messages.reversals import MISSIONS
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.reversals import Reversal
from persistence import missions

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork

POINTS, BADGE, COUPON = "points", "badge", "coupon"


@dataclass(frozen=True, slots=True)
class _RewardContext:
    """The data that rewards of a mission need of the event or the request that earns them.

    `cause` names the receiver. The other fields are stored with the rewards or their ledger transactions: `key` is the
    beginning of the systemUniqueKey of a transaction, `external_event_date` is None for the moment of the unit of work.
    `occasion` is the occasion of the event, None for a request.
    """

    cause: ProgressCause
    key: str
    external_event_date: datetime | None
    external_id: str | None
    description: str | None
    occasion: Occasion | None = None
    order_external_id: str | None = None


class MissionWork:
    """The missions of one unit of work; only missions whose progress it may change or read are loaded."""

    def __init__(self, unit: UnitOfWork) -> None:
        """Load the progress in the missions that the unit may change or read; at most three statements."""
        self._unit = unit
        self._configuration = unit.configuration
        # The trackings that may be reversed, by the event that counted.
        self._trackings_by_event: dict[int, list[MissionTracking]] = {}
        mission_ids = _missions_of(unit)
        if unit.reversals:
            for tracking in missions.find_trackings(unit.db, unit.organization_id, unit.reversals.event_ids):
                self._trackings_by_event.setdefault(tracking.loyalty_event_id or 0, []).append(tracking)
                mission_ids.add(tracking.mission_id)
        self._state = _load_progress(unit, mission_ids)
        self._missions_by_key = {
            compiled.mission.mission_key: compiled for compiled in self._configuration.missions.values()
        }
        self._transaction_numbers = count(1)
        self._moves: list[MissionMove] = []
        # The moves with achievements that no derived event has reported yet.
        self._unreported_moves: list[MissionMove] = []
        self._errors: list[RuleError] = []

    def progress_by_key(self, member_id: int) -> dict[str, Any]:
        """The member's progress in every mission, by the key of the mission: the variable `missions` of expressions."""
        by_key = {}
        for key, compiled in self._missions_by_key.items():
            progress = self._state.progress(member_id, compiled.mission).progress
            by_key[key] = {"timesAchieved": progress.times_achieved, "currentCounterCount": progress.counter}
        return by_key

    def assume(self, member_id: int, progress_of_missions: Mapping[int, Progress]) -> None:
        """Use this progress, by mission id, for a hypothetical member."""
        for mission_id, progress in progress_of_missions.items():
            self._state.assume(member_id, self._configuration.missions[mission_id].mission, progress)

    def remaining_count(self, member_id: int, compiled: CompiledMission, audience_keys: Collection[str]) -> int | None:
        """The count that a member of these audiences still needs for the next achievement; None if none is possible."""
        if not compiled.is_open(self._unit.now, audience_keys):
            return None
        return self._state.remaining_count(member_id, compiled.mission, self._unit.now)

    def count_event(self, event: EventFacts, deadline: Deadline | None = None) -> bool:
        """Count an event of an active member in all missions that count it.

        Returns True if the progress in one of them changed. All missions share the `deadline` and two budgets: one for
        the steps of their expressions and conditions on items, and one for the number of missions that count the event.
        """
        if not event.is_active:
            return False
        count_before = len(self._moves)
        budget, count_budget = Budget(EVENT_COST, deadline), Budget(EVENT_COST, deadline)
        for compiled in self._configuration.missions_by_type.get(event.event_type, ()):
            if self._is_counted(compiled, event, budget, count_budget):
                self._move(compiled, self._count(compiled, event, budget), self._reward_context_of(event))
        return len(self._moves) > count_before

    def take_errors(self) -> list[RuleError]:
        """Return the new errors of expressions and conditions; the event counted nothing for their missions."""
        errors, self._errors = self._errors, []
        return errors

    def advance(
        self, mission_id: int, amount: int, cause: ProgressCause, audience_keys: Collection[str]
    ) -> tuple[MissionProgress, Advance]:
        """Count the `amount` of a request. Returns the member's progress afterwards, and how it advanced.

        Raises UnknownMission, MissionClosed, or MissionExhausted if nothing can be counted.
        """
        compiled = self._configuration.missions.get(mission_id)
        if compiled is None:
            raise UnknownMission(f"There is no mission {mission_id}.")
        key = f"mission-progress-{self._unit.new_key()}"
        stored_date = None if cause.at == cause.now else cause.at
        context = _RewardContext(cause, key, stored_date, cause.external_id, cause.description)
        advance = self._refuse_or_move(compiled, amount, context, audience_keys)
        # This progress belongs to the request, not to the event that is evaluated next.
        self._moves.clear()
        return self._state.progress(cause.member_id, compiled.mission), advance

    def store_response(self, response: Mapping[str, Any]) -> None:
        """Store the response to the last request with its tracking."""
        self._state.store_response(response)

    def take_moves(self) -> list[MissionMove]:
        """Return the moves of missions that this method has not returned yet, in their order."""
        moves, self._moves = self._moves, []
        return moves

    def take_derived(self) -> list[DerivedEvent]:
        """Return a `mission-status-updated` event for every achievement that this method has not returned yet."""
        moves, self._unreported_moves = self._unreported_moves, []
        return [DerivedEvent(move.member_id, MISSION_ACHIEVED, achieved_payload(move)) for move in moves]

    def reverse(self, event_id: int, reversal: Reversal) -> list[ReversedPart]:
        """Reverse the progress of a stored event; its rewards are reversed by the participants that paid them."""
        parts = []
        for tracking in self._trackings_by_event.get(event_id, ()):
            if not self._state.is_reversed(tracking):
                mission = self._mission(tracking.mission_id)
                advance = self._state.reverse(tracking, mission, reversal.loyalty_event_id)
                parts.append(ReversedPart(MISSIONS, reversed_mission(mission, tracking, advance)))
        return parts

    def flush(self) -> None:
        """Store the changes since the last flush."""
        if not self._unit.is_dry_run:
            organization_id = self._unit.organization_id
            missions.write(self._unit.db, organization_id, self._state.take_changes(), self._unit.now)

    def _is_counted(self, compiled: CompiledMission, event: EventFacts, budget: Budget, count_budget: Budget) -> bool:
        """True if the event counts for a mission; False, with a recorded error, if a budget or the time is used up."""
        try:
            if not compiled.counts(event, budget):
                return False
            count_budget.charge(COUNT_COST)
            return True
        except EvaluationError as error:
            self._add_error(compiled, error.message)
            return False

    def _count(self, compiled: CompiledMission, event: EventFacts, budget: Budget) -> int:
        """Compute the amount that the event counts for a mission: 1 if the mission has no expression for it.

        If it cannot be computed, record an error and return 0.
        """
        span, message = None, compiled.fault
        budget.zone = zone_named(compiled.mission.timezone)
        if compiled.count is not None:
            try:
                return count_of(compiled.count, event.context, budget, self._configuration.functions)
            except EvaluationError as error:
                span, message = (error.start, error.end), error.message
        if message is None:
            return 1
        self._add_error(compiled, message, span)
        return 0

    def _add_error(self, compiled: CompiledMission, message: str, at: tuple[int, int] | None = None) -> None:
        """Add an error of a mission's expressions or conditions; `at` is its place in the expression, if known."""
        mission_id = compiled.mission.mission_id
        self._errors.append(RuleError(campaign_id=None, action_id=None, message=message, at=at, mission_id=mission_id))

    def _mission(self, mission_id: int) -> Mission:
        """The mission, even if it was created after the configuration was read."""
        compiled = self._configuration.missions.get(mission_id)
        if compiled is not None:
            return compiled.mission
        mission = missions.MISSIONS.find(self._unit.db, self._unit.organization_id, mission_id)
        if mission is None:
            raise AssertionError("missions are never removed")
        return mission.in_zone_of(self._unit.organization)

    def advance_by_effect(self, event: EventFacts, params: Mapping[str, Any]) -> ExecutorResult:
        """Execute the effect `advance-mission`."""
        compiled = self._missions_by_key.get(params["missionKey"].lower())
        if compiled is None:
            raise UnknownMission(f"There is no mission with the key {params['missionKey']}.")
        amount = int(params["amount"])
        if not amount:
            raise NothingToDo(f"amount is {params['amount']}: a mission advances by at least 1.")
        advance = self._refuse_or_move(compiled, amount, self._reward_context_of(event), event.audience_keys)
        refusal = None if advance.counted == amount else _mission_exhausted(compiled.mission)
        return ExecutorResult(Decimal(advance.counted), refusal=refusal)

    def _refuse_or_move(
        self, compiled: CompiledMission, amount: int, context: _RewardContext, audience_keys: Collection[str]
    ) -> Advance:
        """Count the amount by `_move`; raises MissionClosed or MissionExhausted, but never for an amount of 0."""
        if amount:
            compiled.refuse_closed(context.cause.at, audience_keys)
            if not self._state.remaining_achievements(context.cause.member_id, compiled.mission, context.cause.at):
                raise _mission_exhausted(compiled.mission)
        return self._move(compiled, amount, context)

    def _move(self, compiled: CompiledMission, amount: int, context: _RewardContext) -> Advance:
        """Count the amount, up to the maximum of achievements, and pay the rewards of the new achievements."""
        advance = self._state.count(compiled.mission, amount, context.cause)
        if advance.counted:
            rewards = tuple(self._pay_rewards(compiled, advance.achieved, context)) if advance.achieved else ()
            move = MissionMove(context.cause.member_id, compiled.mission, advance, rewards)
            self._moves.append(move)
            if advance.achieved:
                self._unreported_moves.append(move)
        return advance

    def _pay_rewards(self, compiled: CompiledMission, times: int, context: _RewardContext) -> Iterable[Reward]:
        """Pay the rewards of the mission; a refused reward is recorded and does not stop the other ones."""
        if compiled.mission.points_accrual:
            yield self._pay_points(compiled, compiled.mission.points_accrual * times, context)
        if compiled.mission.badge_key is not None:
            yield self._pay_badge(compiled.mission.badge_key, times, context.cause)
        if compiled.mission.coupon_book_key is not None:
            yield self._pay_coupon(compiled, compiled.mission.coupon_book_key, times, context)

    def _pay_points(self, compiled: CompiledMission, amount: Decimal, context: _RewardContext) -> Reward:
        """Pay points up to the maximum balance; the reward has the paid part, and the refusal of the rest."""
        mission, cause, ledger = compiled.mission, context.cause, self._unit.ledger
        if compiled.account is None:
            unknown_account = UnknownLedgerAccount("The organization's default ledger has no default account.")
            return Reward(POINTS, amount, refusal=unknown_account.as_problem())
        account = ledger.accounts[compiled.account.ledger_account_id]
        details = Details(
            system_unique_key=f"{context.key}:mission-{next(self._transaction_numbers)}",
            external_id=context.external_id,
            external_event_date=context.external_event_date,
            description=mission.ledger_transaction_description or context.description,
            tags=tuple(dict.fromkeys((*cause.tags, *mission.tags))) or None,
            loyalty_event_id=cause.loyalty_event_id,
            order_external_id=context.order_external_id,
        )
        wallet_id = self._unit.members[cause.member_id].wallet_id
        expires_at = expiry_of_reward(mission, cause.at)
        refusal: Refusal | None
        granted_amount, refusal = ledger.within_max_balance(account, wallet_id, amount)
        wait = None
        if granted_amount:
            terms = Availability.from_fields_of(mission)
            try:
                wait = ledger.mint(account, wallet_id, granted_amount, details, expires_at, availability=terms).wait
            except Refusal as failure:
                refusal = failure
                granted_amount = Decimal(0)
        return Reward(
            POINTS,
            amount,
            ledger_account_key=account.ledger_account_key,
            refusal=None if refusal is None else refusal.as_problem(),
            paid=granted_amount,
            wait=wait,
        )

    def _pay_badge(self, badge_key: str, times: int, cause: ProgressCause) -> Reward:
        """Assign as many of the `times` badges as the badge's maximum allows."""
        grant = BadgeGrant(
            cause.member_id,
            self._configuration.badges[badge_key],
            times,
            external_id=cause.external_id,
            loyalty_event_id=cause.loyalty_event_id,
        )
        badges = self._unit.badges
        reward = Reward(BADGE, Decimal(times), badge_key=badge_key)
        try:
            badges.assign(grant)
        except BadgeLimit as refusal:
            part = badges.remaining(cause.member_id, grant.badge)
            if part:
                badges.assign(replace(grant, amount=part))
            return replace(reward, refusal=refusal.as_problem(), paid=Decimal(part))
        except Refusal as refusal:
            return replace(reward, refusal=refusal.as_problem())
        return reward

    def _pay_coupon(
        self, compiled: CompiledMission, coupon_book_key: str, times: int, context: _RewardContext
    ) -> Reward:
        """Assign `times` coupons, or if the book refuses this, the largest number that it allows; return the reward."""
        cause, coupons = context.cause, self._unit.coupons
        assign = partial(
            coupons.assign_reward,
            cause.member_id,
            coupon_book_key,
            loyalty_event_id=cause.loyalty_event_id,
            external_event_date=context.external_event_date,
            description=compiled.mission.ledger_transaction_description or context.description,
            occasion=context.occasion,
        )
        reward = Reward(COUPON, Decimal(times), coupon_book_key=coupon_book_key)
        try:
            return replace(reward, code=assign(reward.amount).code)
        except Refusal as refusal:
            part = Decimal(coupons.find_largest_part(times, assign))
            code = assign(part).code if part else None
            return replace(reward, refusal=refusal.as_problem(), paid=part, code=code)

    def _reward_context_of(self, event: EventFacts) -> _RewardContext:
        """The context of the rewards that an event earns."""
        cause = ProgressCause(
            organization_id=self._unit.organization_id,
            member_id=event.member_id,
            at=event.at,
            now=self._unit.now,
            loyalty_event_id=event.loyalty_event_id,
        )
        return _RewardContext(
            cause=cause,
            key=event.transaction_prefix,
            external_event_date=event.external_event_date,
            external_id=event.external_id,
            description=event.description,
            occasion=event.occasion,
            order_external_id=event.order_external_id,
        )


def _mission_exhausted(mission: Mission) -> MissionExhausted:
    return MissionExhausted(
        f"The member has achieved the mission {mission.name} the maximum number of times, in total or in this period."
    )


def _missions_of(unit: UnitOfWork) -> set[int]:
    """The ids of the missions whose progress the unit may change, or an expression may read."""
    configuration = unit.configuration
    # None for a request, which may cause events of any type.
    if unit.event_types is None or configuration.uses_missions:
        return set(configuration.missions)
    by_type = configuration.missions_by_type
    event_types = unit.event_types | configuration.possible_derived_types
    return {compiled.mission.mission_id for event_type in event_types for compiled in by_type.get(event_type, ())}


def _load_progress(unit: UnitOfWork, mission_ids: Collection[int]) -> MissionProgressState:
    """Load the progress of a unit's members in missions, and their achievements in the present periods."""
    if not (mission_ids and unit.members):
        return MissionProgressState(progress_of_members={}, achievement_counts={})
    progress = missions.find_progress_of_members(unit.db, unit.organization_id, unit.members, mission_ids)
    periods = _periods(unit, mission_ids)
    if not periods:
        return MissionProgressState(progress, achievement_counts={})
    return MissionProgressState(
        progress, missions.find_achieved_in_periods(unit.db, unit.organization_id, unit.members, periods)
    )


def _periods(unit: UnitOfWork, mission_ids: Collection[int]) -> Mapping[tuple[int, date], tuple[datetime, datetime]]:
    """The periods that the unit's counts can fall in, by mission and first day, each with its begin and end."""
    periods = {}
    for mission_id in mission_ids:
        compiled = unit.configuration.missions.get(mission_id)
        if compiled is not None and (period := compiled.mission.repetition_period) is not None:
            zone = zone_named(compiled.mission.timezone)
            for first_day in {period_start(period, at, zone) for at in unit.moments}:
                begin, end = start_of_day(first_day, zone), start_of_day(next_period(period, first_day), zone)
                periods[mission_id, first_day] = begin, end
    return periods
