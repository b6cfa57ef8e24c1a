"""Effects of actions for one event: the values of their parameters, their execution, and bids in contests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from domain.calendar import instant_text
from domain.campaigns.budgets import LimitBudget
from domain.campaigns.compiled import WRONG_KIND, CompiledAction, CompiledCampaign, CompiledEffect, parameter_value
from domain.campaigns.context import EventFacts, Executor, ExecutorResult
from domain.campaigns.cooldowns import CooldownActive
from domain.campaigns.counters import Counters
from domain.campaigns.discounts import AMOUNT, PER_ORDER, Discount, DiscountShare, DiscountTerms
from domain.campaigns.effects import ASSIGN_COUPON, DISCOUNT, MINT_POINTS, NOTIFY
from domain.campaigns.limits import COUPONS, MONEY, EventLimit, LimitUse
from domain.campaigns.outcomes import (
    AUTHORIZED,
    EXECUTED,
    FAILED,
    PARTIAL,
    SKIPPED,
    ZERO,
    BadParameter,
    EffectResult,
    LimitReached,
    NothingToDo,
    Reason,
)
from domain.campaigns.point_effects import POINT_EFFECTS, PointEffects
from domain.campaigns.stacking import EFFECTS_WITH_WORTH, Bid, WonItems
from domain.currencies import round_money
from domain.expressions import Budget, EvaluationError
from domain.ledger.session import LedgerSession
from domain.members import MemberInactive
from domain.problems import Conflict, Refusal

RunAndUndo = Callable[[Callable[[], Bid]], Bid]
"""Calls the function, which executes effects on coupons; undoes their changes, and returns the bid."""


@dataclass(frozen=True, slots=True)
class ComputedEffect:
    """An effect with the values of its parameters for this event, or the `fault` in computing them.

    `items` are the indexes of the items that the effect's filter selects, None without a filter.
    """

    effect_id: str
    params: dict[str, Any]
    fault: Refusal | None
    items: Collection[int] | None = None

    @property
    def terms(self) -> DiscountTerms:
        """The terms of the discount that the effect gives."""
        params = self.params
        return DiscountTerms(
            kind=params["type"],
            value=params["value"],
            base=params["base"],
            per=params["per"],
            items=self.items,
            max_amount=params.get("maxAmount"),
        )


class EffectComputer:
    """Computes the parameters of effects for one event; its expressions share a `budget`."""

    def __init__(self, event: EventFacts, functions: Mapping[str, Any], budget: Budget) -> None:
        self._event = event
        self._functions = functions
        self._budget = budget

    def compute(self, effect: CompiledEffect) -> ComputedEffect:
        """The values of an effect's parameters for this event."""
        effect_id = effect.effect.effect_id
        values: dict[str, Any] = {}
        items: Collection[int] | None = None
        for param in effect.params:
            name, value, program = param.parameter.id, param.value, param.program
            try:
                if param.parameter.is_of_items:
                    items = None if program is None else self._matching_items(program.run)
                    continue
                if program is not None:
                    value = program.run(self._event.context, self._budget, self._functions)
                    value = parameter_value(param.parameter, value)
            except EvaluationError as error:
                return ComputedEffect(effect_id, values, BadParameter(f"{name}: {error}"))
            if value is WRONG_KIND:
                fault = BadParameter(f"{name} evaluated to a value of the wrong kind or size.")
                return ComputedEffect(effect_id, values, fault)
            values[name] = value
        for name in ("amount", "qualifyingAmount", "maxAmount"):
            if (value := values.get(name)) is not None and value < 0:
                return ComputedEffect(effect_id, values, BadParameter(f"{name} evaluated to {value}, less than zero."))
        return ComputedEffect(effect_id, values, fault=None, items=items)

    def _matching_items(self, condition: Callable[..., Any]) -> list[int]:
        """The indexes of the items of the basket for which a compiled condition is true."""
        basket, context = self._event.basket, self._event.context
        if basket is None:
            return []
        return [
            index
            for index, item in enumerate(basket.items)
            if condition({**context, "item": item}, self._budget, self._functions) is True
        ]


