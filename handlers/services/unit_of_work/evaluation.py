"""The evaluation of events in a unit of work: an event changes its order, has effects, and causes derived events.

These steps are the same for tracked, queued and captured events, and for the derived events of requests.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from domain.campaigns.context import EventFacts, Executor
from domain.campaigns.discounts import Basket
from domain.campaigns.effects import (
    ADVANCE_MISSION,
    ASSIGN_BADGE,
    ASSIGN_COUPON,
    NOTIFY,
    SET_TIER,
    UNASSIGN_BADGE,
    USE_COUPON,
)
from domain.campaigns.evaluation import MAX_ERRORS, Evaluator
from domain.campaigns.outcomes import Evaluation, RuleError
from domain.campaigns.reevaluation import Reevaluation, reevaluate
from domain.events import (
    DRY_RUN,
    FAILURE,
    FULL,
    MAX_CAUSED,
    MAX_DEPTH,
    SUCCESS,
    EventOrigin,
    IncomingEvent,
    LoyaltyEvent,
)
from domain.expressions import Deadline
from domain.orders import OrderWithItems
from domain.problems import Refusal
from domain.returns import rest_of
from domain.reversals import RevertedEvent
from domain.tenders import TenderRefund
from handlers import metrics
from handlers.messages.events import TENDER_REFUND, track_result
from handlers.messages.grants import granted_actions, grants_record, recorded_variables
from handlers.messages.missions import mission_outcome
from handlers.messages.referrals import referral_results
from handlers.messages.reversals import reverted_event
from handlers.services.unit_of_work.deadlines import deadline_of, set_queued_deadline
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.facts import facts_of, tiers_as_of_event
from handlers.services.unit_of_work.orders import PAYMENT_STATUSES, extent_to_reverse
from handlers.services.unit_of_work.reversals import Reversal
from handlers.services.unit_of_work.tracked import EventOutcome, Result, TrackedEvent, incoming_of, tracked_event_of
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.transactions import check_deadline

# The executors of the effects that are neither about points nor a discount: methods of participants.
_EXECUTORS: Mapping[str, Callable[[UnitOfWork], Executor]] = {
    SET_TIER: lambda unit: unit.tiers.set_by_effect,
    ASSIGN_BADGE: lambda unit: unit.badges.assign_by_effect,
    UNASSIGN_BADGE: lambda unit: unit.badges.unassign_by_effect,
    ASSIGN_COUPON: lambda unit: unit.coupons.assign_by_effect,
    USE_COUPON: lambda unit: unit.coupons.use_by_effect,
    ADVANCE_MISSION: lambda unit: unit.missions.advance_by_effect,
    NOTIFY: lambda unit: unit.outbox.notify,
}


def evaluate_changes(
    unit: UnitOfWork, reason: str | None, cause: TrackedEvent | None = None, origin: EventOrigin | None = None
) -> None:
    """Evaluate the derived events of all changes since the last call.

    `reason` is stored with the derived events that have no reason of their own. `cause` is the event that made the
    changes, None for a request. Derived events of a request belong to `origin`, or, if that is None, to the origin of
    the execution.
    """
    if unit.is_open:
        derived = unit.ledger_events.take_derived()
        for participant in unit.used_participants():
            derived += participant.take_derived()
        if derived:
            evaluate_derived(unit, derived, reason, cause, origin)


def evaluate_derived(
    unit: UnitOfWork,
    derived: Sequence[DerivedEvent],
    reason: str | None = None,
    cause: TrackedEvent | None = None,
    origin: EventOrigin | None = None,
) -> None:
    """Evaluate derived events, unless the execution is quiet; the arguments are those of `evaluate_changes`."""
    if unit.execution.is_quiet or not derived:
        return
    if cause is None:
        unit.expect_events(len(derived))
    else:
        origin = cause.origin
    for event in derived:
        process_event(unit, _make_tracked_event(unit, event, reason, cause, origin))


def store_derived(unit: UnitOfWork, derived: Sequence[DerivedEvent], reason: str) -> None:
    """Store derived events for the members' timelines, without evaluating them, as quiet imports do."""
    unit.expect_events(len(derived))
    for event in derived:
        process_event(unit, _make_tracked_event(unit, event, reason, is_evaluated=False))


