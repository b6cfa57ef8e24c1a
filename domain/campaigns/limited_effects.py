"""The effects beside points that limits count: discounts, as money, and assignments of coupons."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from domain.campaigns.budgets import LimitBudget
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.context import EventFacts
from domain.campaigns.discounts import AMOUNT, PER_ORDER, Discount, DiscountShare, DiscountTerms
from domain.campaigns.limits import COUPONS, MONEY, LimitUse
from domain.campaigns.outcomes import EXECUTED, FAILED, PARTIAL, SKIPPED, ZERO, Done, LimitReached, NothingToDo
from domain.currencies import round_money
from domain.problems import Refusal


class LimitedEffects:
    """Discounts and coupons of one event, within the limits of their campaigns."""

    def __init__(self, event: EventFacts, allowances: LimitBudget) -> None:
        self._event = event
        self._allowances = allowances

    def discount_before_limits(self, terms: DiscountTerms, share: DiscountShare | None) -> Discount:
        """The discount off the event's basket, or a share of one that was computed before.

        Without a basket the amount of a percentage is not known.
        """
        basket = self._event.basket
        if basket is not None:
            return basket.discount(terms) if share is None else basket.part(*share)
        amount = round_money(terms.value, self._event.currency) if terms.kind == AMOUNT else ZERO
        return Discount(amount, amount)

    def discount(
        self, campaign: CompiledCampaign, terms: DiscountTerms, params: dict[str, Any], share: DiscountShare | None
    ) -> Done:
        """Take a discount off the basket, which the caller then gives; what a limit cuts becomes an amount."""
        basket = self._event.basket
        discount = self.discount_before_limits(terms, share)
        if basket is not None and (share is not None or terms.is_of_items) and not discount.requested:
            return Done(SKIPPED, NothingToDo("No item of the order is discounted."), None, discount, ZERO)
        remaining, limit = self._allowances.remaining(campaign, self.use_of(discount))
        refusal: Refusal | None = discount.refusal
        if limit is not None:
            params |= {"type": AMOUNT, "value": remaining, "per": PER_ORDER}
            discount = discount.cut(remaining) if basket is None else basket.cut(discount, remaining)
            refusal = LimitReached.of(limit)
        status = EXECUTED if refusal is None else PARTIAL if discount.amount else SKIPPED
        self._allowances.count(campaign, self.use_of(discount))
        if basket is None:
            return Done(status, refusal)
        basket.take(discount)
        return Done(status, refusal, None, discount, discount.amount)

    def coupons(
        self, campaign: CompiledCampaign, params: Mapping[str, Any], assign: Callable[[Mapping[str, Any]], Done]
    ) -> Done:
        """Assign coupons, as many as the limits leave; none are counted if `assign` refuses."""
        use = use_of_coupons(params)
        remaining, limit = self._allowances.remaining(campaign, use)
        if limit is not None and not remaining:
            return Done(SKIPPED, LimitReached.of(limit), ZERO)
        assignment = assign(params if limit is None else {**params, "amount": remaining})
        if assignment.status in (SKIPPED, FAILED):
            return assignment
        self._allowances.count(campaign, use._replace(amount=remaining))
        return (
            assignment
            if limit is None
            else assignment._replace(status=PARTIAL, error=LimitReached.of(limit), amount=remaining)
        )

    def use_of(self, discount: Discount) -> LimitUse:
        """The use of limits by a discount."""
        return LimitUse(MONEY, discount.amount, currency=self._event.currency)


def use_of_coupons(params: Mapping[str, Any]) -> LimitUse:
    """The use of limits by an assignment of coupons; nobody gets a part of one."""
    return LimitUse(COUPONS, Decimal(int(params["amount"])))
