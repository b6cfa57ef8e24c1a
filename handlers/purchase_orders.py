"""Purchase orders (administration "Purchase orders")."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.members import Member
from domain.orders import Order, OrderWithItems
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed_by_cursor, results
from handlers.messages.orders import order_record
from handlers.operation import operation
from handlers.schemas.purchase_orders import OrderBatch, batch_result, created_order, new_order
from handlers.services.orders import CreatedOrder, NewOrder, create_order, create_orders
from persistence import orders
from persistence.orders import ORDERS
from persistence.paging import Paged


@operation("batchCreatePurchaseOrders", response=results(batch_result))
def batch_create_purchase_orders(call: Call, body: OrderBatch) -> list[CreatedOrder]:
    """Create orders individually; return their outcomes in the order of the request."""
    return create_orders(call, body.orders)


@operation("createPurchaseOrder", body=new_order, response=created_order)
def create_purchase_order(call: Call, member: Member, body: NewOrder) -> CreatedOrder:
    """Create an order of the member."""
    return create_order(call, replace(body, member_id=member.member_id))


@operation("listPurchaseOrders", response=listed_by_cursor(order_record))
def list_purchase_orders(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[OrderWithItems]:
    """A page of the member's orders with their items."""
    page = ORDERS.find_page(call.db, member.organization_id, query, member_id=member.member_id)
    items = orders.find_items(call.db, member.organization_id, [order.order_id for order in page.results])
    return page.with_results([OrderWithItems(order, items[order.order_id]) for order in page.results])


@operation("getPurchaseOrder", response=wrapped("order", order_record))
def get_purchase_order(call: Call, member: Member, order: Order) -> OrderWithItems:
    """One order of the member with its items."""
    items = orders.find_items(call.db, member.organization_id, [order.order_id])
    return OrderWithItems(order, items[order.order_id])
