"""The evaluation of an event that was only captured, by request: once, as tracking would have done it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from domain.events import FULL, EventNotCaptured, IncomingEvent, LoyaltyEvent
from domain.members import Member
from domain.orders import CONFIRMED, CREATED, status_of_event
from domain.reversals import EventCancelled
from handlers.call import Call
from handlers.services.events.evaluate_queued import QueuedBatch, accepted_of, incoming_of
from handlers.services.events.intake import refuse_untrackable
from handlers.services.unit_of_work.orders import Found, OrderWork, order_payload
from persistence import events

_STANDING = frozenset({CREATED, CONFIRMED})


class CapturedOrders(OrderWork):
    """The orders of events that were captured: these made them what they are, and change them no more."""

    def take(self, event: IncomingEvent, loyalty_event_id: int, member: Member) -> Found | None:
        """The order as it is by now; raises EventNotCaptured where something of what the event made of it came back."""
        payload = order_payload(event)
        if payload is None:
            return None
        found = self._orders[payload["externalId"]]
        if status_of_event(event.event_type) in _STANDING and found[0].status not in _STANDING:
            raise EventNotCaptured(f"The order {found[0].external_id} of the event is {found[0].status} by now.")
        return found

    def keep(self, found: Found) -> None:
        """Leave the order alone."""


class CapturedBatch(QueuedBatch):
    """One event that was captured, with what comes of it."""

    def evaluate_captured(self, event: LoyaltyEvent) -> LoyaltyEvent:
        """Evaluate the event, unless that was done before, and return it as it is then; a refusal changes nothing.

        It is evaluated with what is configured now, as of the moment when it was tracked. Raises EventNotCaptured,
        EventCancelled, or what refuses such an event when it is tracked.
        """
        said = incoming_of(event)
        concerned = {event.member_id} | self._concerned_by_undoing([said])
        concerned |= set() if event.sponsor_member_id is None else {event.sponsor_member_id}
        members = self._lock((), concerned, [said])
        # As it is now that nobody else can evaluate or cancel it any more.
        event = self._stored_now(event)
        if event.evaluated_at is not None:
            return event
        _refuse_unless_captured(event)
        each = accepted_of(0, event, said, members)
        refuse_untrackable(said, each.member, self._configuration, own_events=False)
        self._stored = {event.loyalty_event_id}
        self._evaluate([each])
        refusal = self._results[0].refusal
        if refusal is not None:
            raise refusal
        return self._stored_now(event)

    def _orders(self, external_ids: set[str], ids: Mapping[str, Sequence[int]]) -> OrderWork:
        return CapturedOrders(self._db, self._organization_id, external_ids, self._now, (), ())

    def _store(self, rows: Sequence[Mapping[str, Any]]) -> None:
        super()._store(
            [{**row, "evaluated_at": self._now} if row["loyalty_event_id"] in self._stored else row for row in rows]
        )

    def _stored_now(self, event: LoyaltyEvent) -> LoyaltyEvent:
        return events.find_by_key(self._db, self._organization_id, event.loyalty_event_key) or event


def _refuse_unless_captured(event: LoyaltyEvent) -> None:
    if event.reversal_loyalty_event_id is not None:
        raise EventCancelled(f"The event {event.loyalty_event_key} is cancelled.")
    if not event.is_captured_only:
        state = f"is {event.status}" if event.reason is None else "was emitted by the server itself"
        raise EventNotCaptured(
            f"The event {event.loyalty_event_key} {state}, and was not tracked with the execution mode captureOnly."
        )


def evaluate_captured(call: Call, event: LoyaltyEvent) -> LoyaltyEvent:
    """Evaluate a captured event of the call's organization; it is returned as it is then."""
    batch = CapturedBatch(call.db, call.organization, FULL, call.now, call.new_key, call.request_id)
    return batch.evaluate_captured(event)
