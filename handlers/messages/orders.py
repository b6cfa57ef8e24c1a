"""The records of purchase orders on the wire (administration "Records": Purchase order)."""

from typing import Any

from domain.orders import Order, OrderItem, OrderWithItems
from handlers.messages.base import Shape

_ITEM = Shape(OrderItem, without=("organization_id", "returned_quantity", "returned_total"))
_ORDER = Shape(Order, without=("event_ids", "returned_total"), optional=("payments",))

# Fields of payments that events may leave out, with their values in responses.
_PAYMENT_DEFAULTS = {"pointsPaymentKey": None, "reference": None, "refundedAmount": 0}


def order_record(order_with_items: OrderWithItems) -> dict[str, Any]:
    """The record of an order with its items."""
    order, items = order_with_items
    record = {**_ORDER.dump(order), "items": [_ITEM.dump(item) for item in items]}
    if order.payments is not None:
        record["payments"] = [{**_PAYMENT_DEFAULTS, **payment} for payment in order.payments]
    return record
