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
from handlers.services.unit_of_work.evaluation import evaluate_derived, process_event
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
    """An event that might happen: to the hypothetical `person` if set, else to the stored member whom it names."""

    event: IncomingEvent
    person: HypotheticalMember | None = None
    campaign_keys: Sequence[str] | None = None

    @property
    def part_with_total(self) -> str | None:
        """The name of the part of the payload that has the total, None if no part has one."""
        return next((name for name in (ORDER, PAYMENT) if self._part(name).get("total") is not None), None)

    @property
    def total(self) -> Decimal | None:
        """The total of the order or payment, None without one."""
        name = self.part_with_total
        return None if name is None else Decimal(self._part(name)["total"])

    @property
    def currency(self) -> str | None:
        """The currency that the order or payment names, None if it names none."""
        name = self.part_with_total
        return None if name is None else self._part(name).get("currency")

    def raised_by(self, amount: Decimal) -> Scenario:
        """The scenario with a total that is greater by `amount`, and without payments, which would not add up to it."""
        name, total = self.part_with_total, self.total
        if name is None or total is None:
            return self
        greater_part = {**self._part(name), "total": total + amount, "payments": None}
        payload = {**(self.event.payload or {}), name: greater_part}
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
    """A scenario in its own unit of work; points and tiers that have expired are removed before the event.

    With `tracing`, the explanations have the values of all parts of the rules.
    """

    def __init__(self, execution: Execution, scenario: Scenario, tracing: bool = False) -> None:
        """Open the unit; raises UnknownMember, MemberInactive, MissingPayload or another refusal of tracking."""
        self.scenario = scenario
        self.unit: UnitOfWork
        keys, event = scenario.campaign_keys, scenario.event
        if scenario.person is None:
            self.unit = UnitOfWork(execution, DRY_RUN, keys, tracing)
            members = self.unit.lock(loyalty_member_ids=[event.loyalty_member_id or ""], incoming_events=[event])
        else:
            self.unit = HypotheticalUnit(execution, scenario.person, keys, tracing)
            members = self.unit.lock(member_ids=[NOBODY], incoming_events=[event])
        self._tracked = self._accept_event(members)
        external_ids = [] if self._tracked.order is None else [self._tracked.order["externalId"]]
        orders = OrderWork(execution, external_ids, repeat(0), repeat(0))
        due_events = self.unit.open_for_events([self._tracked], orders)
        # None means that all missions are loaded, not only those whose progress the event may change.
        self.unit.event_types = None
        evaluate_derived(self.unit, due_events)

    @property
    def member(self) -> Member:
        """The member of the event."""
        return self._tracked.member

    @property
    def currency(self) -> str | None:
        """The currency of the event's total: that of the organization if the event names none."""
        return self.scenario.currency or self.unit.organization.currency

    def evaluate(self) -> list[EventOutcome]:
        """Evaluate the event and the events that it causes; return the outcomes of the member's events, its own first.

        Raises the refusal of the event.
        """
        count_before = len(self.unit.outcomes)
        result = process_event(self.unit, self._tracked)
        if result.refusal is not None:
            raise self._refusal(result.refusal)
        new_outcomes = self.unit.outcomes[count_before:]
        return [outcome for outcome in new_outcomes if outcome.member_id == self.member.member_id]

    def holdings(self) -> MemberHoldings:
        """The holdings of the member at this point of the unit."""
        unit, member = self.unit, self.member
        points = partial(unit.tier_points, member.wallet_id)
        tiers = {}
        for schedule in unit.configuration.tier_schedules:
            program_id = schedule.loyalty_program_id
            held_tier = unit.tier_assignments.stored_tier((member.member_id, program_id))
            tiers[program_id] = (
                None if held_tier is None else unit.tier_assignments.present_tier_id(program_id, held_tier, points)
            )
        return MemberHoldings(
            balances={
                account_id: unit.ledger.holding(member.wallet_id, account_id).available
                for account_id in unit.configuration.accounts
            },
            badges=unit.badges.balances_by_key(member.member_id) if unit.configuration.badges else {},
            tiers=tiers,
        )

    def _accept_event(self, members: Mapping[Any, Member]) -> TrackedEvent:
        """Return the event with a new key; raises its refusal if it could not be tracked now."""
        intake = Intake(self.unit)
        accepted_events = intake.accept([self.scenario.event], members, existing_keys=())
        if not accepted_events:
            raise self._refusal(intake.results[0].refusal)
        [tracked] = accepted_events
        tracked.key = self.unit.new_key()
        return tracked

    def _refusal(self, refusal: Refusal | None) -> Refusal:
        """The refusal of the simulation for a refusal of its event; an erased member is unknown."""
        if isinstance(refusal, PayloadMissing):
            return MissingPayload(refusal.detail)
        if refusal is None or isinstance(refusal, MemberErased):
            return unknown_member(self.scenario.event.loyalty_member_id)
        return refusal
