"""Cancels events, and evaluates events that were captured before (integration 4.6, item 3)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from domain.events import SUCCESS, EventNotCaptured, IncomingEvent, LoyaltyEvent
from domain.ledger.postings import Posting
from domain.members import Member, refuse_erased
from domain.orders import CANCELLED as ORDER_CANCELLED
from domain.orders import CONFIRMED, CREATED, PARTIALLY_RETURNED, STATUS_OF_EVENT, OrderWithItems
from domain.reversals import CANCELLED, EventCancelled, RevertedEvent, refuse_uncancellable
from domain.tenders import TenderRefund
from handlers.call import Call
from handlers.messages.events import TENDER_REFUND, track_result
from handlers.messages.reversals import reverted_event
from handlers.services.events.evaluate_queued import lock_members_of
from handlers.services.events.intake import refuse_untrackable
from handlers.services.events.track import evaluate
from handlers.services.unit_of_work.evaluation import evaluate_changes, evaluate_derived
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.reversals import Reversal, Reversals, reverted_by
from handlers.services.unit_of_work.tracked import TrackedEvent, incoming_of, tracked_event_of
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import reversals
from persistence.events import EVENTS
from persistence.rows import reserve_ids


def cancel_event(
    call: Call, event: LoyaltyEvent, description: str | None, allow_overdraft: bool
) -> tuple[list[RevertedEvent], Sequence[TenderRefund]]:
    """Reverse the event and the events that it caused, and undo the order that it created.

    An order is undone with all its events, and refunded.

    Returns the reversed parts of each event, and the refund of each tender of the order. Raises EventCancelled,
    EventNotCancellable, MemberErased, or a refusal of the ledger.
    """
    organization_id, event_id = call.organization.organization_id, event.loyalty_event_id
    unit = UnitOfWork(call)
    order_id = _created_order_id(event)
    order_ids = [] if order_id is None else [order_id]
    member_ids = reversals.find_members(call.db, organization_id, [event_id])
    if order_ids:
        member_ids |= reversals.find_members_of_orders(call.db, organization_id, order_ids)
    members = unit.lock(member_ids=member_ids)
    # Read again under the lock, since another transaction may have reversed it.
    event = EVENTS.find_again(call.db, event)
    refuse_uncancellable(event)
    record = _make_cancellation_record(unit, event, members[event.member_id], description)
    orders = OrderWork(call, order_ids)
    event_ids = [event_id] if order_id is None else orders.events_cancelled_with(order_id, event_id)
    reversible = Reversals(unit, event_ids)
    due_events = unit.open_for_events([record], orders, reversible)
    evaluate_derived(unit, due_events)
    reversal = Reversal(record.loyalty_event_id, record.key, allow_overdraft=allow_overdraft, description=description)
    response: dict[str, Any] = track_result(record.event, record.key, SUCCESS)
    cancelled_order = None if order_id is None else orders.cancelled_order(order_id, event_id)
    refunds: Sequence[TenderRefund] = ()
    reverts: Sequence[Posting] = ()
    with unit.ledger.net_supply_of_reverts():
        if cancelled_order is not None and cancelled_order.order.payments:
            order, items = cancelled_order
            # Everything is refunded, even if the order was returned in part and keeps its status.
            order_with_refunds, refunds, reverts = unit.payments.refund(record, replace(order, status=ORDER_CANCELLED))
            cancelled_order = OrderWithItems(replace(order_with_refunds, status=order.status), items)
            response["refunds"] = list(map(TENDER_REFUND, refunds))
        # The cancelled event is the last one, since the others are newer. It also reports the refunds.
        *newer_events, cancelled_event = reversible.reverse(event_ids, reversal, unit)
    refunded_transactions = [part for revert in reverts for part in reverted_by(revert, revert.amount, unit.ledger)]
    transactions = (*cancelled_event.transactions, *refunded_transactions)
    reverted_events = [*newer_events, replace(cancelled_event, transactions=transactions)]
    for part in reverted_events:
        refuse_erased(members[part.event.member_id])
    if cancelled_order is not None:
        orders.set_order(cancelled_order)
    response["reverted"] = [reverted_event(part) for part in reverted_events]
    unit.event_rows.add(record, SUCCESS, response, location=event.location, reverted_events=reverted_events)
    evaluate_changes(unit, f"Caused by {record.event.event_type} {record.key}.", record)
    unit.flush()
    call.audit.add(
        "event",
        event_id,
        after={
            "isCancelled": True,
            "description": description,
            "allowOverdraft": allow_overdraft,
            "loyaltyEventIds": [part.event.loyalty_event_id for part in reverted_events],
        },
        member_ids={part.event.member_id for part in reverted_events},
    )
    return reverted_events, refunds


def _created_order_id(event: LoyaltyEvent) -> str | None:
    """The external id of the order whose creation the event reports; None for other events.

    Only the cancellation of the event that created an order also cancels the order.
    """
    is_creation = STATUS_OF_EVENT.get(event.event_type) == CREATED
    return (event.payload.get("order") or {}).get("externalId") if is_creation else None


def _make_cancellation_record(
    unit: UnitOfWork, event: LoyaltyEvent, member: Member, description: str | None
) -> TrackedEvent:
    """Reserve an id for a new event that records the cancellation of `event`, and return it; it is not evaluated."""
    call = unit.execution
    record = IncomingEvent(
        system_unique_key=f"cancellation-{call.new_key()}",
        event_type=event.event_type,
        member_id=event.member_id,
        external_id=event.external_id,
        description=description,
        reason=CANCELLED,
    )
    return TrackedEvent(
        position=-1,
        event=record,
        member=member,
        sponsor=None,
        at=call.now,
        is_evaluated=False,
        origin=call.origin,
        loyalty_event_id=reserve_ids(call.db, events=1)["events"][0],
        key=call.new_key(),
    )


_ACTIVE_STATUSES = frozenset({CREATED, CONFIRMED})


class CapturedOrders(OrderWork):
    """The orders of captured events, which changed them when they were captured, and now change only their refunds."""

    def changed_by(self, tracked: TrackedEvent) -> OrderWithItems | None:
        """The unchanged order of an event, None for an event that is about no order.

        If the order was returned in part since, raises EventNotCaptured; if it was undone, raises EventCancelled.
        """
        if tracked.order is None:
            return None
        order_with_items = self._orders[tracked.order["externalId"]]
        order = order_with_items.order
        if tracked.order_status in _ACTIVE_STATUSES and order.status not in _ACTIVE_STATUSES:
            refusal = EventNotCaptured if order.status == PARTIALLY_RETURNED else EventCancelled
            raise refusal(f"The event cannot be evaluated, because its order {order.external_id} is {order.status}.")
        return order_with_items

    def set_order(self, order_with_items: OrderWithItems) -> None:
        """Set the order only if the evaluation has refunded some of its payments."""
        order_before = self.order_before(order_with_items.order.external_id)
        if order_before is not None and order_with_items.order.payments != order_before.payments:
            super().set_order(order_with_items)


def _refuse_unless_captured(event: LoyaltyEvent) -> None:
    """Raise EventCancelled for a cancelled event, and EventNotCaptured for one that was not captured."""
    if event.reversal_loyalty_event_id is not None:
        raise EventCancelled(f"The event {event.loyalty_event_key} was cancelled, or its order was undone.")
    if not event.is_captured_only:
        state = f"is {event.status}" if event.reason is None else "was emitted by the server itself"
        raise EventNotCaptured(
            f"The event {event.loyalty_event_key} {state}, and was not tracked with the execution mode captureOnly."
        )


def evaluate_captured(call: Call, event: LoyaltyEvent) -> LoyaltyEvent:
    """Evaluate a captured event unless it was evaluated before. Returns it with its result.

    It is evaluated with the current configuration, as of the moment when it was tracked. Raises EventNotCaptured,
    EventCancelled, or a refusal of tracking, and then changes nothing.
    """
    unit = UnitOfWork(call)
    incoming_event = incoming_of(event)
    members = lock_members_of(unit, [event], [incoming_event])
    # Read again under the lock, since another transaction may have evaluated or cancelled it.
    event = EVENTS.find_again(call.db, event)
    if event.evaluated_at is not None:
        return event
    _refuse_unless_captured(event)
    tracked = tracked_event_of(0, event, incoming_event, members)
    tracked.evaluated_at = call.now
    refuse_untrackable(incoming_event, tracked.member, unit.configuration, by_server=False)
    orders = CapturedOrders(call, () if tracked.order is None else [tracked.order["externalId"]])
    refusal = evaluate(unit, [tracked], orders)[0].refusal
    if refusal is not None:
        raise refusal
    return EVENTS.find_again(call.db, event)
