"""Cancelling an event: a unit of work that reverses it (integration 4.6, item 3)."""

from typing import Any

from domain.events import SUCCESS, IncomingEvent, LoyaltyEvent
from domain.members import Member
from domain.orders import CREATED
from domain.reversals import CANCELLED, RevertedEvent, refuse_uncancellable
from handlers.call import Call
from handlers.messages.events import track_result
from handlers.messages.reversals import reverted_event
from handlers.services.unit_of_work.evaluation import EXPIRED, report_changes, report_events
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.reversals import Reversal, Reversals
from handlers.services.unit_of_work.tracked import TrackedEvent, event_digest
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import reversals
from persistence.events import EVENTS
from persistence.rows import reserve_ids


def cancel_event(
    call: Call, event: LoyaltyEvent, description: str | None, allow_overdraft: bool
) -> list[RevertedEvent]:
    """Reverse the event and those that it caused. Returns the reversed parts of each.

    Raises EventCancelled, EventNotCancellable, or a refusal of the ledger.
    """
    organization_id, event_id = call.organization.organization_id, event.loyalty_event_id
    unit = UnitOfWork(call)
    members = unit.lock(member_ids=reversals.find_members(call.db, organization_id, [event_id]))
    # Read again, now that nobody else can reverse it.
    event = EVENTS.find(call.db, organization_id, event.loyalty_event_id) or event
    refuse_uncancellable(event)
    record = _record(unit, event, members[event.member_id], description)
    order = (event.payload.get("order") or {}).get("externalId") if record.order_status == CREATED else None
    orders, reversible = OrderWork(call, () if order is None else [order]), Reversals(call, [event_id])
    report_events(unit, unit.open_for_events([record], orders, reversible), EXPIRED)
    by = Reversal(record.loyalty_event_id, record.key, allow_overdraft=allow_overdraft, description=description)
    reverted = reversible.reverse([event_id], by, unit)
    if order is not None:
        orders.cancel(order, event_id)
    answer: dict[str, Any] = track_result(record.event, record.key, SUCCESS, None, None)
    answer["reverted"] = [reverted_event(undone) for undone in reverted]
    unit.event_rows.add(record, SUCCESS, answer, location=event.location, reverted=reverted)
    report_changes(unit, f"Caused by {record.event.event_type} {record.key}.", record)
    unit.flush()
    call.audit.add(
        "event",
        event_id,
        after={
            "isCancelled": True,
            "description": description,
            "allowOverdraft": allow_overdraft,
            "loyaltyEventIds": [reversal.event.loyalty_event_id for reversal in reverted],
        },
        member_ids={reversal.event.member_id for reversal in reverted},
    )
    return reverted


def _record(unit: UnitOfWork, event: LoyaltyEvent, member: Member, description: str | None) -> TrackedEvent:
    """The event that records the cancellation of another."""
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
        digest=event_digest(record, member, None, unit.mode, unit.campaign_keys),
        member=member,
        sponsor=None,
        at=call.now,
        is_evaluated=False,
        loyalty_event_id=reserve_ids(call.db, events=1)["events"][0],
        key=call.new_key(),
    )
