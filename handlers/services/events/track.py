"""Tracks events with all their effects, in a number of statements that does not depend on the number of events.

A batch is one unit of work: lock the members, return the results of events tracked before, evaluate the other events
in order in memory, and flush all changes. A refused event does not affect the other events.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from typing import Any, Protocol, TypeVar

from domain.events import CAPTURE_ONLY, DRY_RUN, FULL, EventOrigin, IncomingEvent
from domain.expressions import Deadline
from domain.members import Member
from domain.orders import CONFIRMED, CREATED, STATUS_OF_EVENT, UNDOING_EVENTS
from handlers.call import Call
from handlers.services.events.intake import Intake
from handlers.services.unit_of_work.evaluation import evaluate_derived, process_event
from handlers.services.unit_of_work.orders import OrderWork, sent_orders
from handlers.services.unit_of_work.reversals import Reversals
from handlers.services.unit_of_work.tracked import Result, TrackedEvent
from handlers.services.unit_of_work.unit import SPARE_IDS, SPARE_IDS_PER_EVENT, UnitOfWork
from persistence import events, reversals
from persistence.events import ExistingAndNewIds
from persistence.rows import IdAllocator, reserve_ids

# Ids for new rows, by table.
Ids = Mapping[str, Iterator[int]]

_SAVEPOINT = "events_tried_out"


def track(
    unit: UnitOfWork,
    incoming_events: Sequence[IncomingEvent],
    *,
    by_server: bool = False,
    origins: Sequence[EventOrigin] | None = None,
    claims_payments: bool = True,
) -> list[Result]:
    """Track events in a unit of work, in their order. Returns a result for each event.

    `by_server` is True for events that only the server itself reports. `origins` has the request of each event, None if
    all belong to that of the execution. `claims_payments` is False if the ids of payments are already claimed.
    """
    members = _lock_members(unit, incoming_events)
    # A dry run neither looks up nor reserves ids.
    stored_and_new_ids = ExistingAndNewIds(keys=(), order_ids=(), ids={})
    if not unit.is_dry_run:
        stored_and_new_ids = _look_up(unit, incoming_events)
    transaction_allocator = _transaction_allocator(unit, stored_and_new_ids.ids, len(incoming_events))
    ids = _ids_of_other_tables(unit, stored_and_new_ids.ids)
    intake = Intake(unit, by_server, origins, claims_payments)
    accepted_events = intake.accept(incoming_events, members, stored_and_new_ids.keys)
    existing_orders = set(stored_and_new_ids.order_ids)
    all_segments = segments(accepted_events) if unit.stores_rewards else [accepted_events]
    for segment in all_segments:
        if segment:
            external_ids = _external_ids(segment)
            # A dry run does not know yet which orders exist, so it looks for all of them.
            orders = _set_ids_and_find_orders(
                unit, segment, external_ids if unit.is_dry_run else external_ids & existing_orders, ids
            )
            intake.results.update(evaluate(unit, segment, orders, transaction_allocator))
            existing_orders |= external_ids
    return intake.all_results()


def try_out(make_unit: Callable[[str], UnitOfWork], incoming_events: Sequence[IncomingEvent]) -> list[Result]:
    """Evaluate events in dry runs; return a result for each event. `make_unit` creates a unit in an execution mode.

    To reverse what an order gave, an event such as a return needs the order in the database. So the events of the
    segments before it are also tracked, within a savepoint that is rolled back.
    """
    all_segments = segments([_SentEvent(event) for event in incoming_events])
    if len(all_segments) == 1:
        return track(make_unit(DRY_RUN), incoming_events)
    results: list[Result] = []
    unit = make_unit(DRY_RUN)
    unit.db.exec_driver_sql(f"SAVEPOINT {_SAVEPOINT}")
    for segment in all_segments:
        if results:
            unit = make_unit(DRY_RUN)
        events = [item.event for item in segment]
        results += track(unit, events)
        # Nothing follows the last segment, so its events are only evaluated.
        if len(results) < len(incoming_events):
            track(make_unit(FULL), events)
    unit.db.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
    return results


def _lock_members(unit: UnitOfWork, incoming_events: Sequence[IncomingEvent]) -> dict[Any, Member]:
    """Lock the members and sponsors of the events; returns them by either id."""
    loyalty_ids: set[str] = set()
    member_ids = members_of_reversals(unit, incoming_events)
    for event in incoming_events:
        if event.loyalty_member_id is not None:
            loyalty_ids.add(event.loyalty_member_id)
        if event.sponsor_loyalty_member_id is not None:
            loyalty_ids.add(event.sponsor_loyalty_member_id)
        if event.member_id is not None:
            member_ids.add(event.member_id)
    return unit.lock(loyalty_ids, member_ids, incoming_events)


@dataclass(frozen=True, slots=True)
class TrackRequest:
    """The events that a call tracks; `campaign_keys` limits the evaluated campaigns, None for all.

    Only a dry run can have a moment `now` of its own, or explain expressions (`is_traced`).
    """

    events: Sequence[IncomingEvent]
    mode: str = FULL
    campaign_keys: Collection[str] | None = None
    now: datetime | None = None
    is_traced: bool = False


@dataclass(frozen=True, slots=True)
class TrackedBatch:
    """The results of the events of a call, in its order."""

    mode: str
    results: Sequence[Result]


def batchable_size(request: TrackRequest) -> int | None:
    """The number of events of a request that can be tracked in a batch with other requests; None if it cannot."""
    is_batchable = request.mode == FULL and not request.is_traced and request.campaign_keys is None
    return len(request.events) if is_batchable else None


def track_requests(calls: Sequence[Call], requests: Sequence[TrackRequest]) -> list[TrackedBatch]:
    """Track the events of all calls in one unit of work.

    Several requests all have the mode `full`, see `batchable_size`.
    """
    first_request = requests[0]
    execution = calls[0] if first_request.now is None else replace(calls[0], now=first_request.now)
    origins = None
    if len(requests) > 1:
        origins = [call.origin for call, request in zip(calls, requests, strict=True) for _ in request.events]

    def make_unit(mode: str) -> UnitOfWork:
        return UnitOfWork(execution, mode, campaign_keys=first_request.campaign_keys, tracing=first_request.is_traced)

    incoming_events = [event for request in requests for event in request.events]
    if first_request.mode == DRY_RUN:
        all_results = try_out(make_unit, incoming_events)
    else:
        all_results = track(make_unit(first_request.mode), incoming_events, origins=origins)
    results = iter(all_results)
    return [TrackedBatch(request.mode, [next(results) for _ in request.events]) for request in requests]


def _look_up(unit: UnitOfWork, incoming_events: Sequence[IncomingEvent]) -> ExistingAndNewIds:
    """Look up which keys and orders of the events are already stored, and reserve ids for new rows."""
    orders = sent_orders(incoming_events)
    return events.find_existing_and_reserve_ids(
        unit.db,
        unit.organization_id,
        {event.system_unique_key for event in incoming_events},
        {order["externalId"] for order in orders},
        events=len(incoming_events),
        purchase_orders=len(orders),
        order_items=_count_items(orders),
        # Most events with effects mint once; further ids are reserved when they are needed.
        ledger_transactions=sum(map(unit.may_have_effect, incoming_events)),
    )


def _count_items(orders: Sequence[Mapping[str, Any]]) -> int:
    return sum([len(order.get("items") or ()) for order in orders])


def members_of_reversals(unit: UnitOfWork, incoming_events: Sequence[IncomingEvent]) -> set[int]:
    """The members who received something from the orders that the events reverse."""
    undoing_events = [event for event in incoming_events if event.event_type in UNDOING_EVENTS]
    external_ids = {order["externalId"] for order in sent_orders(undoing_events)} if undoing_events else set()
    return reversals.find_members_of_orders(unit.db, unit.organization_id, external_ids) if external_ids else set()


class HasEvent(Protocol):
    """An object that has an event."""

    event: IncomingEvent


AnyEvent = TypeVar("AnyEvent", bound=HasEvent)


@dataclass(slots=True)
class _SentEvent:
    event: IncomingEvent


def segments(batch: Sequence[AnyEvent]) -> list[list[AnyEvent]]:
    """Divide a batch, so that the order that an event undoes is stored before the segment with this event begins.

    Only the effects of stored events can be reversed. So an event that undoes an order begins a new segment if its
    segment also creates or confirms this order.
    """
    if not any(item.event.event_type in UNDOING_EVENTS for item in batch):
        return [list(batch)]
    segments_of_batch: list[list[AnyEvent]] = [[]]
    orders_of_segment: set[str] = set()
    for item in batch:
        for order in sent_orders([item.event]):
            external_id = order["externalId"]
            if item.event.event_type in UNDOING_EVENTS and external_id in orders_of_segment:
                segments_of_batch.append([])
                orders_of_segment.clear()
            if STATUS_OF_EVENT[item.event.event_type] in (CREATED, CONFIRMED):
                orders_of_segment.add(external_id)
        segments_of_batch[-1].append(item)
    return segments_of_batch


def evaluate(
    unit: UnitOfWork,
    accepted_events: Sequence[TrackedEvent],
    orders: OrderWork,
    transaction_allocator: IdAllocator | None = None,
    deadline: Deadline | None = None,
) -> dict[int, Result]:
    """Evaluate events of locked members, and flush unless it is a dry run. Returns the results by position.

    After the `deadline`, only the first event is evaluated.
    """
    due_events = unit.open_for_events(
        accepted_events, orders, _reversals_by(unit, accepted_events, orders), transaction_allocator
    )
    evaluate_derived(unit, due_events)
    results: dict[int, Result] = {}
    for event in accepted_events:
        if results and deadline is not None and deadline.has_passed():
            break
        results[event.position] = process_event(unit, event)
    if not unit.is_dry_run:
        unit.flush()
    return results


def _reversals_by(unit: UnitOfWork, accepted_events: Sequence[TrackedEvent], orders: OrderWork) -> Reversals | None:
    """The stored events that these events may reverse: the events of the orders that they undo; None for none."""
    if unit.mode == CAPTURE_ONLY:
        return None
    event_ids: set[int] = set()
    for event in accepted_events:
        if event.order is not None and event.event.event_type in UNDOING_EVENTS:
            order_before = orders.order_before(event.order["externalId"])
            event_ids.update(() if order_before is None else order_before.event_ids)
    return Reversals(unit, event_ids) if event_ids else None


def orders_of_stored(unit: UnitOfWork, accepted_events: Sequence[TrackedEvent]) -> OrderWork:
    """The orders of stored events, ready for the evaluation; reserves the ids of new orders."""
    external_ids = _external_ids(accepted_events)
    items = _count_items([event.order for event in accepted_events if event.order is not None])
    reserved_ids = reserve_ids(unit.db, purchase_orders=len(external_ids), order_items=items)
    return _set_ids_and_find_orders(unit, accepted_events, external_ids, _ids_of_other_tables(unit, reserved_ids))


def _set_ids_and_find_orders(
    unit: UnitOfWork, accepted_events: Sequence[TrackedEvent], existing_external_ids: Collection[str], ids: Ids
) -> OrderWork:
    """Set the ids and keys of new events; return the OrderWork that looks up and stores their orders.

    It looks up only orders with `existing_external_ids`: the other ones do not exist.
    """
    for event in accepted_events:
        if not event.loyalty_event_id:
            event.loyalty_event_id, event.key = next(ids["events"]), unit.new_key()
    return OrderWork(unit.execution, existing_external_ids, ids["purchase_orders"], ids["order_items"])


def _external_ids(accepted_events: Sequence[TrackedEvent]) -> set[str]:
    """The external ids of the orders in the payloads of events."""
    return {event.order["externalId"] for event in accepted_events if event.order is not None}


def _transaction_allocator(
    unit: UnitOfWork, reserved_ids: Mapping[str, Sequence[int]], event_count: int
) -> IdAllocator | None:
    """The allocator of ids for the ledger transactions of so many events; None for a dry run, which stores nothing."""
    if unit.is_dry_run:
        return None
    spare_ids = SPARE_IDS + SPARE_IDS_PER_EVENT * event_count
    return IdAllocator(unit.db, "ledger_transactions", spare_ids, reserved_ids.get("ledger_transactions", ()))


def _ids_of_other_tables(unit: UnitOfWork, reserved_ids: Mapping[str, Sequence[int]]) -> Ids:
    """The reserved ids of events, orders and items; in a dry run, which stores nothing, all ids are 0."""
    tables = ("events", "purchase_orders", "order_items")
    if unit.is_dry_run:
        return dict.fromkeys(tables, repeat(0))
    return {table: iter(reserved_ids.get(table, ())) for table in tables}


def track_by_server(
    call: Call, member: Member, event_type: str, payload: Mapping[str, Any], reason: str
) -> Mapping[str, Any]:
    """Track an event about a member that the server itself reports, such as `member-updated` (integration 6).

    Returns its result in the form of the response of tracking.
    """
    [result] = track(UnitOfWork(call), [reported_event(call, member, event_type, payload, reason)], by_server=True)
    return result.response


def reported_event(
    call: Call, member: Member, event_type: str, payload: Mapping[str, Any], reason: str
) -> IncomingEvent:
    """An event about a member that the server itself reports; `reason` is its cause."""
    return IncomingEvent(
        system_unique_key=f"{event_type}-{call.new_key()}",
        event_type=event_type,
        member_id=member.member_id,
        payload=payload,
        reason=reason,
    )
