"""One event of a simulation in a unit of work that is a dry run: opened first, then evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import repeat
from typing import Any

from domain.events import DRY_RUN, IncomingEvent, PayloadMissing
from domain.members import Member, MemberErased
from domain.problems import Refusal
from handlers.call import Execution
from handlers.services.events.intake import Intake
from handlers.services.references import unknown_member
from handlers.services.simulations.hypothetical import NOBODY, HypotheticalMember, HypotheticalUnit
from handlers.services.unit_of_work.evaluation import EXPIRED, evaluate_derived, evaluate_event
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.tracked import EventOutcome, TrackedEvent
from handlers.services.unit_of_work.unit import UnitOfWork

ORDER, PAYMENT = "order", "payment"
"""The parts of a payload that have a total."""


class MissingPayload(Refusal, slug=PayloadMissing.slug, title=PayloadMissing.title):
    """The event of a simulation lacks what its type requires: the request itself is wrong, as nothing is tracked."""

    kind = "invalid"


@dataclass(frozen=True, slots=True)
class Scenario:
    """An event that might happen: to the stored member whom it names, else to a hypothetical one."""

    event: IncomingEvent
    person: HypotheticalMember | None = None
    campaign_keys: Sequence[str] | None = None

    @property
    def spending(self) -> str | None:
        """The part of the payload that has the total."""
        return next((name for name in (ORDER, PAYMENT) if self._part(name).get("total") is not None), None)

    @property
    def total(self) -> Decimal | None:
        """The total of the order or payment."""
        name = self.spending
        return None if name is None else Decimal(self._part(name)["total"])

    def raised_by(self, amount: Decimal) -> Scenario:
        """The same with a greater total, which its payments do not add up to; its items are unchanged."""
        name, total = self.spending, self.total
        if name is None or total is None:
            return self
        raised = {**self._part(name), "total": total + amount, "payments": None}
        payload = {**(self.event.payload or {}), name: raised}
        return replace(self, event=replace(self.event, payload=payload))

    def _part(self, name: str) -> Mapping[str, Any]:
        return (self.event.payload or {}).get(name) or {}


@dataclass(frozen=True, slots=True)
class MemberHoldings:
    """The holdings of a member at one point of a unit: balances by account, badges by key, tiers by program."""

    balances: Mapping[int, Decimal]
    badges: Mapping[str, Decimal]
    tiers: Mapping[int, int | None]


class DryRun:
    """A scenario in a unit of work of its own, in which points and tiers that have expired are gone already.

    With `tracing` the explanations have the values of all parts of the rules.
    """

    def __init__(self, execution: Execution, scenario: Scenario, tracing: bool = False) -> None:
        """Open the unit; raises UnknownMember, MemberInactive, MissingPayload and what else refuses to track it."""
        self.scenario = scenario
        self.unit: UnitOfWork
        keys, event = scenario.campaign_keys, scenario.event
        if scenario.person is None:
            self.unit = UnitOfWork(execution, DRY_RUN, keys, tracing)
            members = self.unit.lock([event.loyalty_member_id or ""], (), [event])
        else:
            self.unit = HypotheticalUnit(execution, scenario.person, keys, tracing)
            members = self.unit.lock((), [NOBODY], [event])
        self._tracked = self._accepted(members)
        external_ids = [] if self._tracked.order is None else [self._tracked.order["externalId"]]
        orders = OrderWork(execution, external_ids, repeat(0), repeat(0))
        expired = self.unit.open_for_events([self._tracked], orders)
        # All missions, not only the missions that the event can move.
        self.unit.event_types = None
        evaluate_derived(self.unit, expired, EXPIRED)

    @property
    def member(self) -> Member:
        """The member of the event."""
        return self._tracked.member

    def evaluate(self) -> list[EventOutcome]:
        """Evaluate the event and all that it causes; the outcomes of the member's events, that of the event first.

        Raises the refusal of the event.
        """
        begin = len(self.unit.outcomes)
        result = evaluate_event(self.unit, self._tracked)
        if result.refusal is not None:
            raise self._refusal(result.refusal)
        return [outcome for outcome in self.unit.outcomes[begin:] if outcome.member_id == self.member.member_id]

    def holdings(self) -> MemberHoldings:
        """The present holdings of the member."""
        unit, member = self.unit, self.member
        points = partial(unit.tier_points, member.wallet_id)
        tiers = {}
        for schedule in unit.configuration.tier_schedules:
            program_id = schedule.loyalty_program_id
            held_tier = unit.tier_assignments.stored_tier((member.member_id, program_id))
            tiers[program_id] = (
                None if held_tier is None else unit.tier_assignments.current(program_id, held_tier, points)
            )
        return MemberHoldings(
            balances={
                account_id: unit.ledger.holding(member.wallet_id, account_id).available
                for account_id in unit.configuration.accounts
            },
            badges=unit.badges.variables(member.member_id) if unit.configuration.badges else {},
            tiers=tiers,
        )

    def _accepted(self, members: Mapping[Any, Member]) -> TrackedEvent:
        """The event, if it could be tracked now."""
        intake = Intake(self.unit)
        for tracked in intake.accept([self.scenario.event], members, ()):
            tracked.key = self.unit.new_key()
            return tracked
        raise self._refusal(intake.results[0].refusal)

    def _refusal(self, refusal: Refusal | None) -> Refusal:
        """The refusal of the simulation, by that of its event."""
        if isinstance(refusal, PayloadMissing):
            return MissingPayload(refusal.detail)
        if refusal is None or isinstance(refusal, MemberErased):
            return unknown_member(self.scenario.event.loyalty_member_id)
        return refusal
