"""Cancelling an event: a batch of one event that takes back instead of giving (integration 4.6, item 3)."""

from __future__ import annotations

from typing import Any

from domain.events import FULL, SUCCESS, IncomingEvent, LoyaltyEvent
from domain.members import Member
from domain.orders import CREATED, status_of_event
from domain.reversals import CANCELLED, RevertedEvent, refuse_uncancellable
from handlers.call import Call
from handlers.messages.events import track_result
from handlers.messages.reversals import reverted_event
from handlers.services.events.intake import Accepted, event_digest
from handlers.services.unit_of_work.event_rows import event_row
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.reversals import Reversals
from handlers.services.unit_of_work.scope import Reversal
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import events, reversals
from persistence.rows import reserve_ids


class Cancellation(UnitOfWork):
    """The cancellation of one event, with what comes of the points that move."""

    def cancel(self, event: LoyaltyEvent, description: str | None, allow_overdraft: bool) -> list[RevertedEvent]:
        """Undo the event and those that it caused; answers what was taken back of each.

        Raises EventCancelled, EventNotCancellable, or what the books refuse.
        """
        event_id = event.loyalty_event_id
        members = self._lock((), reversals.find_members(self._db, self._organization_id, [event_id]))
        # As it is now that nobody else can undo it any more.
        event = events.find_by_key(self._db, self._organization_id, event.loyalty_event_key) or event
        refuse_uncancellable(event)
        each = self._recorded(event, members[event.member_id], description)
        order = _created_order(event)
        names = set() if order is None else {order}
        orders = OrderWork(self._db, self._organization_id, names, self._now, (), ())
        work = self._begin([each], orders, Reversals(self._db, self._organization_id, [event_id]))
        if work.participants is None:
            raise AssertionError("desks are open where there is something to undo")
        by = Reversal(each.loyalty_event_id, each.key, allow_overdraft=allow_overdraft, description=description)
        reverted = work.reversals.undo([event_id], by, work.participants)
        if order is not None:
            orders.cancel(order, event_id)
        answer: dict[str, Any] = track_result(each.event, each.key, SUCCESS, None, None)
        answer["reverted"] = [reverted_event(one) for one in reverted]
        row = event_row(each, None, SUCCESS, answer, event.location, self._request_id, self._now, reverted)
        self._rows.append(row)
        self._follow(each, work)
        self._write(work)
        return reverted

    def _recorded(self, event: LoyaltyEvent, member: Member, description: str | None) -> Accepted:
        """The event that records the cancellation of another."""
        record = IncomingEvent(
            system_unique_key=f"cancellation-{self._new_key()}",
            event_type=event.event_type,
            member_id=event.member_id,
            external_id=event.external_id,
            description=description,
            reason=CANCELLED,
        )
        return Accepted(
            position=-1,
            event=record,
            digest=event_digest(record, member, None, self._mode, self._campaign_keys),
            member=member,
            sponsor=None,
            at=self._now,
            is_evaluated=False,
            loyalty_event_id=reserve_ids(self._db, events=1)["events"][0],
            key=self._new_key(),
        )


def _created_order(event: LoyaltyEvent) -> str | None:
    """The external id of the order that an event created."""
    if status_of_event(event.event_type) != CREATED:
        return None
    return (event.payload.get("order") or {}).get("externalId")


def cancel_event(
    call: Call, event: LoyaltyEvent, description: str | None, allow_overdraft: bool
) -> list[RevertedEvent]:
    """Cancel an event of the call's organization."""
    batch = Cancellation(call.db, call.organization, FULL, call.now, call.new_key, call.request_id)
    return batch.cancel(event, description, allow_overdraft)
