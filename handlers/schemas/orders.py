"""Purchase orders on the wire (administration "Purchase orders")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.calendar import instant_of
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.orders import order_record
from handlers.services.orders.create import CreatedOrder, NewOrder

_NOT_OF_THE_ORDER = {"status", "loyaltyMemberId"}


def new_order(body: Mapping[str, Any], pointer: str = "", member_id: int | None = None) -> NewOrder:
    """An order of a body that the document accepted; raises InvalidRequest for an invalid date."""
    dated = body.get("externalEventDate")
    try:
        moment = None if dated is None else instant_of(dated)
    except ValueError as error:
        fault = FieldFault(
            "externalEventDate is not between the years 1 and 9999", pointer=f"{pointer}/externalEventDate"
        )
        raise InvalidRequest([fault]) from error
    return NewOrder(
        external_id=body["externalId"],
        status=body["status"],
        payload={name: value for name, value in body.items() if name not in _NOT_OF_THE_ORDER},
        external_event_date=moment,
        loyalty_member_id=body.get("loyaltyMemberId"),
        member_id=member_id,
    )


def new_orders(bodies: list[Mapping[str, Any]]) -> list[NewOrder]:
    """Orders of bodies that the document accepted; raises InvalidRequest naming every invalid date."""
    loaded: list[NewOrder] = []
    faults: list[FieldFault] = []
    for index, body in enumerate(bodies):
        try:
            loaded.append(new_order(body, f"/orders/{index}"))
        except InvalidRequest as refusal:
            faults += refusal.faults
    if faults:
        raise InvalidRequest(faults)
    return loaded


def created_order(created: CreatedOrder) -> dict[str, Any]:
    """A created order with the results of its events; raises its refusal if there is one."""
    if created.order is None:
        raise created.refusal or ValueError("There is neither an order nor a refusal.")
    return {
        "order": order_record(created.order),
        "evaluationResults": [
            {"systemUniqueKey": answer["systemUniqueKey"], "effects": answer["effects"]} for answer in created.answers
        ],
    }


def batch_result(created: CreatedOrder) -> dict[str, Any]:
    """The outcome of one order of a batch."""
    answer: dict[str, Any] = {"externalId": created.external_id, "result": []}
    if created.refusal is None:
        answer["result"] = [created_order(created)]
    else:
        answer["error"] = created.refusal.as_problem()
    return answer
