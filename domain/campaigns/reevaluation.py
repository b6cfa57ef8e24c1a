"""Re-evaluation after a partial return of an order, on the items that the member kept.

It evaluates the actions that granted something for the order again. These actions are stored with the event, so that
later changes of the campaign do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from domain.calendar import zone_named
from domain.campaigns.compiled import CompiledCampaign, compile_effects, compile_rules
from domain.campaigns.context import EventFacts
from domain.campaigns.discounts import Basket, DiscountShare
from domain.campaigns.effects import DISCOUNT, MINT_POINTS
from domain.campaigns.execution import ComputedEffect, EffectComputer
from domain.campaigns.outcomes import AUTHORIZED, EXECUTED, PARTIAL, ActionGrants, EffectGrant, EffectResult
from domain.campaigns.records import Action
from domain.expressions import EVENT_COST, Budget, Deadline, EvaluationError
from domain.problems import InvalidRequest
from domain.reversals import Extent

ZERO = Decimal(0)


def grant_of_effect(
    place: int,
    effect: ComputedEffect,
    result: EffectResult,
    share: DiscountShare | None,
    transaction_number: int,
    counts: range,
) -> EffectGrant | None:
    """The points or the discount that an effect granted; None if it granted neither.

    `place` is the position of the effect in its action, and `transaction_number` the number of its transaction in the
    event. `counts` are the positions of the effect's counts on limits in the list of the counts of the event.
    """
    if result.status not in (EXECUTED, PARTIAL, AUTHORIZED):
        return None
    if effect.effect_id == MINT_POINTS:
        return EffectGrant(
            place,
            amount=result.amount or ZERO,
            transaction_number=transaction_number,
            qualifying=effect.params.get("qualifyingAmount"),
            items=None,
            from_count=counts.start,
            to_count=counts.stop,
        )
    if effect.effect_id == DISCOUNT and result.discount is not None:
        items = None if share is None else tuple(share.items)
        return EffectGrant(
            place,
            amount=result.discount.amount,
            transaction_number=None,
            qualifying=None,
            items=items,
            from_count=counts.start,
            to_count=counts.stop,
        )
    return None


def action_grants(
    campaign: CompiledCampaign, action: Action, grants: Sequence[EffectGrant], event: EventFacts
) -> ActionGrants:
    """The grants of an action, with everything that its re-evaluation needs."""
    return ActionGrants(
        rules=action.rules,
        effects=action.effects,
        zone=str(campaign.zone),
        min_spend_value=campaign.record.min_spend_value,
        # A copy, since later actions change the variable.
        balances_after=dict(event.context["balancesAfter"]),
        grants=grants,
    )


@dataclass(frozen=True, slots=True)
class Reevaluation:
    """How much of each re-evaluated grant of one event is reversed. Other grants are reversed like the order itself.

    `points` and `qualifying` have an extent by the number of a transaction in the event, and `counts` by the position
    of a count in the event.
    """

    points: dict[int, Extent] = field(default_factory=dict)
    qualifying: dict[int, Extent] = field(default_factory=dict)
    counts: dict[int, Extent] = field(default_factory=dict)

    def extents_of(self, number: int | None, default: Extent) -> tuple[Extent, Extent]:
        """The shares of a transaction and of its qualifying points that are reversed.

        They are `default` unless the transaction was re-evaluated; `number` is None if no effect has posted it.
        """
        if number is None:
            return default, default
        return self.points.get(number, default), self.qualifying.get(number, default)

    def add(self, grant: EffectGrant, amount: Decimal, qualifying: Decimal | None) -> None:
        """Record which share of a grant exceeds the `amount` and the `qualifying` points that it would have now."""
        extent = _excess(grant.amount, amount)
        self.counts.update(dict.fromkeys(range(grant.from_count, grant.to_count), extent))
        if grant.transaction_number is not None:
            self.points[grant.transaction_number] = extent
            if grant.qualifying is not None:
                extent = _excess(grant.qualifying, qualifying or ZERO)
            self.qualifying[grant.transaction_number] = extent


UNCHANGED = Reevaluation()


def _excess(granted_amount: Decimal, amount: Decimal) -> Extent:
    """The share of `granted_amount` that exceeds `amount`; a share of 0 if `granted_amount` is 0."""
    kept_share = min(Fraction(1), Fraction(amount) / Fraction(granted_amount)) if granted_amount else Fraction(1)
    return Extent(1 - kept_share)


def reevaluate(
    actions: Sequence[ActionGrants],
    facts: EventFacts,
    item_positions: Sequence[int],
    functions: Mapping[str, Any],
    deadline: Deadline,
) -> Reevaluation:
    """Evaluate the actions that granted something again, in their original order, on the rest of an order.

    `facts` are the facts of the event, with the rest of the order as variables and basket. `item_positions` has for
    each remaining item its position in the original order.
    """
    reevaluation, budget = Reevaluation(), Budget(EVENT_COST, deadline)
    # Records leave out balances of zero, which expressions can read nevertheless.
    no_points = dict.fromkeys(facts.context["balances"], ZERO)
    for action in actions:
        budget.zone = zone_named(action.zone)
        variables = {**facts.context, "balancesAfter": {**no_points, **action.balances_after}}
        try:
            effects = compile_effects(action.effects)
            holds = _holds(action, facts, variables, functions, budget)
        except (EvaluationError, InvalidRequest):
            # Whether the rules hold is unknown, so the grants are reversed in proportion to the returned part.
            continue
        computer = EffectComputer(replace(facts, context=variables), functions, budget)
        for grant in action.grants:
            computed = computer.compute(effects[grant.place])
            if not holds:
                reevaluation.add(grant, ZERO, qualifying=None)
            # A grant whose parameters cannot be computed is reversed in proportion, too.
            elif computed.fault is None and grant.transaction_number is not None:
                reevaluation.add(grant, computed.params["amount"], computed.params.get("qualifyingAmount"))
            elif computed.fault is None and facts.basket is not None:
                reevaluation.add(grant, _take_discount(computed, grant, facts.basket, item_positions), qualifying=None)
    return reevaluation


def _holds(
    action: ActionGrants, facts: EventFacts, variables: Mapping[str, Any], functions: Mapping[str, Any], budget: Budget
) -> bool:
    """True if an action applies to the rest of the order; raises EvaluationError if its rule has no value."""
    if action.min_spend_value is not None and (facts.spend is None or facts.spend < action.min_spend_value):
        return False
    _, rule = compile_rules(action.rules)
    return rule is None or rule.run(variables, budget, functions) is True


def _take_discount(
    computed: ComputedEffect, grant: EffectGrant, basket: Basket, item_positions: Sequence[int]
) -> Decimal:
    """Take the grant's discount off the basket of the remaining order; return its amount, at most what was granted.

    `item_positions` has for each remaining item its position in the original order. `grant.items` has the positions in
    the original order to which the discount was limited, None if it was not limited.
    """
    discount = basket.discount(computed.terms)
    if grant.items is not None:
        discount = basket.part(
            discount, [item_positions.index(position) for position in grant.items if position in item_positions]
        )
    discount = basket.cut(discount, min(discount.amount, grant.amount))
    basket.take(discount)
    return discount.amount
