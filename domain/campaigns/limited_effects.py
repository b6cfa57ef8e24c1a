"""The effects beside points that limits count: discounts, as money, and assignments of coupons."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

from domain.campaigns.budgets import LimitBudget
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.context import EventFacts
from domain.campaigns.discounts import AMOUNT, Basket, Discount
from domain.campaigns.limits import COUPONS, MONEY, LimitUse
from domain.campaigns.outcomes import EXECUTED, FAILED, PARTIAL, SKIPPED, ZERO, Done, LimitReached
from domain.currencies import round_money
from domain.problems import Refusal


class LimitedEffects:
    """Discounts and coupons of one event, within the limits of their campaigns; `discount_total` adds discounts up."""

    def __init__(self, event: EventFacts, allowances: LimitBudget) -> None:
        self._event = event
        self._allowances = allowances
        self.discount_total = ZERO

    def trial_basket(self) -> Basket | None:
        """A copy of the event's basket, to try discounts on."""
        return deepcopy(self._event.basket)

    def use_of_discount(self, params: Mapping[str, Any], basket: Basket | None) -> LimitUse:
        """The money of a discount before limits, off this basket, from which it is taken."""
        discount = self._computed(params, basket)
        if basket is not None:
            basket.take(discount)
        return self._money(discount)

    def discount(self, campaign: CompiledCampaign, params: dict[str, Any]) -> Done:
        """Take a discount off the basket, which the caller then gives; what a limit cuts becomes an amount.

        Without a basket the amount of a percentage is not known.
        """
        basket = self._event.basket
        discount = self._computed(params, basket)
        left, limit = self._allowances.left(campaign, self._money(discount))
        refusal: Refusal | None = discount.refusal
        if limit is not None:
            params |= {"type": AMOUNT, "value": left}
            discount = replace(self._computed(params, basket), requested=discount.requested)
            refusal = LimitReached.of(limit)
        status = EXECUTED if refusal is None else PARTIAL if discount.amount else SKIPPED
        self._allowances.count(campaign, self._money(discount))
        if basket is None:
            return Done(status, refusal)
        basket.take(discount)
        self.discount_total += discount.amount
        return Done(status, refusal, None, discount, discount.amount)

    def coupons(
        self, campaign: CompiledCampaign, params: Mapping[str, Any], assign: Callable[[Mapping[str, Any]], Done]
    ) -> Done:
        """Assign coupons, as many as the limits leave; none are counted if `assign` refuses."""
        use = use_of_coupons(params)
        left, limit = self._allowances.left(campaign, use)
        if limit is not None and not left:
            return Done(SKIPPED, LimitReached.of(limit), ZERO)
        done = assign(params if limit is None else {**params, "amount": left})
        if done.status in (SKIPPED, FAILED):
            return done
        self._allowances.count(campaign, use._replace(amount=left))
        return done if limit is None else done._replace(status=PARTIAL, error=LimitReached.of(limit), amount=left)

    def _computed(self, params: Mapping[str, Any], basket: Basket | None) -> Discount:
        if basket is not None:
            return basket.discount(params["type"], params["value"])
        amount = round_money(params["value"], self._event.currency) if params["type"] == AMOUNT else ZERO
        return Discount(amount, amount)

    def _money(self, discount: Discount) -> LimitUse:
        return LimitUse(MONEY, discount.amount, currency=self._event.currency)


def use_of_coupons(params: Mapping[str, Any]) -> LimitUse:
    """The use of limits by an assignment of coupons; nobody gets a part of one."""
    return LimitUse(COUPONS, Decimal(int(params["amount"])))