def process_event(unit: UnitOfWork, tracked: TrackedEvent) -> Result:
    """Change the order of one event, evaluate the event if it `is_evaluated`, and store its result.

    Then the events derived from it are processed. Returns the result; a refusal fails only this event.
    """
    # After its deadline a call has its response, and nothing that it did is stored.
    check_deadline()
    evaluation: Evaluation | None = None
    order_with_items: OrderWithItems | None = None
    refusal: Refusal | None = None
    reverted_events: Sequence[RevertedEvent] = ()
    refunds: Sequence[TenderRefund] = ()
    if tracked.tracked_at is not None:
        # The client got the key of a queued event early, so that other requests may use keys that begin with it.
        tracked.new_prefix = unit.new_key()
        if not unit.execution.is_awaited:
            set_queued_deadline(unit, tracked)
    if tracked.cause_id is None:
        # A derived event of a request, of depth 1, counts as a caused event itself.
        unit.caused_count, unit.basket = tracked.depth, None
    try:
        if tracked.order_status is not None and unit.orders is not None:
            order_with_items = unit.orders.changed_by(tracked)
        if order_with_items is not None and unit.orders is not None:
            order_with_items, refunds, reverted_events = _settle_order(unit, tracked, order_with_items)
            unit.orders.set_order(order_with_items)
        if tracked.is_evaluated:
            evaluation = _evaluate(unit, tracked, order_with_items) if unit.is_open else _no_effects(unit, tracked)
    except Refusal as error:
        refusal = error
    result = _result(unit, tracked, evaluation, refusal, reverted_events)
    unit.count_effects(result)
    if refunds:
        result["refunds"] = list(map(TENDER_REFUND, refunds))
    if not unit.is_dry_run:
        if evaluation is not None:
            for error_of_rule in evaluation.errors:
                metrics.count_error(unit.organization_id, error_of_rule)
            if evaluation.alerts:
                unit.outbox.report(evaluation.alerts)
        location = None if order_with_items is None else order_with_items.order.location_code
        unit.event_rows.add(tracked, result["status"], result, evaluation, location, reverted_events)
    unit.outcomes.append(EventOutcome(tracked.member.member_id, tracked.loyalty_event_id, result))
    if unit.is_open:
        evaluate_changes(unit, f"Caused by {tracked.event.event_type} {tracked.key}.", tracked)
    return Result(result, refusal)


def _result(
    unit: UnitOfWork,
    tracked: TrackedEvent,
    evaluation: Evaluation | None,
    refusal: Refusal | None,
    reverted_events: Sequence[RevertedEvent],
) -> dict[str, Any]:
    """The returned and stored result of an event, with the event's outcomes in missions and referrals."""
    status = SUCCESS if refusal is None else FAILURE
    key = None if unit.is_dry_run else tracked.key
    moves = unit.missions.take_moves() if unit.uses("missions") else ()
    missions = [mission_outcome(move, unit.is_dry_run) for move in moves] if moves else ()
    result = track_result(tracked.event, key, status, evaluation=evaluation, error=refusal, missions=missions)
    if unit.uses("referrals"):
        result["referrals"] = referral_results(unit.referrals.take_outcomes(), unit.is_dry_run)
    if reverted_events:
        result["reverted"] = [reverted_event(event) for event in reverted_events]
    return result


