"""Tracking: events and all their effects, in a number of statements that does not depend on the number of events.

A batch is one unit of work: lock the members, return the results of events tracked before, evaluate the rest in order
on values alone, and flush all of it. An event that is refused does not affect the others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from domain.events import CAPTURE_ONLY, DRY_RUN, FULL, EventOrigin, IncomingEvent
from domain.expressions import Deadline
from domain.members import Member
from handlers.call import Call
from handlers.services.events.intake import Intake
from handlers.services.unit_of_work.orders import OrderWork, sent_order
from handlers.services.unit_of_work.reversals import Reversals, reversed_orders, segments
from handlers.services.unit_of_work.tracked import Result, TrackedEvent
from handlers.services.unit_of_work.unit import SPARE_IDS, UnitOfWork
from persistence import events, reversals
from persistence.events import Known
from persistence.rows import IdAllocator, reserve_ids

_TRY_OUT = "events_tried_out"


def track(
    unit: UnitOfWork,
    incoming: Sequence[IncomingEvent],
    *,
    by_server: bool = False,
    origins: Sequence[EventOrigin] | None = None,
    claims_payments: bool = True,
) -> list[Result]:
    """Track events in a unit of work, in their order. Returns a result for each.

    `by_server` is True for events that only the server itself reports. `origins` are the requests that each came
    with, if they came with several. `claims_payments` is False if the ids of confirmed payments are claimed already.
    """
    loyalty_ids = {e.loyalty_member_id for e in incoming if e.loyalty_member_id is not None}
    loyalty_ids |= {e.sponsor_loyalty_member_id for e in incoming if e.sponsor_loyalty_member_id is not None}
    member_ids = {e.member_id for e in incoming if e.member_id is not None}
    members = unit.lock(loyalty_ids, member_ids | members_of_reversals(unit, incoming), incoming)
    known = Known((), (), {}) if unit.is_dry_run else _look_up(unit, incoming)
    ids = _allocators(unit, known.ids, len(incoming))
    intake = Intake(unit, by_server, origins, claims_payments)
    accepted = intake.accept(incoming, members, known.keys)
    stored_orders = set(known.order_ids)
    for segment in segments(accepted) if unit.rewards else [accepted]:
        if segment:
            named = _external_ids(segment)
            orders = _orders(unit, segment, named if unit.is_dry_run else named & stored_orders, ids)
            intake.results |= evaluate(unit, segment, orders, ids["ledger_transactions"])
            stored_orders |= named
    return intake.all_results()


def try_out(make_unit: Callable[[str], UnitOfWork], incoming: Sequence[IncomingEvent]) -> list[Result]:
    """Evaluate events in units of work that are dry runs, and return a result for each.

    Where an event undoes an order of earlier ones, these are tracked first, and rolled back in the end.
    """
    parts = segments([_Sent(event) for event in incoming])
    if len(parts) == 1:
        return track(make_unit(DRY_RUN), incoming)
    results: list[Result] = []
    unit = make_unit(DRY_RUN)
    unit.execution.db.exec_driver_sql(f"SAVEPOINT {_TRY_OUT}")
    for part in parts:
        if results:
            unit = make_unit(DRY_RUN)
        sent = [one.event for one in part]
        results += track(unit, sent)
        if len(results) < len(incoming):
            track(make_unit(FULL), sent)
    unit.execution.db.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {_TRY_OUT}")
    return results


@dataclass(slots=True)
class _Sent:
    event: IncomingEvent


def _look_up(unit: UnitOfWork, incoming: Sequence[IncomingEvent]) -> Known:
    """The keys and orders of the events that are stored already, and ids for what the events may store."""
    payloads = [payload for event in incoming if (payload := sent_order(event)) is not None]
    execution = unit.execution
    return events.look_up(
        execution.db,
        execution.organization.organization_id,
        {event.system_unique_key for event in incoming},
        {payload["externalId"] for payload in payloads},
        events=len(incoming),
        purchase_orders=len(payloads),
        order_items=sum(len(payload.get("items") or ()) for payload in payloads),
        # Most events that are looked at mint once; further ids are reserved when they are needed.
        ledger_transactions=sum(unit.is_looked_at(event) for event in incoming),
    )


def members_of_reversals(unit: UnitOfWork, incoming: Sequence[IncomingEvent]) -> set[int]:
    """The members who received something from the orders that the events reverse."""
    names = reversed_orders(incoming)
    organization_id = unit.execution.organization.organization_id
    return reversals.find_members_of_orders(unit.execution.db, organization_id, names) if names else set()


def evaluate(
    unit: UnitOfWork,
    accepted: Sequence[TrackedEvent],
    orders: OrderWork,
    transaction_ids: IdAllocator | None = None,
    until: Deadline | None = None,
) -> dict[int, Result]:
    """Evaluate events of locked members, and flush unless it is a dry run. Returns the results by position.

    No event is begun after `until`, but the first one.
    """
    names = set() if unit.mode == CAPTURE_ONLY else reversed_orders(event.event for event in accepted)
    led_to = {i for name in names if (order := orders.stored(name)) is not None for i in order.event_ids}
    unit.open(accepted, orders, Reversals(unit.execution, led_to), transaction_ids=transaction_ids)
    results: dict[int, Result] = {}
    for event in accepted:
        if results and until is not None and until.has_passed():
            break
        results[event.position] = unit.evaluate(event)
    if not unit.is_dry_run:
        unit.flush()
    return results


def orders_of_stored(unit: UnitOfWork, accepted: Sequence[TrackedEvent]) -> OrderWork:
    """The orders of events that are stored already, which take ids for theirs only now."""
    items = sum(len(payload.get("items") or ()) for event in accepted if (payload := sent_order(event.event)))
    names = _external_ids(accepted)
    reserved = reserve_ids(unit.execution.db, purchase_orders=len(names), order_items=items)
    return _orders(unit, accepted, names, _allocators(unit, reserved, len(accepted)))


def _orders(
    unit: UnitOfWork, accepted: Sequence[TrackedEvent], stored: Collection[str], ids: Mapping[str, Iterable[int]]
) -> OrderWork:
    """The orders of the events; those with the external ids `stored` may exist.

    Events that are not stored yet get their ids and keys together with the orders.
    """
    new = [event for event in accepted if not event.loyalty_event_id]
    for event, event_id in zip(new, ids["events"], strict=False):
        event.loyalty_event_id, event.key = event_id, unit.execution.new_key()
    return OrderWork(unit.execution, stored, ids["purchase_orders"], ids["order_items"])


def _external_ids(accepted: Iterable[TrackedEvent]) -> set[str]:
    """The external ids of the orders in the payloads of events."""
    return {payload["externalId"] for event in accepted if (payload := sent_order(event.event)) is not None}


def _allocators(unit: UnitOfWork, reserved: Mapping[str, Sequence[int]], events_: int) -> Mapping[str, Any]:
    """Allocators of ids that begin with reserved ones; a dry run stores nothing and takes no ids from the database."""
    tables = ("events", "purchase_orders", "order_items", "ledger_transactions")
    if unit.is_dry_run:
        return {table: repeat(0) for table in tables}
    db, further = unit.execution.db, SPARE_IDS + 4 * events_
    return {table: IdAllocator(db, table, further, reserved.get(table, ())) for table in tables}


def emit(
    call: Call, member: Member, event_type: str, payload: Mapping[str, Any], reason: str | None = None
) -> Mapping[str, Any]:
    """Track an event that the server itself reports of a member, such as `member-created` (integration 6).

    Returns its result in the form of tracking.
    """
    [result] = track(UnitOfWork(call), [reported_event(call, member, event_type, payload, reason)], by_server=True)
    return result.answer


def reported_event(
    call: Call, member: Member, event_type: str, payload: Mapping[str, Any], reason: str | None = None
) -> IncomingEvent:
    """An event that the server itself reports of a member."""
    return IncomingEvent(
        system_unique_key=f"{event_type}-{call.new_key()}",
        event_type=event_type,
        member_id=member.member_id,
        payload=payload,
        reason=reason,
    )
