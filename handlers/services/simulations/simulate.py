"""The simulation of an event: what it would give, what the member could redeem, and what is missing to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from handlers.call import Execution
from handlers.services.simulations.coupons import offers_after, offers_of, presented_codes, redemptions
from handlers.services.simulations.dry_run import DryRun, Scenario
from handlers.services.simulations.earnings import EarningsReader
from handlers.services.simulations.results import Simulation
from handlers.services.simulations.rewards import next_rewards

EARN, REDEEM, NEXT, EXPLAIN = "earn", "redeem", "next", "explain"


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A scenario at a moment (None is now), the codes that the customer presents, and the parts to be returned."""

    scenario: Scenario
    at: datetime | None
    coupon_codes: Sequence[str]
    include: frozenset[str]


def simulate(call: Execution, request: SimulationRequest, *, tells_rules: bool) -> Simulation:
    """Evaluate the scenario as a dry run, and look around; nothing is stored, and no row is locked.

    Only if `tells_rules`, the result may name the rules that failed. Raises UnknownMember, MemberInactive,
    MissingPayload, and what else refuses to track the event.
    """
    execution = call if request.at is None else replace(call, now=request.at)
    run = DryRun(execution, request.scenario, tracing=NEXT in request.include)
    offers = offers_of(run) if request.include & {REDEEM, NEXT} else []
    coupons = presented_codes(run, request.coupon_codes)
    reader = EarningsReader(run)
    outcomes = run.evaluate()
    later = offers_after(run, offers)
    earnings = reader.read(outcomes, run.holdings())
    answer = outcomes[0].answer
    rewards, is_complete = next_rewards(execution, run, answer, later) if NEXT in request.include else ([], True)
    return Simulation(
        at=execution.now,
        earn=earnings if EARN in request.include else None,
        coupons=coupons,
        redeem=redemptions(offers, later) if REDEEM in request.include else [],
        next=rewards,
        next_complete=is_complete,
        # Without the traces that only the search for rewards needs.
        explain=[{**why, "trace": {}} for why in answer["explain"]] if EXPLAIN in request.include else [],
        errors=[error for outcome in outcomes for error in outcome.answer["errors"]] if tells_rules else [],
    )
