"""Purchase orders created by request: tracked in one batch as the events that lead to their status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.events import IncomingEvent
from domain.orders import CREATED, OrderExists, OrderWithItems, event_of_status, steps_to
from domain.problems import Refusal
from handlers.call import Call
from handlers.services.events.track import track
from handlers.services.references import unknown_loyalty_program
from handlers.services.unit_of_work.tracked import Result
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import orders
from persistence.orders import ORDERS
from persistence.programs import PROGRAMS


@dataclass(frozen=True, slots=True)
class NewOrder:
    """An order to be created; `payload` is that of its creation event, and the member is given by one of two ids."""

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
    answers: tuple[Mapping[str, Any], ...] = ()
    refusal: Refusal | None = None


def create_order(call: Call, new_order: NewOrder) -> CreatedOrder:
    """Create one order, or raise its refusal."""
    [created] = create_orders(call, [new_order])
    if created.refusal is not None:
        raise created.refusal
    return created


def create_orders(call: Call, new_orders: Sequence[NewOrder]) -> list[CreatedOrder]:
    """Create orders, each on its own, in a fixed number of statements."""
    refusals = _refusals_of(call, new_orders)
    steps = [[] if refusals[at] else _steps(call, new_order) for at, new_order in enumerate(new_orders)]
    # All creations first: later events of any of them then need only one flush before them.
    depth = max((len(step) for step in steps), default=0)
    queue = [(at, step[level]) for level in range(depth) for at, step in enumerate(steps) if level < len(step)]
    by_position: dict[int, list[Result]] = {}
    if queue:
        results = track(UnitOfWork(call), [event for _, event in queue])
        for (at, _), result in zip(queue, results, strict=True):
            by_position.setdefault(at, []).append(result)
    external_ids = [new_orders[at].external_id for at in by_position]
    orders_by_id = (
        orders.find_by_external_ids(call.db, call.organization.organization_id, external_ids) if external_ids else {}
    )
    return [
        CreatedOrder(new_order.external_id, refusal=refusals[at])
        if refusals[at]
        else _outcome(new_order.external_id, by_position[at], orders_by_id)
        for at, new_order in enumerate(new_orders)
    ]


def _outcome(external_id: str, results: Sequence[Result], orders_by_id: Mapping[str, Any]) -> CreatedOrder:
    refusal = next((result.refusal for result in results if result.refusal is not None), None)
    if refusal is not None:
        return CreatedOrder(external_id, refusal=refusal)
    return CreatedOrder(external_id, orders_by_id[external_id], tuple(result.answer for result in results))


def _refusals_of(call: Call, new_orders: Sequence[NewOrder]) -> list[Refusal | None]:
    """The refusals of orders that are refused before anything is tracked, so that nothing of them is stored."""
    organization_id = call.organization.organization_id
    existing_ids = ORDERS.find_values(
        call.db, organization_id, external_id=[new_order.external_id for new_order in new_orders]
    )
    program_ids = {
        new_order.payload["loyaltyProgramId"] for new_order in new_orders if new_order.payload.get("loyaltyProgramId")
    }
    programs = PROGRAMS.find_values(call.db, organization_id, loyalty_program_id=program_ids) if program_ids else set()
    refusals: list[Refusal | None] = []
    for new_order in new_orders:
        program_id = new_order.payload.get("loyaltyProgramId")
        if new_order.external_id in existing_ids:
            refusals.append(OrderExists(f"An order with the externalId {new_order.external_id} already exists."))
        elif program_id is not None and program_id not in programs:
            refusals.append(unknown_loyalty_program(program_id))
        else:
            refusals.append(_wrong_status(new_order.status))
        if refusals[-1] is None:
            existing_ids.add(new_order.external_id)
    return refusals


def _wrong_status(status: str) -> Refusal | None:
    try:
        steps_to(status)
    except Refusal as refusal:
        return refusal
    return None


def _steps(call: Call, new_order: NewOrder) -> list[IncomingEvent]:
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
