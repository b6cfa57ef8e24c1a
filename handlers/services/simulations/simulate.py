"""Simulates an event: what it would give, what the member could redeem, and what the next rewards still need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from handlers.call import Execution
from handlers.services.simulations.coupons import offers_after, offers_of, presented_codes, redemptions
from handlers.services.simulations.dry_run import DryRun, Scenario
from handlers.services.simulations.earnings import EarningsReader
from handlers.services.simulations.results import NextReward, Redemption, Simulation
from handlers.services.simulations.rewards import next_rewards

EARN, REDEEM, NEXT, EXPLAIN = "earn", "redeem", "next", "explain"


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A scenario at a moment (None for now), the codes that the customer presents, and the parts to be returned."""

    scenario: Scenario
    at: datetime | None
    coupon_codes: Sequence[str]
    include: frozenset[str]


def simulate(call: Execution, request: SimulationRequest, *, with_errors: bool) -> Simulation:
    """Evaluate the scenario as a dry run, and find redemptions and next rewards. Nothing is stored or locked.

    Errors name rules, so the result has them only if `with_errors`. Raises UnknownMember, MemberInactive,
    MissingPayload, or another refusal of tracking.
    """
    execution = call if request.at is None else replace(call, now=request.at)
    run = DryRun(execution, request.scenario, tracing=NEXT in request.include)
    offers, has_all_offers = offers_of(run) if request.include & {REDEEM, NEXT} else ([], True)
    coupons = presented_codes(run, request.coupon_codes)
    reader = EarningsReader(run)
    outcomes = run.evaluate()
    later_offers = offers_after(run, offers)
    earnings = reader.read(outcomes, run.holdings())
    response = outcomes[0].response
    rewards: list[NextReward] = []
    redeemable: list[Redemption] = []
    next_complete = redeem_complete = True
    if NEXT in request.include:
        rewards, next_complete = next_rewards(execution, run, response, later_offers)
    if REDEEM in request.include:
        redeemable, redeem_complete = redemptions(offers, later_offers, has_all_offers=has_all_offers)
    explanations = response["explain"] if EXPLAIN in request.include else ()
    outcomes_with_errors = outcomes if with_errors else ()
    return Simulation(
        at=execution.now,
        earn=earnings if EARN in request.include else None,
        coupons=coupons,
        redeem=redeemable,
        redeem_complete=redeem_complete,
        next=rewards,
        next_complete=next_complete and has_all_offers,
        # Only the search for rewards needs the traces.
        explain=[{**explanation, "trace": {}} for explanation in explanations],
        errors=[error for outcome in outcomes_with_errors for error in outcome.response["errors"]],
    )
