"""The evaluation of one event: which actions apply, what their effects do, and why others do not apply.

The same code runs for all execution modes: a dry run posts to a session that is then discarded; an authorization posts
only pending transactions and does not execute other effects.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

from domain.campaigns.budgets import LimitBudget
from domain.campaigns.compiled import CampaignAction, CompiledAction, CompiledCampaign, EvaluationPlan
from domain.campaigns.context import EventFacts, Executor, balances_by_name
from domain.campaigns.cooldowns import CooldownActive
from domain.campaigns.counters import Counters
from domain.campaigns.effects import BURN_POINTS, MINT_POINTS
from domain.campaigns.execution import ComputedEffect, EffectComputer, EffectRunner, RunAndUndo, reported_params
from domain.campaigns.outcomes import (
    AUTHORIZED,
    EVALUATED,
    EXECUTED,
    FAILED,
    PARTIAL,
    SKIPPED,
    ZERO,
    EffectGrant,
    EffectOutcome,
    EffectResult,
    Evaluation,
    Explanation,
    LimitReached,
    Reason,
    RuleError,
)
from domain.campaigns.point_effects import PointEffects
from domain.campaigns.records import REEVALUATE, Action
from domain.campaigns.reevaluation import action_grants, grant_of_effect
from domain.campaigns.restrictions import first_violated
from domain.campaigns.stacking import FIRST, Bid, Stacking, WonItems, beaten_by, decide
from domain.campaigns.variables import ENVIRONMENT
from domain.events import AUTHORIZE, DRY_RUN
from domain.expressions import (
    EVENT_COST,
    Budget,
    CharacterBudget,
    Deadline,
    EvaluationError,
    Node,
    Trace,
    explain,
    reason,
)
from domain.ledger.records import LedgerAccount
from domain.ledger.session import LedgerSession

MAX_ERRORS = 100
"""Maximum number of errors of rules that are reported for one event."""


class _Competitor(NamedTuple):
    """An action in a contest, with its computed effects and its bid."""

    campaign: CompiledCampaign
    action: CompiledAction
    effects: Sequence[ComputedEffect]
    bid: Bid


class Evaluator:
    """Evaluates one event by the campaigns: posts to the ledger session, and counts in the counters of its batch.

    `executor_of` returns the executor of an effect that is neither about points nor a discount. `mode` is the execution
    mode; with `tracing` a dry run reports the value of every part of the rules. Rules that are not evaluated by the
    `deadline` fail; explanations share this deadline. `run_and_undo` is needed if actions of a stacking group
    compete, to execute effects on coupons and then undo their changes.
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
        tracing: bool,
        run_and_undo: RunAndUndo,
        deadline: Deadline | None = None,
    ) -> None:
        self._event = event
        self._session = session
        self._accounts = accounts
        self._counters = counters
        self._functions = functions
        self._explaining = mode == DRY_RUN
        self._authorizing = mode == AUTHORIZE
        self._tracing = tracing
        self._budget = Budget(EVENT_COST, deadline)
        self._deadline = deadline
        self._explanation_budgets: tuple[Budget, CharacterBudget] | None = None
        self._evaluation = Evaluation()
        self._limit_budget = LimitBudget(event, counters)
        self._points = PointEffects(event, session, accounts, self._limit_budget, self._authorizing)
        self._compute = EffectComputer(event, functions, self._budget).compute
        self._effects = EffectRunner(
            event,
            session,
            counters,
            self._limit_budget,
            self._points,
            executor_of,
            self._authorizing,
            run_and_undo,
        )
        # The length of the counters' log before this event.
        self._first_count = 0
        # Campaigns that an action ended, and campaigns whose restrictions forbid the event.
        self._aborted_campaign_ids: set[int] = set()
        self._blocked_campaign_ids: set[int] = set()
        # Groups of which the first action has applied.
        self._closed_groups: set[Stacking] = set()
        # The exclusive campaign that has applied, if any.
        self._exclusive_campaign_id: int | None = None

    def run(self, plan: EvaluationPlan) -> Evaluation:
        """Evaluate all actions of the campaigns that apply, in the order of the plan."""
        first_count = self._first_count = len(self._counters.count_log)
        for campaign in plan.campaigns:
            restriction = first_violated(campaign.restrictions, self._event)
            if restriction is not None:
                self._blocked_campaign_ids.add(campaign.record.campaign_id)
                if self._explaining:
                    self._explain(campaign, action=None, why=restriction.reason(self._event))
                continue
            if self._explaining:
                self._explain(campaign, action=None, why=None)
            for inactive in campaign.inactive_actions:
                why = Reason("ACTION_NOT_RUNNING", f"the action is {inactive.status}", inactive.status)
                self._explain(campaign, inactive, why)
        for actions, contest in plan.turns:
            if contest is not None:
                rivals = [
                    (campaign, action)
                    for campaign, action in actions
                    if self._may_apply(campaign, action) and self._check_rule(campaign, action)
                ]
                self._decide(contest, rivals)
                continue
            for campaign, action in actions:
                if self._may_apply(campaign, action) and self._check_rule(campaign, action):
                    self._apply(campaign, action, list(map(self._compute, action.effects)))
        self._evaluation.counts = self._counters.count_log[first_count:]
        self._evaluation.cooldown_campaign_ids = self._limit_budget.cooldown_campaign_ids
        self._evaluation.alerts = self._limit_budget.alerts
        self._evaluation.limit_discarded = self._points.limit_discarded
        return self._evaluation

    def _may_apply(self, campaign: CompiledCampaign, action: CompiledAction) -> bool:
        """Return whether the action may apply; if the result of an earlier action excludes it, report why.

        A restriction of the campaign was reported before.
        """
        campaign_id, stacking = campaign.record.campaign_id, action.stacking
        if campaign_id in self._blocked_campaign_ids:
            return False
        if campaign_id in self._aborted_campaign_ids:
            why = Reason("ABORTED", "an earlier action ended the campaign")
        elif self._exclusive_campaign_id not in (None, campaign_id):
            why = Reason("NOT_COMBINABLE", "an exclusive campaign has applied", self._exclusive_campaign_id)
        elif stacking is not None and stacking in self._closed_groups:
            label = f"another action of the group {stacking.name} has applied"
            why = Reason("EXCLUSIVE_GROUP", label, stacking.name)
        else:
            return True
        self._explain(campaign, action.record, why)
        return False

    def _check_rule(self, campaign: CompiledCampaign, action: CompiledAction) -> bool:
        """Return whether the rule of an action holds.

        If it does, and only the first action of its group applies, the group is closed. A rule that is false or fails
        ends the campaign if the action is set to do so.
        """
        record, stacking = action.record, action.stacking
        self._budget.zone = campaign.zone
        holds = self._evaluate_rule(campaign, action)
        if holds:
            if stacking is not None and stacking.mode == FIRST and not stacking.is_contest:
                self._closed_groups.add(stacking)
            return True
        is_ended = record.abort_evaluation_on_error if holds is None else record.abort_evaluation_if_false
        if is_ended:
            self._aborted_campaign_ids.add(campaign.record.campaign_id)
        self._explain_rule(campaign, action)
        return False

    def _decide(self, contest: Stacking, actions: Sequence[CampaignAction]) -> None:
        """Let the actions of a stacking group compete; apply the winners."""
        competitors: list[_Competitor] = []
        for campaign, action in actions:
            self._budget.zone = campaign.zone
            effects = list(map(self._compute, action.effects))
            refusal_and_reason = self._effects.refusal_of(campaign, effects)
            if refusal_and_reason is None:
                bid = self._effects.compute_bid(campaign, action, effects)
                competitors.append(_Competitor(campaign, action, effects, bid))
            else:
                self._skip(campaign, action, effects, *refusal_and_reason)
        verdict = decide(contest, [competitor.bid for competitor in competitors])
        for position, competitor in enumerate(competitors):
            campaign, action, bid = competitor.campaign, competitor.action, competitor.bid
            if position not in verdict.won_items:
                why = beaten_by(bid, competitors[verdict.beaten[position]].bid)
                self._explain(campaign, action.record, why, self._trace(campaign, action))
            # Checked again, since an earlier winner may exclude this one.
            elif self._may_apply(campaign, action):
                items = verdict.won_items[position]
                self._apply(campaign, action, competitor.effects, None if items is None else WonItems(bid, items))

    def _evaluate_rule(self, campaign: CompiledCampaign, action: CompiledAction) -> bool | None:
        """Return whether the rule holds, None if its evaluation failed; report the error."""
        if action.fault is not None:
            self._record_error(campaign, action, action.fault, at=None)
            return None
        if action.rule is None:
            return True
        try:
            return action.rule.run(self._event.context, self._budget, self._functions) is True
        except EvaluationError as error:
            self._record_error(campaign, action, error.message, (error.start, error.end))
            return None

    def _record_error(
        self, campaign: CompiledCampaign, action: CompiledAction, message: str, at: tuple[int, int] | None
    ) -> None:
        """Report an error of an action's rule; `at` is the place of the failing part in the text, None if unknown."""
        if len(self._evaluation.errors) < MAX_ERRORS:
            error = RuleError(campaign.record.campaign_id, action.record.action_id, message, at)
            self._evaluation.errors.append(error)

    def _apply(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction,
        effects: Sequence[ComputedEffect],
        won_items: WonItems | None = None,
    ) -> None:
        """Execute the effects of an action whose rule holds, unless the cooldown or a limit of the campaign forbids it.

        After a contest for single items, discounts apply only to the `won_items` of the action. If the campaign is
        re-evaluated on returns, what each effect granted is recorded for a later partial return.
        """
        refusal_and_reason = self._effects.refusal_of(campaign, effects, won_items)
        if refusal_and_reason is not None:
            self._skip(campaign, action, effects, *refusal_and_reason)
            return
        if self._explaining:
            self._explain(campaign, action.record, why=None, trace=self._trace(campaign, action))
        is_reevaluated = campaign.record.on_return == REEVALUATE
        grants: list[EffectGrant] = []
        for position, effect in enumerate(effects):
            share = None if won_items is None else won_items.share(position)
            first_count = self._count_total if is_reevaluated else 0
            result = self._effects.execute(campaign, effect, share)
            if is_reevaluated:
                counts = range(first_count, self._count_total)
                transaction_number = self._points.transaction_count
                grant = grant_of_effect(position, effect, result, share, transaction_number, counts)
                if grant is not None:
                    grants.append(grant)
            self._record_result(campaign, action, effect, result)
        if grants and self._event.context["order"] is not None:
            self._evaluation.granted_actions.append(action_grants(campaign, action.record, grants, self._event))
        if any(effect.effect_id in (MINT_POINTS, BURN_POINTS) for effect in effects):
            self._refresh_balances()

    @property
    def _count_total(self) -> int:
        """The number of counts on limits that this event has logged."""
        return len(self._counters.count_log) - self._first_count

    def _record_result(
        self, campaign: CompiledCampaign, action: CompiledAction, effect: ComputedEffect, result: EffectResult
    ) -> None:
        """Report the result of an effect, and let it decide about later actions.

        A failed effect ends the campaign if its action requires it. An executed effect counts for the limits on events,
        and excludes other campaigns if its own is exclusive.
        """
        if result.status == FAILED and action.record.abort_evaluation_on_error:
            self._aborted_campaign_ids.add(campaign.record.campaign_id)
        if result.status in (EXECUTED, PARTIAL, AUTHORIZED):
            self._limit_budget.count_event(campaign)
            if campaign.record.exclusive:
                self._exclusive_campaign_id = campaign.record.campaign_id
        if result.discount is not None:
            self._evaluation.discount_total += result.discount.amount
        self._report(campaign, action, effect, result)

    def _refresh_balances(self) -> None:
        """Set the variable `balancesAfter` to the balances after the action."""
        balances_after = self._event.context.get("balancesAfter")
        if balances_after is not None:
            balances_after.update(balances_by_name(self._session, self._event.wallet_id, self._accounts.values()))

    def _skip(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction,
        effects: Sequence[ComputedEffect],
        refusal: CooldownActive | LimitReached,
        why: Reason,
    ) -> None:
        """Report the effects of an action as skipped because of a cooldown or a limit; `why` explains the `refusal`."""
        is_over_limit = isinstance(refusal, LimitReached)
        self._explain(campaign, action.record, why, self._trace(campaign, action))
        for effect in effects:
            # Results report the sum of the points that limits cut off; points for a cooldown are not in it.
            if is_over_limit and effect.effect_id == MINT_POINTS and effect.fault is None:
                self._points.discard(campaign, effect.params)
            self._report(campaign, action, effect, EffectResult(SKIPPED, effect.fault or refusal, ZERO))

    def _report(
        self,
        campaign: CompiledCampaign,
        action: CompiledAction,
        effect: ComputedEffect,
        effect_result: EffectResult,
    ) -> None:
        """Add the outcome of an effect to the evaluation."""
        self._evaluation.effects.append(
            EffectOutcome(
                campaign=campaign.record,
                action=action.record,
                effect_id=effect.effect_id,
                status=self._status_in_mode(effect_result.status),
                error=None if effect_result.error is None else effect_result.error.as_problem(),
                params=reported_params(effect, effect_result.amount),
                details=effect_result.details,
                discount=effect_result.discount,
                worth=effect_result.worth,
                wait=effect_result.wait,
            )
        )

    def _status_in_mode(self, status: str) -> str:
        """The status to report in this mode: a dry run executes nothing, and authorized points are pending."""
        if status != EXECUTED:
            return status
        return EVALUATED if self._explaining else AUTHORIZED if self._authorizing else EXECUTED

    def _explain_rule(self, campaign: CompiledCampaign, action: CompiledAction) -> None:
        """In a dry run, report why the rule of an action does not hold."""
        if self._explaining and action.node is not None:
            trace = self._explain_node(action.node, campaign.zone)
            trace_reason = reason(trace)
            if trace_reason is None:
                # With the budget of explanations, the rule holds: earlier evaluations used up the event's budget.
                why = Reason("COST", "the expressions of the event cost too much together")
            else:
                why = Reason(
                    trace_reason["code"], trace_reason["label"], trace_reason["actual"], tuple(trace_reason["at"])
                )
            self._explain(campaign, action.record, why, trace if self._tracing else None)

    def _trace(self, campaign: CompiledCampaign, action: CompiledAction) -> Mapping[str, Any] | None:
        """The value of every part of the action's rule; None if no trace is requested or the action has no rule."""
        if not (self._explaining and self._tracing) or action.node is None:
            return None
        return self._explain_node(action.node, campaign.zone)

    def _explain_node(self, node: Node, zone: tzinfo) -> Trace:
        """The values of a rule and its parts; explanations of the event share budget, deadline and length."""
        if self._explanation_budgets is None:
            self._explanation_budgets = Budget(EVENT_COST, self._deadline), CharacterBudget()
        budget, characters = self._explanation_budgets
        budget.zone = zone
        return explain(node, ENVIRONMENT, self._event.context, self._functions, budget, characters=characters)

    def _explain(
        self,
        campaign: CompiledCampaign,
        action: Action | None,
        why: Reason | None,
        trace: Mapping[str, Any] | None = None,
    ) -> None:
        """In a dry run, report that an action applies, or `why` it does not; `action` None means the whole campaign."""
        if self._explaining:
            self._evaluation.explanations.append(
                Explanation(campaign=campaign.record, action=action, applied=why is None, reason=why, trace=trace)
            )