class EffectRunner:
    """Executes the effects of actions for one event, or tries them to find the bid of an action in a contest.

    `run_and_undo` computes a bid, and undoes what the effects did to coupons. If the event `is_authorized_only`, its
    points are pending until a later capture, and its other effects are not executed.
    """

    def __init__(
        self,
        event: EventFacts,
        session: LedgerSession,
        counters: Counters,
        limit_budget: LimitBudget,
        points: PointEffects,
        executor_of: Callable[[str], Executor],
        is_authorized_only: bool,
        run_and_undo: RunAndUndo,
    ) -> None:
        self._event = event
        self._session = session
        self._counters = counters
        self._limit_budget = limit_budget
        self._points = points
        self._executor_of = executor_of
        self._is_authorized_only = is_authorized_only
        self._run_and_undo = run_and_undo
        self._is_trying = False

    def execute(
        self, campaign: CompiledCampaign, effect: ComputedEffect, share: DiscountShare | None = None
    ) -> EffectResult:
        """Execute one effect, or return why it was not executed; with a `share`, give only this part of a discount."""
        if effect.fault is not None:
            return EffectResult(FAILED, effect.fault, ZERO)
        if effect.effect_id in POINT_EFFECTS:
            return self._points.execute(campaign, effect.effect_id, effect.params)
        if not self._event.is_active and effect.effect_id != NOTIFY:
            return EffectResult(SKIPPED, MemberInactive("The member of the event is not active."), ZERO)
        if effect.effect_id == DISCOUNT:
            return self._give_discount(campaign, effect.terms, effect.params, share)
        if effect.effect_id == ASSIGN_COUPON and campaign.limits:
            return self._assign_coupons(campaign, effect)
        return self._perform(effect, effect.params)

    def _perform(self, effect: ComputedEffect, params: Mapping[str, Any]) -> EffectResult:
        """Let the executor of an effect execute it.

        An event that is only authorized executes no effects, except to try a bid.
        """
        if self._is_authorized_only and not self._is_trying:
            return EffectResult(AUTHORIZED, error=None)
        try:
            result = self._executor_of(effect.effect_id)(self._event, params) or ExecutorResult()
            status = EXECUTED if result.refusal is None else PARTIAL
            return EffectResult(status, result.refusal, result.amount, worth=result.worth, details=result.details)
        except BadParameter as fault:
            return EffectResult(FAILED, fault, ZERO)
        except Conflict as conflict:
            return EffectResult(SKIPPED, conflict, ZERO)
        except Refusal as failure:
            return EffectResult(FAILED, failure, ZERO)

    def _discount_before_limits(self, terms: DiscountTerms, share: DiscountShare | None) -> Discount:
        """The discount off the event's basket, or a `share` of a discount that was computed before.

        Without a basket the amount of a percentage is not known, and counts as 0.
        """
        basket = self._event.basket
        if basket is not None:
            return basket.discount(terms) if share is None else basket.part(*share)
        amount = round_money(terms.value, self._event.currency) if terms.kind == AMOUNT else ZERO
        return Discount(amount, amount)

    def _give_discount(
        self, campaign: CompiledCampaign, terms: DiscountTerms, params: dict[str, Any], share: DiscountShare | None
    ) -> EffectResult:
        """Take a discount off the basket; if a limit cuts it, `params` become those of a discount by an amount."""
        basket = self._event.basket
        discount = self._discount_before_limits(terms, share)
        if not discount.requested and (basket is not None or terms.kind == AMOUNT):
            is_of_items = share is not None or terms.is_of_items
            detail = "No item of the order is discounted." if is_of_items else "The discount is zero."
            result = EffectResult(SKIPPED, discount.refusal or NothingToDo(detail))
            return result if basket is None else result._replace(discount=discount, worth=ZERO)
        remaining, limit = self._limit_budget.remaining(campaign, self._use_of_discount(discount))
        refusal: Refusal | None = discount.refusal
        if limit is not None:
            params |= {"type": AMOUNT, "value": remaining, "per": PER_ORDER}
            discount = discount.cut(remaining) if basket is None else basket.cut(discount, remaining)
            refusal = LimitReached.of(limit)
        status = EXECUTED if refusal is None else PARTIAL if discount.amount else SKIPPED
        self._limit_budget.count(campaign, self._use_of_discount(discount))
        if basket is None:
            return EffectResult(status, refusal)
        basket.take(discount)
        return EffectResult(status, refusal, discount=discount, worth=discount.amount)

    def _assign_coupons(self, campaign: CompiledCampaign, effect: ComputedEffect) -> EffectResult:
        """Assign the coupons that the limits allow; count them unless the assignment is refused."""
        use = _use_of_coupons(effect.params)
        remaining, limit = self._limit_budget.remaining(campaign, use)
        if limit is not None and not remaining:
            return EffectResult(SKIPPED, LimitReached.of(limit), ZERO)
        assignment = self._perform(effect, effect.params if limit is None else {**effect.params, "amount": remaining})
        if assignment.status in (SKIPPED, FAILED):
            return assignment
        self._limit_budget.count(campaign, use._replace(amount=remaining))
        if limit is None:
            return assignment
        return assignment._replace(status=PARTIAL, error=LimitReached.of(limit), amount=remaining)

    def _use_of_discount(self, discount: Discount) -> LimitUse:
        """The amount of a discount, as a use of the limits on money."""
        return LimitUse(MONEY, discount.amount, currency=self._event.currency)

    def refusal_of(
        self, campaign: CompiledCampaign, effects: Sequence[ComputedEffect], won_items: WonItems | None = None
    ) -> tuple[CooldownActive | LimitReached, Reason] | None:
        """The refusal of an action by its campaign's cooldown or limits, with its explanation; None if allowed."""
        if not campaign.limits and campaign.cooldown is None:
            return None
        event_date = self._limit_budget.date_within_cooldown(campaign)
        if event_date is not None:
            detail = f"The campaign had an effect at {instant_text(event_date)}, and its cooldown is"
            cooldown_active = CooldownActive(f"{detail} {campaign.record.cooldown}.")
            return cooldown_active, Reason("COOLDOWN", cooldown_active.detail, event_date)
        limit = self._broken_limit(campaign, effects, won_items) if campaign.limits else None
        if limit is None:
            return None
        refusal = LimitReached.of(limit)
        return refusal, Reason("LIMIT_REACHED", refusal.detail, self._counters.used_amount(limit.key))

    def _broken_limit(
        self, campaign: CompiledCampaign, effects: Sequence[ComputedEffect], won_items: WonItems | None
    ) -> EventLimit | None:
        """The limit that does not allow an action of the campaign; None if the action may run."""
        exhausted_limit = self._limit_budget.limit_exhausted_before(campaign)
        # With partial application, other limits only cut the effects.
        if exhausted_limit is not None or campaign.record.allow_partial_application_on_limit:
            return exhausted_limit
        uses = self._uses(campaign, effects, won_items)
        return self._limit_budget.limits_of(campaign).broken_by(uses, self._counters)

    def _uses(
        self, campaign: CompiledCampaign, effects: Sequence[ComputedEffect], won_items: WonItems | None
    ) -> list[LimitUse]:
        """The counts on limits that the effects of an action would have, if no limit cut them."""
        uses: list[LimitUse] = []
        discounts: list[Discount] = []
        basket = self._event.basket
        for position, effect in enumerate(effects):
            if effect.fault is not None:
                continue
            if effect.effect_id == MINT_POINTS:
                uses += self._points.uses_before_limits(campaign, effect.params)
            elif effect.effect_id == DISCOUNT and self._event.is_active:
                share = None if won_items is None else won_items.share(position)
                discount = self._discount_before_limits(effect.terms, share)
                uses.append(self._use_of_discount(discount))
                if basket is not None:
                    # Taken for now, since the next discount depends on it.
                    basket.take(discount)
                    discounts.append(discount)
            elif effect.effect_id == ASSIGN_COUPON and self._event.is_active:
                uses.append(_use_of_coupons(effect.params))
        self._give_back(discounts)
        return uses

    def _give_back(self, discounts: Sequence[Discount]) -> None:
        """Put discounts back into the basket."""
        basket = self._event.basket
        for discount in discounts:
            if basket is not None:
                basket.give_back(discount)

    def compute_bid(
        self, campaign: CompiledCampaign, action: CompiledAction, computed_effects: Sequence[ComputedEffect]
    ) -> Bid:
        """Execute the effects of an action that have a worth, undo them, and return what they gave after limits."""
        session_savepoint, points_savepoint = self._session.savepoint(), self._points.savepoint()
        limits_savepoint = self._limit_budget.savepoint()
        # A limit that cuts a discount changes its parameters.
        effects = [replace(effect, params=dict(effect.params)) for effect in computed_effects]

        def execute() -> Bid:
            results = [
                self.execute(campaign, effect)
                if effect.effect_id in EFFECTS_WITH_WORTH
                else EffectResult(SKIPPED, error=None)
                for effect in effects
            ]
            worth = sum((result.worth or ZERO for result in results), ZERO)
            return Bid(action.record, worth, [result.discount for result in results])

        self._is_trying = True
        has_coupons = any(effect.effect_id == ASSIGN_COUPON for effect in effects)
        bid = self._run_and_undo(execute) if has_coupons else execute()
        self._is_trying = False
        self._give_back([discount for discount in bid.discounts if discount is not None])
        self._session.rollback_to(session_savepoint)
        self._points.rollback_to(points_savepoint)
        self._limit_budget.rollback_to(limits_savepoint)
        return bid


def _use_of_coupons(params: Mapping[str, Any]) -> LimitUse:
    """The number of assigned coupons, without the fraction of a computed amount, as a use of the limits on coupons."""
    return LimitUse(COUPONS, Decimal(int(params["amount"])))


def reported_params(effect: ComputedEffect, executed_amount: Decimal | None) -> tuple[tuple[str, Any], ...]:
    """The parameters to report: if `executed_amount` differs from the requested amount, both of them.

    `executed_amount` is None if it is the requested one, or if the effect has none.
    """
    if executed_amount is None or effect.params.get("amount", executed_amount) == executed_amount:
        return tuple(effect.params.items())
    params: list[tuple[str, Any]] = []
    for name, value in effect.params.items():
        params += [(name, executed_amount), ("requestedAmount", value)] if name == "amount" else [(name, value)]
    return tuple(params)
