"""The rewards within reach after the event of a dry run, as far as the server can prove them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import partial
from typing import Any

from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.effects import ASSIGN_BADGE, ASSIGN_COUPON, MINT_POINTS, SET_TIER
from domain.campaigns.outcomes import EVALUATED, PARTIAL
from domain.campaigns.thresholds import TotalThreshold, only_false_threshold, thresholds_of
from domain.expressions import Deadline, TimeExceeded
from domain.missions.rules import CompiledMission
from handlers.call import Execution
from handlers.messages.json_text import to_json_value
from handlers.services.simulations.coupons import Offer
from handlers.services.simulations.dry_run import DryRun, Scenario
from handlers.services.simulations.earnings import campaigns_by_id
from handlers.services.simulations.results import (
    CAMPAIGN,
    COUNT,
    COUPON_BOOK,
    MISSION,
    ORDER_TOTAL,
    POINTS,
    TIER,
    Gift,
    NextReward,
    Shortfall,
)
from handlers.services.unit_of_work.deadlines import event_deadline

MAX_REWARDS = 10
"""The maximum number of rewards that a simulation returns."""

MAX_TRIALS = 8
"""The maximum number of totals that are tried for campaigns."""

TRIAL_SECONDS = 0.5
"""The CPU time for all trials."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Actions of a campaign that may apply if `missing` is added to the total."""

    campaign: CompiledCampaign
    action_ids: frozenset[int]
    missing: Decimal


def next_rewards(
    execution: Execution, run: DryRun, response: Mapping[str, Any], offers: Sequence[Offer]
) -> tuple[list[NextReward], bool]:
    """The nearest rewards, and True if none was left out because of the limits of trials and conditions.

    `response` is the result of the event, `offers` are the coupon books after it.
    """
    campaign_rewards, tried_all = _CampaignTrials(execution, run.scenario).rewards(_candidates(run, response))
    book_rewards, checked_all = _books_in_reach(offers)
    rewards_by_kind: list[Iterable[NextReward]] = [
        campaign_rewards,
        _tiers_in_reach(run),
        _missions_in_reach(run),
        book_rewards,
    ]
    rewards = [reward for kind in rewards_by_kind for reward in sorted(kind, key=lambda reward: reward.missing.amount)]
    return rewards[:MAX_REWARDS], tried_all and checked_all


class _CampaignTrials:
    """Evaluates the scenario again, with greater totals, to see which campaigns then apply."""

    def __init__(self, execution: Execution, scenario: Scenario) -> None:
        self._scenario = scenario
        self._deadline = Deadline(TRIAL_SECONDS, time.thread_time)
        self._execution = replace(execution, deadlines={execution.origin: self._deadline})

    def rewards(self, candidates: Sequence[_Candidate]) -> tuple[list[NextReward], bool]:
        """The rewards of the candidates that do apply, nearest ones first, and True if all candidates were tried."""
        amounts = sorted({candidate.missing for candidate in candidates})
        rewards: list[NextReward] = []
        for amount in amounts[:MAX_TRIALS]:
            if self._deadline.has_passed():
                return rewards, False
            effects = self._effects_at(amount)
            for candidate in candidates:
                if candidate.missing == amount and (gives := _gifts_of(effects, candidate)):
                    campaign = candidate.campaign.record
                    shortfall = Shortfall(ORDER_TOTAL, amount)
                    rewards.append(NextReward(CAMPAIGN, campaign.campaign_key, campaign.name, shortfall, gives))
        return rewards, len(amounts) <= MAX_TRIALS and not self._deadline.has_passed()

    def _effects_at(self, amount: Decimal) -> Sequence[Mapping[str, Any]]:
        """The effects of the event, without those of derived events, if the total is greater by `amount`."""
        run = DryRun(self._execution, self._scenario.raised_by(amount))
        effects: Sequence[Mapping[str, Any]] = run.evaluate()[0].response["effects"]
        return effects


def _gifts_of(effects: Sequence[Mapping[str, Any]], candidate: _Candidate) -> list[Gift]:
    """The effects of a candidate's actions that give something."""
    return [
        Gift(effect["effectId"], effect["params"])
        for effect in effects
        if effect["actionId"] in candidate.action_ids and effect["status"] in (EVALUATED, PARTIAL)
    ]


def _candidates(run: DryRun, response: Mapping[str, Any]) -> list[_Candidate]:
    """The actions that lack only a greater total, according to the explanations of the event."""
    payload_part, total = run.scenario.part_with_total, run.scenario.total
    if payload_part is None or total is None:
        return []
    # By campaign and missing amount.
    action_ids_by_key: dict[tuple[int, Decimal], set[int]] = {}
    campaigns = campaigns_by_id(run.unit.configuration)
    for explanation in response["explain"]:
        campaign = campaigns.get(explanation["campaignId"])
        if campaign is not None and not explanation["applied"]:
            for action_id, shortfall in _missing_totals(campaign, explanation, payload_part, total):
                action_ids_by_key.setdefault((explanation["campaignId"], shortfall), set()).add(action_id)
    return [
        _Candidate(campaigns[campaign_id], frozenset(action_ids), shortfall)
        for (campaign_id, shortfall), action_ids in action_ids_by_key.items()
    ]


