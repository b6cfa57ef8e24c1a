"""The evaluation of a captured event by request: once, with the effects that tracking would have had."""

from domain.events import EventNotCaptured, LoyaltyEvent
from domain.orders import CONFIRMED, CREATED, OrderWithItems
from domain.reversals import EventCancelled
from handlers.call import Call
from handlers.services.events.evaluate_queued import incoming_of, lock_members_of, tracked_again
from handlers.services.events.intake import refuse_untrackable
from handlers.services.events.track import evaluate
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.tracked import TrackedEvent
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.events import EVENTS

_STANDING = frozenset({CREATED, CONFIRMED})


class CapturedOrders(OrderWork):
    """The orders of captured events, which have their final state already and are not changed again."""

    def changed_by(self, tracked: TrackedEvent) -> OrderWithItems | None:
        """The present order of an event; raises EventNotCaptured if items of it were returned."""
        if tracked.order is None:
            return None
        known = self._orders[tracked.order["externalId"]]
        if tracked.order_status in _STANDING and known[0].status not in _STANDING:
            raise EventNotCaptured(f"The order {known[0].external_id} of the event is {known[0].status} by now.")
        return known

    def keep(self, after: OrderWithItems) -> None:
        """Do nothing: the order stays as it is."""


def _refuse_unless_captured(event: LoyaltyEvent) -> None:
    if event.reversal_loyalty_event_id is not None:
        raise EventCancelled(f"The event {event.loyalty_event_key} is cancelled.")
    if not event.is_captured_only:
        state = f"is {event.status}" if event.reason is None else "was emitted by the server itself"
        raise EventNotCaptured(
            f"The event {event.loyalty_event_key} {state}, and was not tracked with the execution mode captureOnly."
        )


def evaluate_captured(call: Call, event: LoyaltyEvent) -> LoyaltyEvent:
    """Evaluate an event unless that was done before. Returns it with its result; a refusal changes nothing.

    It is evaluated with the present configuration, as of the moment when it was tracked. Raises EventNotCaptured,
    EventCancelled, or the refusals of tracking.
    """
    unit, sent = UnitOfWork(call), incoming_of(event)
    members = lock_members_of(unit, [event], [sent])
    # Read again, now that nobody else can evaluate or cancel it.
    event = _stored_now(call, event)
    if event.evaluated_at is not None:
        return event
    _refuse_unless_captured(event)
    tracked = tracked_again(0, event, sent, members)
    tracked.evaluated_at = call.now
    refuse_untrackable(sent, tracked.member, unit.configuration, by_server=False)
    orders = CapturedOrders(call, () if tracked.order is None else [tracked.order["externalId"]])
    refusal = evaluate(unit, [tracked], orders)[0].refusal
    if refusal is not None:
        raise refusal
    return _stored_now(call, event)


def _stored_now(call: Call, event: LoyaltyEvent) -> LoyaltyEvent:
    return EVENTS.find(call.db, call.organization.organization_id, event.loyalty_event_id) or event
