"""The evaluation of one event: which actions apply, what their effects do, and why others do not apply.

The same code runs for all execution modes: a dry run posts to a session that is then discarded; an authorization posts
only pending transactions and leaves all other effects undone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from typing import Any

from domain.calendar import instant_text
from domain.campaigns.budgets import LimitBudget
from domain.campaigns.compiled import CompiledAction, CompiledCampaign, CompiledEffect, EvaluationPlan, constant, is_bad
from domain.campaigns.context import EventFacts, Executor, Performed, balances_by_name
from domain.campaigns.cooldowns import CooldownActive
from domain.campaigns.counters import Counters
from domain.campaigns.effects import ASSIGN_COUPON, BURN_POINTS, DISCOUNT, MINT_POINTS, NOTIFY
from domain.campaigns.limited_effects import LimitedEffects, use_of_coupons
from domain.campaigns.limits import EventLimit, LimitUse
from domain.campaigns.outcomes import (
    AUTHORIZED,
    EVALUATED,
    EXECUTED,
    FAILED,
    PARTIAL,
    SKIPPED,
    ZERO,
    BadParameter,
    Done,
    EffectOutcome,
    Evaluation,
    Explanation,
    LimitReached,
    Reason,
    RuleError,
)
from domain.campaigns.point_effects import PointEffects
from domain.campaigns.records import Action
from domain.campaigns.restrictions import first_violated
from domain.campaigns.variables import ENVIRONMENT
from domain.events import AUTHORIZE, DRY_RUN
from domain.expressions import EVENT_COST, Budget, Deadline, EvaluationError, Node, Room, Trace, explain, reason
from domain.ledger.records import LedgerAccount
from domain.ledger.session import LedgerSession
from domain.members import MemberInactive
from domain.problems import Conflict, Refusal

MAX_ERRORS = 100
"""Most errors of rules that are reported for one event."""


@dataclass(frozen=True, slots=True)
class _Computed:
    """An effect with the values of its parameters for this event, or the `fault` in computing them.

    `details` are reported with the effect once it has been executed.
    """

    effect_id: str
    params: dict[str, Any]
    fault: Refusal | None
    details: dict[str, Any] = field(default_factory=dict)


class Evaluator:
    """Runs one event through the campaigns, posting to the ledger and counting in the counters of its batch.

    `executor_of` returns the executor of an effect that is neither about points nor a discount. `mode` is that of the
    request; with `tracing` a dry run reports the value of every part of the rules. Rules that are not evaluated by the
    `deadline` fail; explanations share this deadline.
    """

    def __init__(
        self,
        event: EventFacts,
        session: LedgerSession,
        counters: Counters,
        accounts: Mapping[str, LedgerAccount],
        functions: Mapping[str, Any],
        executor_of: Callable[[str], Executor],
        mode: str,
        tracing: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        self._event = event
        self._session = session
        self._accounts = accounts
        self._counters = counters
        self._functions = functions
        self._executor_of = executor_of
        self._explaining = mode == DRY_RUN
        self._authorizing = mode == AUTHORIZE
        self._tracing = tracing
        self._budget = Budget(EVENT_COST, deadline)
        self._deadline = deadline
        self._telling: tuple[Budget, Room] | None = None
        self._evaluation = Evaluation()
        self._allowances = LimitBudget(event, counters)
        self._limited = LimitedEffects(event, self._allowances)
        self._points = PointEffects(event, session, accounts, self._allowances, self._authorizing)
        self._aborted: set[int] = set()
        self._groups: set[str] = set()

    def run(self, plan: EvaluationPlan) -> Evaluation:
        """Evaluate all actions of the campaigns that apply, in the order of the plan."""
        journal_start = len(self._counters.journal)
        blocked: set[int] = set()
        for campaign in plan.campaigns:
            violated = first_violated(campaign.restrictions, self._event)
            if violated is not None:
                blocked.add(campaign.campaign.campaign_id)
                if self._explaining:
                    self._explain(campaign, None, False, violated.reason(self._event))
                continue
            if self._explaining:
                self._explain(campaign, None, True)
            for idle in campaign.idle_actions:
                why = Reason("ACTION_NOT_RUNNING", f"the action is {idle.status}", idle.status)
                self._explain(campaign, idle, False, why)
        for campaign, action in plan.actions:
            if campaign.campaign.campaign_id not in blocked:
                self._consider(campaign, action)
        self._evaluation.counted = self._counters.journal[journal_start:]
        self._evaluation.cooldown_campaign_ids = self._allowances.cooldown_campaign_ids
        self._evaluation.alerts = self._allowances.alerts
        self._evaluation.limit_discarded = self._points.discarded
        self._evaluation.discount_total = self._limited.discount_total
        return self._evaluation

    def _consider(self, campaign: CompiledCampaign, action: CompiledAction) -> None:
        record, campaign_id = action.action, campaign.campaign.campaign_id
        self._budget.zone = campaign.zone
        if campaign_id in self._aborted:
            self._explain(campaign, record, False, Reason("ABORTED", "an earlier action ended the campaign"))
            return
        if record.exclusive_group is not None and record.exclusive_group in self._groups:
            label = f"another action of the group {record.exclusive_group} has applied"
            self._explain(campaign, record, False, Reason("EXCLUSIVE_GROUP", label, record.exclusive_group))
            return
        holds, error = self._rule_holds(campaign, action)
        if not holds:
            if (error and record.abort_evaluation_on_error) or (not error and record.abort_evaluation_if_false):
                self._aborted.add(campaign_id)
            self._explain_rule(campaign, action)
            return
        if record.exclusive_group is not None:
            self._groups.add(record.exclusive_group)
        failed = self._apply(campaign, action)
        if failed and record.abort_evaluation_on_error:
            self._aborted.add(campaign_id)

    def _rule_holds(self, campaign: CompiledCampaign, action: CompiledAction) -> tuple[bool, bool]:
        """Return whether the rule holds, and whether its evaluation failed."""
        if action.fault is not None:
            self._note_error(campaign, action, action.fault, None)
            return False, True
        if action.rule is None:
            return True, False
        try:
            return action.rule.run(self._event.context, self._budget, self._functions) is True, False
        except EvaluationError as error:
            self._note_error(campaign, action, error.message, (error.start, error.end))
            return False, True

    def _note_error(
        self, campaign: CompiledCampaign, action: CompiledAction, message: str, at: tuple[int, int] | None
    ) -> None:
        if len(self._evaluation.errors) < MAX_ERRORS:
            error = RuleError(campaign.campaign.campaign_id, action.action.action_id, message, at)
            self._evaluation.errors.append(error)

    def _apply(self, campaign: CompiledCampaign, action: CompiledAction) -> bool:
        """Run the effects of an action whose rule holds; True if one failed."""
        computed = [self._compute(effect) for effect in action.effects]
        if campaign.limits or campaign.cooldown is not None:
            why = self._blocked_by(campaign, computed)
            if why is not None:
                self._skip(campaign, action, computed, *why)
                return False
        if self._explaining:
            self._explain(campaign, action.action, True, None, self._trace(campaign, action))
        failed = moves_points = False
        for effect in computed:
            done = Done(FAILED, effect.fault, ZERO) if effect.fault else self._execute(campaign, effect)
            failed = failed or done.status == FAILED
            if done.status in (EXECUTED, PARTIAL, AUTHORIZED):
                self._allowances.count_event(campaign)
            self._report(campaign, action, effect, done)
            moves_points = moves_points or effect.effect_id in (MINT_POINTS, BURN_POINTS)
        if moves_points:
            self._refresh_balances()
        return failed

    def _blocked_by(
        self, campaign: CompiledCampaign, computed: Sequence[_Computed]
    ) -> tuple[CooldownActive | LimitReached, Reason] | None:
        """The refusal of an action by the cooldown or a limit of its campaign, with its explanation."""
        allowances = self._allowances
        near = allowances.cooling_by(campaign)
        if near is not None:
            detail = f"The campaign had an effect at {instant_text(near)}, and its cooldown is"
            cooling = CooldownActive(f"{detail} {campaign.campaign.cooldown}.")
            return cooling, Reason("COOLDOWN", cooling.detail, near)
        limit = self._broken_limit(campaign, computed) if campaign.limits else None
        if limit is None:
            return None
        refusal = LimitReached.of(limit)
        return refusal, Reason("LIMIT_REACHED", refusal.detail, self._counters.used(limit.key))

    def _broken_limit(self, campaign: CompiledCampaign, computed: Sequence[_Computed]) -> EventLimit | None:
        """The limit that does not allow an action of the campaign."""
        exhausted = self._allowances.shut_by(campaign)
        if exhausted is not None or campaign.campaign.allow_partial_application_on_limit:
            return exhausted
        return self._allowances.of(campaign).broken_by(self._uses(campaign, computed), self._counters)

    def _refresh_balances(self) -> None:
        """Update `balancesAfter` to the balances that the action has left."""
        after = self._event.context.get("balancesAfter")
        if after is not None:
            after.update(balances_by_name(self._session, self._event.wallet_id, self._accounts.values()))

    def _compute(self, effect: CompiledEffect) -> _Computed:
        """The values of an effect's parameters for this event."""
        effect_id = effect.effect.effect_id
        values: dict[str, Any] = {}
        for param in effect.params:
            value, name = param.value, param.parameter.id
            if param.program is not None:
                try:
                    value = param.program.run(self._event.context, self._budget, self._functions)
                except EvaluationError as error:
                    return _Computed(effect_id, values, BadParameter(f"{name}: {error}"))
                value = constant(param.parameter, value)
                if is_bad(value):
                    fault = BadParameter(f"{name} evaluated to a value of the wrong kind or size.")
                    return _Computed(effect_id, values, fault)
            values[name] = value
        for name in ("amount", "qualifyingAmount"):
            if (value := values.get(name)) is not None and value < 0:
                return _Computed(effect_id, values, BadParameter(f"{name} evaluated to {value}, less than zero."))
        return _Computed(effect_id, values, None)

    def _execute(self, campaign: CompiledCampaign, effect: _Computed) -> Done:
        """Execute one effect, or return why it was not executed."""
        if effect.effect_id == MINT_POINTS:
            return self._points.mint(campaign, effect.params)
        if effect.effect_id == BURN_POINTS:
            return self._points.burn(campaign, effect.params)
        if not self._event.is_active and effect.effect_id != NOTIFY:
            return Done(SKIPPED, MemberInactive("The member of the event is not active."), ZERO)
        if effect.effect_id == DISCOUNT:
            return self._limited.discount(campaign, effect.params)
        if effect.effect_id == ASSIGN_COUPON and campaign.limits:
            return self._limited.coupons(campaign, effect.params, lambda params: self._perform(effect, params))
        return self._perform(effect, effect.params)

    def _perform(self, effect: _Computed, params: Mapping[str, Any]) -> Done:
        """Let the participants execute an effect, unless the request only authorizes it."""
        if self._authorizing:
            return Done(AUTHORIZED, None)
        try:
            performed = self._executor_of(effect.effect_id)(self._event, params) or Performed()
            effect.details.update(performed.details)
            return Done(EXECUTED, None, performed.amount, worth=performed.worth)
        except BadParameter as fault:
            return Done(FAILED, fault, ZERO)
        except Conflict as conflict:
            return Done(SKIPPED, conflict, ZERO)
        except Refusal as failure:
            return Done(FAILED, failure, ZERO)

    def _uses(self, campaign: CompiledCampaign, computed: Sequence[_Computed]) -> list[LimitUse]:
        """All uses of limits that the effects of an action would be."""
        uses: list[LimitUse] = []
        basket = self._limited.trial_basket()
        for effect in computed:
            if effect.fault is not None:
                continue
            if effect.effect_id == MINT_POINTS:
                uses += self._points.uses_before_limits(campaign, effect.params)
            elif effect.effect_id == DISCOUNT and self._event.is_active:
                uses.append(self._limited.use_of_discount(effect.params, basket))
            elif effect.effect_id == ASSIGN_COUPON and self._event.is_active:
                uses.append(use_of_coupons(effect.params))
        return uses

    def _skip(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction,
        computed: Sequence[_Computed],
        refusal: CooldownActive | LimitReached,
        why: Reason,
    ) -> None:
        is_over_limit = isinstance(refusal, LimitReached)
        self._explain(campaign, action.action, False, why, self._trace(campaign, action))
        for effect in computed:
            if is_over_limit and effect.effect_id == MINT_POINTS and effect.fault is None:
                self._points.discard(campaign, effect.params)
            self._report(campaign, action, effect, Done(SKIPPED, effect.fault or refusal, ZERO))

    def _report(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction,
        effect: _Computed,
        done: Done,
    ) -> None:
        self._evaluation.effects.append(
            EffectOutcome(
                action_id=action.action.action_id,
                action_index=action.action.action_index,
                campaign_id=campaign.campaign.campaign_id,
                campaign_version_id=campaign.campaign.campaign_version_id,
                campaign_code=campaign.campaign.code,
                action_name=action.action.name,
                effect_id=effect.effect_id,
                status=self._told(done.status),
                error=None if done.error is None else done.error.as_problem(),
                params=_params(effect, done.amount),
                details=effect.details,
                discount=done.discount,
                worth=done.worth,
                wait=done.wait,
            )
        )

    def _told(self, status: str) -> str:
        """The status in this mode: a dry run executes nothing, and authorized points are pending."""
        if status != EXECUTED:
            return status
        return EVALUATED if self._explaining else AUTHORIZED if self._authorizing else EXECUTED

    def _explain_rule(self, campaign: CompiledCampaign, action: CompiledAction) -> None:
        if self._explaining and action.node is not None:
            trace = self._told_of(action.node, campaign.zone)
            trace_reason = reason(trace)
            if trace_reason is None:
                # The rule itself may hold: the evaluations before it have used up the cost of the event.
                why = Reason("COST", "the expressions of the event cost too much together")
            else:
                why = Reason(
                    trace_reason["code"], trace_reason["label"], trace_reason["actual"], tuple(trace_reason["at"])
                )
            self._explain(campaign, action.action, False, why, trace if self._tracing else None)

    def _trace(self, campaign: CompiledCampaign, action: CompiledAction) -> Mapping[str, Any] | None:
        """The value of every part of the action's rule, if a trace is requested."""
        if not (self._explaining and self._tracing) or action.node is None:
            return None
        return self._told_of(action.node, campaign.zone)

    def _told_of(self, node: Node, zone: tzinfo) -> Trace:
        """The values of a rule and its parts; all explanations of the event share a budget, a deadline and a length."""
        if self._telling is None:
            self._telling = Budget(EVENT_COST, self._deadline), Room()
        budget, room = self._telling
        budget.zone = zone
        return explain(node, ENVIRONMENT, self._event.context, self._functions, budget, room=room)

    def _explain(
        self,
        campaign: CompiledCampaign,
        action: Action | None,
        applied: bool,
        why: Reason | None = None,
        trace: Mapping[str, Any] | None = None,
    ) -> None:
        if self._explaining:
            self._evaluation.explanations.append(
                Explanation(
                    campaign_id=campaign.campaign.campaign_id,
                    campaign_version_id=campaign.campaign.campaign_version_id,
                    campaign_key=campaign.campaign.campaign_key,
                    campaign_code=campaign.campaign.code,
                    action_id=action.action_id if action else None,
                    action_name=action.name if action else None,
                    applied=applied,
                    reason=why,
                    trace=trace,
                )
            )


def _params(computed: _Computed, done: Decimal | None) -> tuple[tuple[str, Any], ...]:
    """The parameters of an effect as reported: the executed amount, and the requested one if it differs."""
    if done is None or computed.params.get("amount", done) == done:
        return tuple(computed.params.items())
    reported: list[tuple[str, Any]] = []
    for name, value in computed.params.items():
        reported += [(name, done), ("requestedAmount", value)] if name == "amount" else [(name, value)]
    return tuple(reported)
