"""Tracking: events and all their effects, in a number of statements that does not depend on the number of events.

A batch is one unit of work: lock the members, return the results of events tracked before, evaluate the rest in order
on values alone, and flush all of it. An event that is refused does not affect the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from domain.events import CAPTURE_ONLY, IncomingEvent
from domain.members import Member
from handlers.call import Call
from handlers.services.events.intake import Intake
from handlers.services.unit_of_work.orders import OrderWork, order_payload
from handlers.services.unit_of_work.reversals import Reversals, reversed_orders, segments
from handlers.services.unit_of_work.tracked import Result, TrackedEvent
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import reversals
from persistence.rows import reserve_ids


def track(unit: UnitOfWork, incoming: Sequence[IncomingEvent], *, by_server: bool = False) -> list[Result]:
    """Track events in a unit of work, in their order. Returns a result for each.

    `by_server` is True for events that only the server itself reports.
    """
    loyalty_ids = {e.loyalty_member_id for e in incoming if e.loyalty_member_id is not None}
    loyalty_ids |= {e.sponsor_loyalty_member_id for e in incoming if e.sponsor_loyalty_member_id is not None}
    member_ids = {e.member_id for e in incoming if e.member_id is not None}
    members = unit.lock(loyalty_ids, member_ids | members_of_reversals(unit, incoming), incoming)
    intake = Intake(unit, by_server)
    accepted = intake.accept(incoming, members)
    for segment in segments(accepted) if unit.rewards else [accepted]:
        if segment:
            intake.results |= evaluate(unit, segment)
    return intake.all_results()


def members_of_reversals(unit: UnitOfWork, incoming: Sequence[IncomingEvent]) -> set[int]:
    """The members who received something from the orders that the events reverse."""
    names = reversed_orders(incoming)
    organization_id = unit.execution.organization.organization_id
    return reversals.find_members_of_orders(unit.execution.db, organization_id, names) if names else set()


def evaluate(unit: UnitOfWork, accepted: Sequence[TrackedEvent], orders: OrderWork | None = None) -> dict[int, Result]:
    """Evaluate events of locked members, and flush unless it is a dry run. Returns the results by position.

    `orders` are the orders of the events if they are not to be built from the events.
    """
    if orders is None:
        orders = _orders(unit, accepted)
    names = set() if unit.mode == CAPTURE_ONLY else reversed_orders(event.event for event in accepted)
    led_to = {i for name in names if (order := orders.stored(name)) is not None for i in order.event_ids}
    unit.open(accepted, orders, Reversals(unit.execution, led_to))
    results = {event.position: unit.evaluate(event) for event in accepted}
    if not unit.is_dry_run:
        unit.flush()
    return results


def _orders(unit: UnitOfWork, accepted: Sequence[TrackedEvent]) -> OrderWork:
    """The orders of the events.

    Events that are not stored yet get their ids and keys together with the orders.
    """
    payloads = [payload for event in accepted if (payload := order_payload(event.event)) is not None]
    new = [event for event in accepted if not event.loyalty_event_id]
    ids = _ids(unit, len(new), len(payloads), sum(len(payload.get("items") or ()) for payload in payloads))
    for each, event_id in zip(new, ids["events"], strict=True):
        each.loyalty_event_id, each.key = event_id, unit.execution.new_key()
    external_ids = {payload["externalId"] for payload in payloads}
    return OrderWork(unit.execution, external_ids, ids["purchase_orders"], ids["order_items"])


def _ids(unit: UnitOfWork, events: int, orders: int, items: int) -> Mapping[str, Sequence[int]]:
    """The ids of all records that the batch may store; a dry run stores nothing and takes no ids from the database."""
    counts = {"events": events, "purchase_orders": orders, "order_items": items}
    if unit.is_dry_run:
        return {name: [0] * count for name, count in counts.items()}
    return reserve_ids(unit.execution.db, **counts)


def emit(
    call: Call, member: Member, event_type: str, payload: Mapping[str, Any], reason: str | None = None
) -> Mapping[str, Any]:
    """Track an event that the server itself reports of a member, such as `member-created` (integration 6).

    Returns its result in the form of tracking.
    """
    event = IncomingEvent(
        system_unique_key=f"{event_type}-{call.new_key()}",
        event_type=event_type,
        member_id=member.member_id,
        payload=payload,
        reason=reason,
    )
    [result] = track(UnitOfWork(call), [event], by_server=True)
    return result.answer
