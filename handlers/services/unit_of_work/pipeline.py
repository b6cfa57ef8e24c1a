"""The evaluation of one event in a unit of work: its order, its effects, and its derived events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from domain.campaigns.evaluation import MAX_ERRORS, Evaluator
from domain.campaigns.facts import EventFacts
from domain.campaigns.outcomes import Evaluation
from domain.events import DRY_RUN, FAILURE, FULL, MAX_CAUSED, MAX_DEPTH, SUCCESS, EventOrigin
from domain.orders import Order, OrderWithItems
from domain.problems import Refusal
from domain.reversals import RevertedEvent
from handlers import metrics
from handlers.messages.events import track_result
from handlers.messages.missions import mission_outcome
from handlers.messages.referrals import referral_results
from handlers.messages.reversals import reverted_event
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.evaluation_time import event_deadline
from handlers.services.unit_of_work.event_facts import event_facts
from handlers.services.unit_of_work.reversals import extent_of
from handlers.services.unit_of_work.scope import Reversal
from handlers.services.unit_of_work.tracked import EventOutcome, Result, TrackedEvent, event_digest
from persistence.rows import IdAllocator

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


class EventPipeline:
    """Evaluates the events of an open unit of work; `event_ids` are for derived events.

    It does not keep the unit, which keeps it: all that a unit has read is given back as soon as the unit is done, and
    does not wait for the garbage collector.
    """

    def __init__(self, event_ids: IdAllocator) -> None:
        self._event_ids = event_ids
        self._caused = 0

    def evaluate(self, unit: UnitOfWork, tracked: TrackedEvent) -> Result:
        """Evaluate an event from outside, and its derived events."""
        self._caused = 0
        return self._evaluate(unit, tracked)

    def report(
        self,
        unit: UnitOfWork,
        derived: Sequence[DerivedEvent],
        reason: str,
        cause: TrackedEvent | None = None,
        origin: EventOrigin | None = None,
    ) -> None:
        """Evaluate derived events, caused by another event, or reported for a `reason` by a request."""
        self._event_ids.expect(len(derived))
        if cause is not None:
            origin = cause.origin
        for event in derived:
            if cause is None:
                self._caused = 0
            self._evaluate(unit, self._tracked(unit, event, reason, cause, origin))

    def _evaluate(self, unit: UnitOfWork, tracked: TrackedEvent) -> Result:
        """Build the order of one event, evaluate it and its derived events.

        A refusal fails this event and no other.
        """
        evaluation: Evaluation | None = None
        order: OrderWithItems | None = None
        refusal: Refusal | None = None
        reverted: list[RevertedEvent] = []
        try:
            order = unit.orders.take(tracked.event, tracked.loyalty_event_id, tracked.member)
            if order is not None:
                reverted = _reverse(unit, tracked, order[0])
                unit.orders.keep(order)
            if unit.is_open and tracked.is_evaluated:
                evaluation = self._run(unit, tracked, order)
        except Refusal as error:
            refusal = error
        status = SUCCESS if refusal is None else FAILURE
        moves = unit.missions.moved() if unit.is_open else []
        missions = [mission_outcome(move, unit.is_dry_run) for move in moves]
        stored_key = None if unit.is_dry_run else tracked.key
        answer = track_result(tracked.event, stored_key, status, evaluation, refusal, missions)
        if unit.is_open:
            answer["referrals"] = referral_results(unit.participants.referrals.taken(), unit.is_dry_run)
        if reverted:
            answer["reverted"] = [reverted_event(event) for event in reverted]
        if not unit.is_dry_run:
            for failed in () if evaluation is None else evaluation.errors:
                metrics.count_error(unit.execution.organization.organization_id, failed)
            location = order[0].location_code if order else None
            unit.keep(tracked, status, answer, evaluation=evaluation, location=location, reverted=reverted)
        unit.outcomes.append(EventOutcome(tracked.member.member_id, tracked.loyalty_event_id, answer))
        unit.report(f"Caused by {tracked.event.event_type} {tracked.key}.", tracked)
        return Result(answer, refusal)

    def _run(self, unit: UnitOfWork, tracked: TrackedEvent, order: OrderWithItems | None) -> Evaluation:
        """Evaluate one event in missions, campaigns and referral programs."""
        participants = unit.participants
        facts, deadline = _facts(unit, tracked, order), event_deadline(unit.call_deadline)
        if unit.mode in (FULL, DRY_RUN) and participants.missions.handle(facts, deadline):
            # Campaigns see the missions' counts and rewards.
            facts = _facts(unit, tracked, order)
        failed = participants.missions.failed()
        evaluator = Evaluator(
            facts,
            participants.ledger,
            participants.counters,
            unit.configuration.accounts_by_key,
            unit.configuration.functions,
            executors=participants.executors,
            mode=unit.mode,
            tracing=unit.tracing,
            deadline=deadline,
        )
        evaluation = evaluator.run(unit.plan_of(tracked.event.event_type))
        evaluation.errors[:] = [*failed, *evaluation.errors][:MAX_ERRORS]
        if unit.mode in (FULL, DRY_RUN):
            participants.referrals.handle(facts, tracked.event, None if order is None else order[0])
        return evaluation

    def _tracked(
        self,
        unit: UnitOfWork,
        derived: DerivedEvent,
        reason: str,
        cause: TrackedEvent | None,
        origin: EventOrigin | None,
    ) -> TrackedEvent:
        """A derived event; it is not evaluated any more if too many have followed each other."""
        now = unit.execution.now
        self._caused += 1
        depth = 1 if cause is None else cause.depth + 1
        limit = None
        if depth > MAX_DEPTH:
            limit = f"it is more than {MAX_DEPTH} events away from the first one"
        elif self._caused > MAX_CAUSED:
            limit = f"more than {MAX_CAUSED} came of one event"
        at = now if cause is None else cause.at
        told = reason if limit is None else f"{reason} Not evaluated: {limit}."
        date = None if cause is None else cause.stored_date(now)
        event = derived.incoming(unit.execution.new_key, told, date)
        member = unit.members[derived.member_id]
        return TrackedEvent(
            position=-1,
            event=event,
            digest=event_digest(event, member, None, unit.mode, unit.campaign_keys),
            member=member,
            sponsor=None,
            at=at,
            is_evaluated=limit is None,
            loyalty_event_id=0 if unit.is_dry_run else self._event_ids.take(),
            key=unit.execution.new_key(),
            cause_id=None if cause is None else cause.loyalty_event_id,
            depth=depth,
            origin=origin,
        )


def _facts(unit: UnitOfWork, tracked: TrackedEvent, order: OrderWithItems | None) -> EventFacts:
    """The facts of an event at this point of the unit."""
    audiences = unit.audiences[tracked.member.member_id]
    return event_facts(tracked, order, unit.participants, unit.configuration, audiences, unit.execution.now)


def _reverse(unit: UnitOfWork, tracked: TrackedEvent, order: Order) -> list[RevertedEvent]:
    """Reverse the effects of the order's events, as far as the order's new status requires."""
    extent = extent_of(order)
    unreversed = [event_id for event_id in reversed(order.event_ids) if unit.reversals.stands(event_id)]
    if extent is None or not unit.is_open or not unreversed:
        return []
    dated = tracked.stored_date(unit.execution.now)
    by = Reversal(tracked.loyalty_event_id, tracked.key, extent, external_event_date=dated)
    return unit.reversals.reverse(unreversed, by, unit.participants)
