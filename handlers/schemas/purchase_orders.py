"""Purchase orders on the wire (administration "Purchase orders")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from marshmallow import fields

from domain.calendar import instant_of
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.base import loaded_items
from handlers.messages.orders import order_record
from handlers.services.orders import CreatedOrder, NewOrder

# Fields of a request that are not fields of the order.
_NOT_OF_THE_ORDER = {"status", "loyaltyMemberId"}


def new_order(body: Mapping[str, Any]) -> NewOrder:
    """An order of a body that the OpenAPI document accepted; raises InvalidRequest for an invalid date."""
    date_text = body.get("externalEventDate")
    try:
        moment = None if date_text is None else instant_of(date_text)
    except ValueError as error:
        fault = FieldFault("externalEventDate is not between the years 1 and 9999", pointer="/externalEventDate")
        raise InvalidRequest([fault]) from error
    return NewOrder(
        external_id=body["externalId"],
        status=body["status"],
        payload={name: value for name, value in body.items() if name not in _NOT_OF_THE_ORDER},
        external_event_date=moment,
        loyalty_member_id=body.get("loyaltyMemberId"),
    )


class _Orders(fields.Field[Any]):
    load = staticmethod(partial(loaded_items, new_order))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBatch:
    """Orders to create individually."""

    orders: Annotated[Sequence[NewOrder], _Orders]


def created_order(created: CreatedOrder) -> dict[str, Any]:
    """The response with a created order and the results of its events; raises the refusal of a refused order."""
    if created.order is None:
        raise created.refusal or ValueError("There is neither an order nor a refusal.")
    return {
        "order": order_record(created.order),
        "evaluationResults": [
            {"systemUniqueKey": result["systemUniqueKey"], "effects": result["effects"]} for result in created.results
        ],
    }


def batch_result(created: CreatedOrder) -> dict[str, Any]:
    """The outcome of one order of a batch: the order in a list of one, or an error."""
    response: dict[str, Any] = {"externalId": created.external_id, "result": []}
    if created.refusal is None:
        response["result"] = [created_order(created)]
    else:
        response["error"] = created.refusal.as_problem()
    return response
