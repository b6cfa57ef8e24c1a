"""The gains of a member by the event of a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.effects import MINT_POINTS, SPONSOR
from domain.campaigns.outcomes import EVALUATED, PARTIAL, LimitReached
from domain.ledger.lots import NewLot
from domain.ledger.postings import Posting
from domain.ledger.refusals import BalanceLimitReached
from domain.ledger.session import round_down
from handlers.services.configuration import Configuration
from handlers.services.simulations.dry_run import DryRun, MemberHoldings
from handlers.services.simulations.results import (
    AccountEarning,
    BadgeEarning,
    CouponEarning,
    Earnings,
    SimulatedDiscount,
    TierChange,
)
from handlers.services.unit_of_work.tracked import EventOutcome

_ZERO = Decimal(0)
# The types of the problems of effects that limits have cut.
_LIMIT_PROBLEMS = {f"/problems/{refusal.slug}" for refusal in (LimitReached, BalanceLimitReached)}

Effect = Mapping[str, Any]


class EarningsReader:
    """Compares a member's holdings before and after a dry run; created before the evaluation."""

    def __init__(self, run: DryRun) -> None:
        self._run = run
        self._holdings_before = run.holdings()
        self._steps_before = len(run.unit.ledger.steps)

    def read(self, outcomes: Sequence[EventOutcome], after: MemberHoldings) -> Earnings:
        """The gains of the member by the events with these `outcomes`; `after` are the holdings after the events."""
        configuration = self._run.unit.configuration
        effects = [effect for outcome in outcomes for effect in outcome.response["effects"]]
        discounts = _discounts(configuration, effects)
        badges_before = self._holdings_before.badges
        badge_gains = {key: amount - badges_before.get(key, _ZERO) for key, amount in after.badges.items()}
        return Earnings(
            accounts=list(self._accounts(effects, after)),
            discounts=discounts,
            discount_total=sum((discount.amount for discount in discounts), _ZERO),
            coupons=self._coupons(),
            badges=[BadgeEarning(key, gain) for key, gain in badge_gains.items() if gain > 0],
            missions=[mission for outcome in outcomes for mission in outcome.response["missions"]],
            tiers=list(self._tier_changes(after)),
            effects=effects,
        )

    def _accounts(self, effects: Sequence[Effect], after: MemberHoldings) -> Iterator[AccountEarning]:
        """The accounts whose balance changes now, or later by waiting points, or would change without limits."""
        configuration = self._run.unit.configuration
        discarded_points = _discarded_points(configuration, effects)
        expiries = self._expiries()
        waiting_points = self._waiting_points()
        for account_id, account in sorted(configuration.accounts.items()):
            available = after.balances[account_id] - self._holdings_before.balances[account_id]
            if available or account_id in discarded_points or account_id in waiting_points:
                expires_at = expiries.get(account_id)
                discarded_amount = discarded_points.get(account_id, _ZERO)
                pending, available_at = waiting_points.get(account_id, (_ZERO, None))
                yield AccountEarning(
                    account.ledger_account_key, available, pending, available_at, expires_at, discarded_amount
                )

    def _waiting_points(self) -> dict[int, tuple[Decimal, datetime | None]]:
        """The new points in each account that are not available yet, and the moment at which the first of them will be.

        The moment is None if all of them wait for events.
        """
        waiting_points: dict[int, tuple[Decimal, datetime | None]] = {}
        for step in self._run.unit.ledger.steps[self._steps_before :]:
            if isinstance(step, Posting) and step.wait and step.to_wallet_id == self._run.member.wallet_id:
                account_id = step.account.ledger_account_id
                amount, first = waiting_points.get(account_id, (_ZERO, None))
                moments = [moment for moment in (first, step.wait.available_at) if moment is not None]
                waiting_points[account_id] = amount + step.amount, min(moments, default=None)
        return waiting_points

    def _expiries(self) -> dict[int, datetime]:
        """The earliest expiry of the new points in each account."""
        wallet_id = self._run.member.wallet_id
        expiries: dict[int, datetime] = {}
        new_steps = self._run.unit.ledger.steps[self._steps_before :]
        for posting in [step for step in new_steps if isinstance(step, Posting)]:
            for move in posting.lot_moves:
                if isinstance(move, NewLot) and move.wallet_id == wallet_id and move.expires_at is not None:
                    earliest = expiries.get(move.ledger_account_id, move.expires_at)
                    expiries[move.ledger_account_id] = min(earliest, move.expires_at)
        return expiries

    def _coupons(self) -> list[CouponEarning]:
        """The coupons that were assigned to the member."""
        unit = self._run.unit
        amounts = dict[str, Decimal]()
        new_usages = unit.coupons.loader.state.new_usages if unit.uses("coupons") else ()
        for usage in new_usages:
            if usage.member_id == self._run.member.member_id and usage.amount_assigned > 0:
                key = usage.coupon_book_key
                amounts[key] = amounts.get(key, _ZERO) + usage.amount_assigned
        return [CouponEarning(key, amount) for key, amount in amounts.items()]

    def _tier_changes(self, after: MemberHoldings) -> Iterator[TierChange]:
        """The changes of the member's tiers, one for each program in which the tier changed."""
        configuration = self._run.unit.configuration
        keys = configuration.tier_keys
        for schedule in configuration.tier_schedules:
            program_id = schedule.loyalty_program_id
            tier_before, tier_after = self._holdings_before.tiers[program_id], after.tiers[program_id]
            if tier_before != tier_after:
                yield TierChange(schedule.loyalty_program_key, keys.get(tier_before or 0), keys.get(tier_after or 0))


def campaigns_by_id(configuration: Configuration) -> dict[int, CompiledCampaign]:
    """The active campaigns by id."""
    return {campaign.record.campaign_id: campaign for campaign in configuration.campaigns}


def params_of(effect: Effect) -> dict[str, Any]:
    """The values of the parameters of an effect in a result, by the id of the parameter."""
    return {param["id"]: param["value"] for param in effect["params"]}


def _discounts(configuration: Configuration, effects: Sequence[Effect]) -> list[SimulatedDiscount]:
    """The discounts of the effects."""
    campaigns = campaigns_by_id(configuration)
    return [
        SimulatedDiscount(
            campaigns[effect["campaignId"]].record.campaign_key,
            effect["actionId"],
            Decimal(effect["discountAmount"]),
            effect["allocation"],
        )
        for effect in effects
        if "discountAmount" in effect and effect["status"] in (EVALUATED, PARTIAL)
    ]


def _discarded_points(configuration: Configuration, effects: Sequence[Effect]) -> dict[int, Decimal]:
    """The member's points that were cut by limits of campaigns or maximum balances, by account id."""
    campaigns = campaigns_by_id(configuration)
    discarded_points = dict[int, Decimal]()
    for effect in effects:
        params = params_of(effect)
        is_cut = effect.get("error", {}).get("type") in _LIMIT_PROBLEMS and "requestedAmount" in params
        if effect["effectId"] != MINT_POINTS or not is_cut or params["recipient"] == SPONSOR:
            continue
        key = params["ledgerAccountKey"]
        campaign = campaigns[effect["campaignId"]]
        account = configuration.account_with_key(key, default=campaign.main_account)
        if account is not None:
            discarded_amount = round_down(account, Decimal(params["requestedAmount"])) - Decimal(params["amount"])
            discarded_points[account.ledger_account_id] = (
                discarded_points.get(account.ledger_account_id, _ZERO) + discarded_amount
            )
    return discarded_points