def _evaluate(unit: UnitOfWork, tracked: TrackedEvent, order_with_items: OrderWithItems | None) -> Evaluation:
    """Evaluate one event in missions, campaigns and referral programs, if any of them considers its type.

    First the event makes the points available that wait for it, and extends the points that expire after inactivity.
    """
    configuration, event_type = unit.configuration, tracked.event.event_type
    if unit.awaited_types or unit.ledger.new_waiting_mints:
        unit.confirm_mints(tracked)
    if event_type in configuration.activity_types:
        unit.ledger.record_event(tracked.member.wallet_id, event_type, tracked.at)
    # A dry run explains every campaign, even an inactive one.
    plan = unit.complete_plan if unit.is_dry_run else unit.plans.plan_of(event_type)
    is_rewarded = unit.mode in (FULL, DRY_RUN)
    moves_missions = is_rewarded and event_type in configuration.missions_by_type
    is_referral = is_rewarded and event_type in configuration.referral_programs.types
    if not (plan.campaigns or moves_missions or is_referral):
        return _no_effects(unit, tracked)
    errors_of_missions: Sequence[RuleError] = ()
    facts = facts_of(unit, tracked, order_with_items)
    deadline = deadline_of(unit, tracked)
    if moves_missions:
        if unit.missions.count_event(facts, deadline):
            # Campaigns see the missions' counts and rewards.
            facts = facts_of(unit, tracked, order_with_items)
        errors_of_missions = unit.missions.take_errors()
    evaluation = _evaluator(unit, facts, deadline).run(plan)
    evaluation.tiers_as_of = facts.tiers_as_of
    if evaluation.granted_actions:
        evaluation.grants = grants_record(evaluation.granted_actions, facts.context)
    if errors_of_missions:
        evaluation.errors[:] = [*errors_of_missions, *evaluation.errors][:MAX_ERRORS]
    if is_referral:
        purchase_order = None if order_with_items is None else order_with_items.order
        unit.referrals.use_code_of_event(facts, tracked.event, purchase_order)
    return evaluation


def _no_effects(unit: UnitOfWork, tracked: TrackedEvent) -> Evaluation:
    """The evaluation of an event whose type nothing considers."""
    return Evaluation(tiers_as_of=tiers_as_of_event(unit, tracked))


def _evaluator(unit: UnitOfWork, facts: EventFacts, deadline: Deadline) -> Evaluator:
    """The evaluator of the campaigns for one event."""
    return Evaluator(
        event=facts,
        session=unit.ledger,
        counters=unit.counters,
        accounts=unit.configuration.accounts_by_key,
        functions=unit.configuration.functions,
        executor_of=lambda effect_id: _EXECUTORS[effect_id](unit),
        mode=unit.mode,
        tracing=unit.tracing,
        deadline=deadline,
        # `unit.coupons` is first read when it is needed, since reading it loads coupons.
        run_and_undo=lambda execute: unit.coupons.run_and_undo(execute),
    )


def _make_tracked_event(
    unit: UnitOfWork,
    derived: DerivedEvent,
    reason: str | None,
    cause: TrackedEvent | None = None,
    origin: EventOrigin | None = None,
    is_evaluated: bool = True,
) -> TrackedEvent:
    """Make and count a derived event; it is not evaluated if it is too far from the first event, or one of too many."""
    depth = 1
    reason_not_evaluated = None
    # Each event with a cause has a reason, of its own or of its cause.
    reason = derived.reason or reason
    if cause is not None:
        unit.caused_count += 1
        depth += cause.depth
        if depth > MAX_DEPTH:
            reason_not_evaluated = f"it is more than {MAX_DEPTH} events away from the first one"
        elif unit.caused_count > MAX_CAUSED:
            reason_not_evaluated = f"one event caused more than {MAX_CAUSED} others"
    if reason_not_evaluated is not None:
        reason = f"{reason} Not evaluated: {reason_not_evaluated}."
    key = unit.new_key()
    event = IncomingEvent(
        system_unique_key=derived.key or f"{derived.event_type}-{key}",
        event_type=derived.event_type,
        member_id=derived.member_id,
        external_id=derived.external_id,
        reason=reason,
        payload=derived.payload,
        external_event_date=derived.happened_at or (None if cause is None else cause.stored_date(unit.now)),
        tags=derived.tags or None,
    )
    return TrackedEvent(
        position=-1,
        event=event,
        member=unit.members[derived.member_id],
        sponsor=None,
        at=derived.happened_at or (unit.now if cause is None else cause.at),
        is_evaluated=is_evaluated and reason_not_evaluated is None,
        loyalty_event_id=0 if unit.is_dry_run else unit.event_allocator.take(),
        key=key,
        cause_id=None if cause is None else cause.loyalty_event_id,
        depth=depth,
        origin=origin or unit.execution.origin,
        order_external_id=None if cause is None else cause.order_external_id,
    )