def _missing_totals(
    campaign: CompiledCampaign, explanation: Mapping[str, Any], payload_part: str, total: Decimal
) -> Iterator[tuple[int, Decimal]]:
    """Yield the actions that may apply with a greater total, as (id, amount that the total lacks).

    The explanation is about one action, which must lack only a greater total. Or it is about the whole campaign, which
    must lack only its minimum spend: its actions are not evaluated yet, so all of them may apply. `payload_part` is the
    field of the payload that has the `total`: `order` or `payment`.
    """
    action_id = explanation["actionId"]
    min_spend = campaign.record.min_spend_value
    if action_id is None:
        # The spend is the last restriction that is checked, so the campaign meets all other restrictions.
        if explanation["reason"]["code"] == "MIN_SPEND" and min_spend is not None:
            for action in campaign.actions:
                thresholds = [TotalThreshold(min_spend), *thresholds_of(action.node, payload_part)]
                yield action.record.action_id, max(threshold.shortfall(total) for threshold in thresholds)
        return
    for action in campaign.actions:
        if action.record.action_id == action_id:
            threshold = only_false_threshold(action.node, explanation["trace"], payload_part)
            if threshold is not None:
                yield action_id, threshold.shortfall(total)


def _tiers_in_reach(run: DryRun) -> Iterator[NextReward]:
    """The tiers for which the member lacks points, each with the number of missing points."""
    unit, member = run.unit, run.member
    points = partial(unit.tier_points, member.wallet_id)
    tiers = {tier.loyalty_tier_id: tier for tier in unit.configuration.tiers.values()}
    for schedule in unit.configuration.tier_schedules:
        held_tier = unit.tier_assignments.stored_tier((member.member_id, schedule.loyalty_program_id))
        account = unit.configuration.accounts.get(schedule.ledger_account_id or 0)
        if account is None or not schedule.moves_members or (held_tier is not None and held_tier.is_fixed_at(unit.now)):
            continue
        counted_points = schedule.counted_points(points, unit.now)
        # A floor can be above the tier that the points give: the lower tiers are no rewards.
        held_step = None if held_tier is None else schedule.step_of(held_tier.loyalty_tier_id)
        reached_points = max(counted_points, held_step.min_required_points) if held_step else counted_points
        for step in schedule.steps:
            required_points = step.min_required_points
            tier = tiers.get(step.loyalty_tier_id)
            if (
                tier is None
                or required_points <= reached_points
                or schedule.tier_at(required_points) != step.loyalty_tier_id
            ):
                continue
            smallest_amount = Decimal(1).scaleb(-account.decimals)
            missing_points = (required_points - counted_points).quantize(smallest_amount, ROUND_CEILING)
            gift = _gift(SET_TIER, loyaltyProgramKey=tier.loyalty_program_key, loyaltyTierKey=tier.loyalty_tier_key)
            yield NextReward(
                kind=TIER,
                key=tier.loyalty_tier_key,
                name=tier.name,
                missing=Shortfall(POINTS, missing_points),
                gives=[gift],
            )


def _missions_in_reach(run: DryRun) -> Iterator[NextReward]:
    """The missions that the member can still achieve, each with the missing count."""
    unit, member_id = run.unit, run.member.member_id
    if not unit.configuration.missions:
        return
    audience_keys = [audience.audience_key for audience in unit.audiences[member_id]]
    for compiled in unit.configuration.missions.values():
        mission = compiled.mission
        remaining = None if compiled.fault else unit.missions.remaining_count(member_id, compiled, audience_keys)
        if remaining is not None:
            gives = list(_rewards_of(compiled))
            yield NextReward(MISSION, mission.mission_key, mission.name, Shortfall(COUNT, Decimal(remaining)), gives)


def _rewards_of(compiled: CompiledMission) -> Iterator[Gift]:
    """The rewards for achieving a mission once, in the form of effects."""
    mission = compiled.mission
    if mission.points_accrual and compiled.account is not None:
        key = compiled.account.ledger_account_key
        yield _gift(MINT_POINTS, amount=mission.points_accrual, ledgerAccountKey=key)
    if mission.badge_key is not None:
        yield _gift(ASSIGN_BADGE, badgeKey=mission.badge_key, amount=Decimal(1))
    if mission.coupon_book_key is not None:
        yield _gift(ASSIGN_COUPON, couponBookKey=mission.coupon_book_key, amount=Decimal(1))


def _books_in_reach(offers: Iterable[Offer]) -> tuple[list[NextReward], bool]:
    """The coupon books for which the member lacks only points, nearest ones first, at most MAX_REWARDS.

    Also returns False if the time for conditions was used up before all books were checked.
    """
    deadline = event_deadline()
    shortfalls = [(points, offer) for offer in offers if (points := offer.missing_points) is not None]
    rewards: list[NextReward] = []
    for missing_points, offer in sorted(shortfalls, key=lambda shortfall: shortfall[0]):
        if len(rewards) == MAX_REWARDS:
            break
        try:
            is_in_reach = offer.meets_condition(deadline)
        except TimeExceeded:
            return rewards, False
        if is_in_reach:
            book = offer.book
            shortfall = Shortfall(POINTS, missing_points)
            gift = _gift(ASSIGN_COUPON, couponBookKey=book.coupon_book_key, amount=Decimal(1))
            rewards.append(
                NextReward(kind=COUPON_BOOK, key=book.coupon_book_key, name=book.name, missing=shortfall, gives=[gift])
            )
    return rewards, True


def _gift(effect_id: str, **params: Any) -> Gift:
    return Gift(effect_id, [{"id": name, "value": to_json_value(value)} for name, value in params.items()])
