"""Purchase orders and their items."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.order_history import OrderHistory
from domain.orders import UNDONE, Order, OrderItem, OrderWithItems
from persistence.connections import Prepared, defer, query
from persistence.records import Records
from persistence.rows import add_all, as_json, fields_of
from persistence.tables.events import order_items, purchase_orders

ORDERS = Records(purchase_orders, Order)
ITEMS = Records(order_items, OrderItem)

_MOVE = """
UPDATE purchase_orders o SET status = x.status, returned_total = x.returned_total, event_ids = x.event_ids,
    payments = x.payments, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb)
    AS x(order_id bigint, status text, returned_total numeric, event_ids bigint[], payments jsonb)
WHERE o.organization_id = %s AND o.order_id = x.order_id
"""

_DATES = Prepared(f"""
SELECT member_id, coalesce(external_event_date, created_at) FROM purchase_orders
WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND order_id <> ALL(%s::bigint[])
    AND coalesce(external_event_date, created_at) < %s AND status NOT IN ({", ".join(f"'{s}'" for s in sorted(UNDONE))})
ORDER BY 1, 2
""")

_RETURN_ITEMS = """
UPDATE order_items i SET returned_quantity = x.returned_quantity, returned_total = x.returned_total, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(order_item_id bigint, returned_quantity numeric, returned_total numeric)
WHERE i.organization_id = %s AND i.order_item_id = x.order_item_id
"""


def find_order_history(
    db: Connection, organization_id: int, member_ids: Collection[int], before: datetime, without: Collection[int] = ()
) -> OrderHistory:
    """The orders of members before a moment that were not undone, without those of the given ids."""
    dates: dict[int, list[datetime]] = {}
    for member_id, moment in query(db, _DATES, (organization_id, list(member_ids), list(without), before)):
        dates.setdefault(member_id, []).append(moment)
    return OrderHistory(dates)


def find_items(db: Connection, organization_id: int, order_ids: Collection[int]) -> dict[int, tuple[OrderItem, ...]]:
    """The items of orders, in order, by the order's id."""
    items: dict[int, list[OrderItem]] = {order_id: [] for order_id in order_ids}
    for item in ITEMS.find_where(
        db, organization_id, order_items.c.order_id.in_(list(items)), order=[order_items.c.order_item_id]
    ):
        items[item.order_id].append(item)
    return {order_id: tuple(of_order) for order_id, of_order in items.items()}


def find_by_external_ids(
    db: Connection, organization_id: int, external_ids: Collection[str]
) -> dict[str, OrderWithItems]:
    """The orders with these external ids, with their items in order."""
    orders = ORDERS.find_all(db, organization_id, external_id=external_ids)
    if not orders:
        return {}
    items = find_items(db, organization_id, [order.order_id for order in orders])
    return {order.external_id: (order, items[order.order_id]) for order in orders}


def add_orders(db: Connection, orders: Sequence[Order], items: Sequence[OrderItem]) -> None:
    """Insert orders and items, whose ids were reserved."""
    add_all(db, purchase_orders, fields_of(Order), orders)
    add_all(db, order_items, fields_of(OrderItem), items)


def move_orders(db: Connection, organization_id: int, changed_orders: Iterable[Order], at: datetime) -> None:
    """Store the status of orders, the events that led to it, and their returned and refunded amounts."""
    rows: list[dict[str, Any]] = [
        {
            "order_id": order.order_id,
            "status": order.status,
            "returned_total": order.returned_total,
            "event_ids": order.event_ids,
            "payments": order.payments,
        }
        for order in changed_orders
    ]
    if rows:
        defer(db, _MOVE, (at, as_json(rows), organization_id))


def return_items(db: Connection, organization_id: int, items: Iterable[OrderItem], at: datetime) -> None:
    """Store the returned amounts of items."""
    rows = [
        {
            "order_item_id": order_item.order_item_id,
            "returned_quantity": order_item.returned_quantity,
            "returned_total": order_item.returned_total,
        }
        for order_item in items
    ]
    if rows:
        defer(db, _RETURN_ITEMS, (at, as_json(rows), organization_id))