class _SettledOrder(NamedTuple):
    """An order with the refunds in its payments, these refunds, and the events that were reversed."""

    order_with_items: OrderWithItems
    refunds: Sequence[TenderRefund]
    reverted_events: Sequence[RevertedEvent]


def _settle_order(unit: UnitOfWork, tracked: TrackedEvent, order: OrderWithItems) -> _SettledOrder:
    """Capture or refund the payments of the order, and reverse effects, as far as the order's new status requires.

    Refunds come first, so that the refunded points can be clawed back.
    """
    refunds: Sequence[TenderRefund] = ()
    purchase_order, items = order
    if not purchase_order.payments or not (unit.is_open and tracked.is_evaluated):
        return _SettledOrder(order, refunds, _reverse_effects(unit, tracked, order))
    savepoint = unit.ledger.savepoint()
    try:
        with unit.ledger.net_supply_of_reverts():
            if tracked.order_status in PAYMENT_STATUSES and tracked.order is not None and tracked.order.get("payments"):
                unit.payments.capture(tracked, purchase_order)
            elif extent_to_reverse(purchase_order) is not None:
                refund = unit.payments.refund(tracked, purchase_order)
                purchase_order, refunds = refund.order, refund.refunds
            order_with_refunds = OrderWithItems(purchase_order, items)
            reverted_events = _reverse_effects(unit, tracked, order_with_refunds)
            return _SettledOrder(order_with_refunds, refunds, reverted_events)
    except Refusal:
        unit.ledger.rollback_to(savepoint)
        raise


def _reverse_effects(unit: UnitOfWork, tracked: TrackedEvent, order_with_items: OrderWithItems) -> list[RevertedEvent]:
    """Reverse the effects of the order's events, as far as the order's new status requires."""
    reversals = unit.reversals
    extent = extent_to_reverse(order_with_items.order)
    if reversals is None or extent is None or not unit.is_open:
        return []
    event_ids = [event_id for event_id in reversed(order_with_items.order.event_ids) if reversals.is_active(event_id)]
    if not event_ids:
        return []
    reevaluations: dict[int, Reevaluation] = {}
    if not extent.is_whole:
        events = map(reversals.event, event_ids)
        reevaluations = _reevaluations(unit, order_with_items, events, deadline_of(unit, tracked))
    reversal = Reversal(
        tracked.loyalty_event_id,
        tracked.transaction_prefix,
        extent,
        external_event_date=tracked.stored_date(unit.now),
        reevaluations=reevaluations,
    )
    return reversals.reverse(event_ids, reversal, unit)


def _reevaluations(
    unit: UnitOfWork, order: OrderWithItems, events: Iterable[LoyaltyEvent], deadline: Deadline
) -> dict[int, Reevaluation]:
    """Re-evaluate events on the part of their order that was not returned; return the re-evaluations by event id.

    Events that have not recorded what they granted are left out. The unit has locked the members of the others.
    """
    kept_part = rest_of(*order)
    by_event: dict[int, Reevaluation] = {}
    for event in events:
        if event.grants is None:
            continue
        tracked = tracked_event_of(-1, event, incoming_of(event), unit.members)
        facts = facts_of(unit, tracked, OrderWithItems(kept_part.order, kept_part.items))
        variables = recorded_variables(event.grants, facts.context)
        basket = Basket(event.member_id, kept_part.order.total, kept_part.order.currency, variables["order"]["items"])
        if unit.configuration.reads_order_after:
            variables["orderAfter"] = basket.remainder()
        facts = replace(facts, context=variables, basket=basket)
        actions = granted_actions(event.grants)
        by_event[event.loyalty_event_id] = reevaluate(
            actions, facts, kept_part.item_positions, unit.configuration.functions, deadline
        )
        # `facts_of` has set the basket of a stored event, which no event of this unit shares.
        unit.basket = None
    return by_event


def fail_event(unit: UnitOfWork, tracked: TrackedEvent, refusal: Refusal) -> Result:
    """Store the failure of an event that was valid when it was queued, but can no longer be evaluated."""
    result = track_result(tracked.event, tracked.key, FAILURE, error=refusal)
    unit.event_rows.expect_stored([tracked])
    unit.event_rows.add(tracked, FAILURE, result)
    return Result(result, refusal)
