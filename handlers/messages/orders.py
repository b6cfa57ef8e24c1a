"""The records of purchase orders on the wire (administration "Records": Purchase order)."""

from typing import Any

from domain.orders import OrderWithItems
from handlers.messages.base import Exact, Instant, Plain, Shape, WireSchema


class _Item(WireSchema):
    order_item_id = Plain()
    order_id = Plain()
    product_code = Plain()
    description = Plain()
    custom_attributes = Plain()
    total = Exact()
    amount = Exact()
    quantity = Exact()
    discounted_total = Exact()
    sub_total = Exact()
    category_code = Plain()
    created_at = Instant()
    updated_at = Instant()


class _Order(WireSchema):
    order_id = Plain()
    member_id = Plain()
    external_event_date = Instant()
    external_id = Plain()
    description = Plain()
    loyalty_event_id = Plain()
    organization_id = Plain()
    loyalty_program_id = Plain()
    custom_attributes = Plain()
    type = Plain()
    tags = Plain()
    total = Exact()
    discounted_total = Exact()
    sub_total = Exact()
    merchant_id = Plain()
    payment_method = Plain()
    location_code = Plain()
    referral_code = Plain()
    channel = Plain()
    coupons = Plain()
    status = Plain()
    created_at = Instant()
    updated_at = Instant()


_ITEM = Shape(_Item)
_ORDER = Shape(_Order)


def order_record(order_and_items: OrderWithItems) -> dict[str, Any]:
    """The record of an order with its items."""
    order, items = order_and_items
    return {**_ORDER.dump(order), "items": [_ITEM.dump(item) for item in items]}
