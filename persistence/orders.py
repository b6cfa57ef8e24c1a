"""Purchase orders and their items."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from domain.orders import Order, OrderItem
from persistence.rows import add_all, as_json, columns_of, fields_of, records
from persistence.tables.events import order_items, purchase_orders

_MOVE = """
UPDATE purchase_orders o SET status = x.status, returned_total = x.returned_total, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(order_id bigint, status text, returned_total numeric)
WHERE o.organization_id = %s AND o.order_id = x.order_id
"""


def find_by_external_ids(
    db: Connection, organization_id: int, external_ids: Collection[str]
) -> dict[str, tuple[Order, tuple[OrderItem, ...]]]:
    """The orders with these external ids, with their items in order."""
    found = records(
        Order,
        db.execute(
            select(*columns_of(purchase_orders, Order)).where(
                purchase_orders.c.organization_id == organization_id,
                purchase_orders.c.external_id.in_(list(external_ids)),
            )
        ),
    )
    if not found:
        return {}
    items: dict[int, list[OrderItem]] = {order.order_id: [] for order in found}
    for item in records(
        OrderItem,
        db.execute(
            select(*columns_of(order_items, OrderItem))
            .where(order_items.c.organization_id == organization_id, order_items.c.order_id.in_(list(items)))
            .order_by(order_items.c.order_item_id)
        ),
    ):
        items[item.order_id].append(item)
    return {order.external_id: (order, tuple(items[order.order_id])) for order in found}


def add_orders(db: Connection, orders: Sequence[Order], items: Sequence[OrderItem]) -> None:
    """Insert orders and items, whose ids were reserved."""
    add_all(db, purchase_orders, fields_of(Order), orders)
    add_all(db, order_items, fields_of(OrderItem), items)


def move_orders(db: Connection, organization_id: int, moved: Iterable[Order], at: datetime) -> None:
    """Store the status of orders and what came back of them."""
    rows = [{"order_id": o.order_id, "status": o.status, "returned_total": o.returned_total} for o in moved]
    if rows:
        db.exec_driver_sql(_MOVE, (at, as_json(rows), organization_id))
