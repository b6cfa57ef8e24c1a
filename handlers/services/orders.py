"""Creates purchase orders by request: tracks the events that lead to their status, in one batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.events import IncomingEvent
from domain.orders import CREATED, OrderExists, OrderWithItems, event_of_status, steps_to
from domain.problems import Refusal
from domain.retries import StartOver
from handlers.call import Call
from handlers.services.events.track import track
from handlers.services.references import unknown_loyalty_program
from handlers.services.unit_of_work.tracked import Result
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import orders
from persistence.programs import PROGRAMS


@dataclass(frozen=True, slots=True)
class NewOrder:
    """An order to be created: `payload` is the order in the payload of its events; one of the two member ids is set."""

    external_id: str
    status: str
    payload: Mapping[str, Any]
    external_event_date: datetime | None = None
    loyalty_member_id: str | None = None
    member_id: int | None = None


@dataclass(frozen=True, slots=True)
class CreatedOrder:
    """The outcome of a new order: the order with the results of its events, or its refusal."""

    external_id: str
    order: OrderWithItems | None = None
    results: tuple[Mapping[str, Any], ...] = ()
    refusal: Refusal | None = None


def create_order(call: Call, new_order: NewOrder) -> CreatedOrder:
    """Create one order, or raise its refusal."""
    [created_order] = create_orders(call, [new_order])
    if created_order.refusal is not None:
        raise created_order.refusal
    return created_order


def create_orders(call: Call, new_orders: Sequence[NewOrder]) -> list[CreatedOrder]:
    """Create orders independently of each other, one after the other; return an outcome for each.

    The number of statements grows only with the orders whose status undoes them, such as `cancelled`, and with those
    that have the `externalId` of an earlier one.
    """
    return [created_order for part in _parts(new_orders) for created_order in _create_part(call, part)]


def _parts(new_orders: Sequence[NewOrder]) -> Iterator[list[NewOrder]]:
    """The orders in parts: an order begins a new part if its part has an order with the same `externalId`.

    Only after the part is it certain whether that order exists, or was refused.
    """
    part: dict[str, NewOrder] = {}
    for new_order in new_orders:
        if new_order.external_id in part:
            yield list(part.values())
            part = {}
        part[new_order.external_id] = new_order
    yield list(part.values())


def _create_part(call: Call, new_orders: Sequence[NewOrder]) -> list[CreatedOrder]:
    """Create orders with different `externalId`s; return an outcome for each."""
    refusals = _refusals_of(call, new_orders)
    positions_and_events = [
        (position, order_event)
        for position, new_order in enumerate(new_orders)
        if refusals[position] is None
        for order_event in _events_of(call, new_order)
    ]
    results_by_position: dict[int, list[Result]] = {}
    if positions_and_events:
        results = track(UnitOfWork(call), [event for _, event in positions_and_events])
        for (position, _), result in zip(positions_and_events, results, strict=True):
            results_by_position.setdefault(position, []).append(result)
        if any(isinstance(result.refusal, OrderExists) for result in results):
            # Only the first event was refused: later ones were about the order of the other transaction. Undo these.
            raise StartOver("Another transaction has created an order with the same externalId.")
    external_ids = [new_orders[position].external_id for position in results_by_position]
    orders_by_external_id: Mapping[str, OrderWithItems] = {}
    if external_ids:
        orders_by_external_id = orders.find_by_external_ids(call.db, call.organization.organization_id, external_ids)
    created_orders = []
    for position, new_order in enumerate(new_orders):
        if refusals[position] is None:
            outcome = _outcome(new_order.external_id, results_by_position[position], orders_by_external_id)
        else:
            outcome = CreatedOrder(new_order.external_id, refusal=refusals[position])
        created_orders.append(outcome)
    return created_orders


def _outcome(
    external_id: str, results: Sequence[Result], orders_by_external_id: Mapping[str, OrderWithItems]
) -> CreatedOrder:
    """The first refusal of the events of an order, or the order with the results of the events."""
    refusal = next((result.refusal for result in results if result.refusal is not None), None)
    if refusal is not None:
        return CreatedOrder(external_id, refusal=refusal)
    return CreatedOrder(external_id, orders_by_external_id[external_id], tuple(result.response for result in results))


def _refusals_of(call: Call, new_orders: Sequence[NewOrder]) -> list[Refusal | None]:
    """The refusal of each order that must be refused before its events are stored; None for all others."""
    organization_id = call.organization.organization_id
    existing_ids = orders.find_external_ids_in_use(
        call.db, organization_id, [new_order.external_id for new_order in new_orders]
    )
    program_ids = {
        new_order.payload["loyaltyProgramId"] for new_order in new_orders if new_order.payload.get("loyaltyProgramId")
    }
    existing_program_ids = set()
    if program_ids:
        existing_program_ids = PROGRAMS.find_values(call.db, organization_id, loyalty_program_id=program_ids)
    refusals: list[Refusal | None] = []
    for new_order in new_orders:
        program_id = new_order.payload.get("loyaltyProgramId")
        if new_order.external_id in existing_ids:
            refusals.append(OrderExists(f"An order with the externalId {new_order.external_id} already exists."))
        elif program_id is not None and program_id not in existing_program_ids:
            refusals.append(unknown_loyalty_program(program_id))
        else:
            refusals.append(_refusal_of_status(new_order.status))
    return refusals


def _refusal_of_status(status: str) -> Refusal | None:
    """The refusal of a status with which no order can be created; None for others."""
    try:
        steps_to(status)
    except Refusal as refusal:
        return refusal
    return None


def _events_of(call: Call, new_order: NewOrder) -> list[IncomingEvent]:
    """The events that lead to the status of a new order, first its creation."""
    return [
        IncomingEvent(
            system_unique_key=f"purchase-order-{status}-{call.new_key()}",
            event_type=event_of_status(status),
            loyalty_member_id=new_order.loyalty_member_id,
            member_id=new_order.member_id,
            external_id=new_order.external_id,
            payload={"order": new_order.payload if status == CREATED else {"externalId": new_order.external_id}},
            external_event_date=new_order.external_event_date,
        )
        for status in steps_to(new_order.status)
    ]
