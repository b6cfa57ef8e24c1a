"""Purchase orders and their items."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from domain.members import Member
from domain.orders import Order, OrderItem, OrderWithItems
from persistence.connections import Prepared, defer, query
from persistence.paging import Page, Paged, paged
from persistence.rows import add_all, as_json, columns_of, fields_of, record, records
from persistence.tables.events import order_items, purchase_orders
from persistence.tables.programs import loyalty_programs

ORDER_COLUMNS = {
    "orderId": purchase_orders.c.order_id,
    "externalId": purchase_orders.c.external_id,
    "externalEventDate": purchase_orders.c.external_event_date,
    "total": purchase_orders.c.total,
    "status": purchase_orders.c.status,
    "createdAt": purchase_orders.c.created_at,
    "updatedAt": purchase_orders.c.updated_at,
}

_BY_EXTERNAL_IDS = Prepared(f"""
SELECT {", ".join(fields_of(Order))} FROM purchase_orders WHERE organization_id = %s AND external_id = ANY(%s)
""")

_MOVE = """
UPDATE purchase_orders o SET status = x.status, returned_total = x.returned_total, event_ids = x.event_ids,
    updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(order_id bigint, status text, returned_total numeric, event_ids bigint[])
WHERE o.organization_id = %s AND o.order_id = x.order_id
"""

_RETURN_ITEMS = """
UPDATE order_items i SET returned_quantity = x.returned_quantity, returned_total = x.returned_total, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(order_item_id bigint, returned_quantity numeric, returned_total numeric)
WHERE i.organization_id = %s AND i.order_item_id = x.order_item_id
"""


def find(db: Connection, organization_id: int, order_id: int) -> Order | None:
    """The order with this id."""
    row = db.execute(
        select(*columns_of(purchase_orders, Order)).where(
            purchase_orders.c.organization_id == organization_id, purchase_orders.c.order_id == order_id
        )
    ).one_or_none()
    return record(Order, row)


def find_page_of_member(db: Connection, member: Member, page: Page) -> Paged[Order]:
    """A page of a member's orders."""
    conditions = [
        purchase_orders.c.organization_id == member.organization_id,
        purchase_orders.c.member_id == member.member_id,
    ]
    return paged(db, Order, purchase_orders, conditions, page, purchase_orders.c.order_id, ORDER_COLUMNS)


def known_external_ids(db: Connection, organization_id: int, external_ids: Collection[str]) -> set[str]:
    """The given external ids that belong to orders."""
    column = purchase_orders.c.external_id
    mine = purchase_orders.c.organization_id == organization_id
    return set(db.execute(select(column).where(mine, column.in_(list(external_ids)))).scalars())


def known_programs(db: Connection, organization_id: int, program_ids: Collection[int]) -> set[int]:
    """The given loyalty programs that the organization has."""
    column = loyalty_programs.c.loyalty_program_id
    mine = loyalty_programs.c.organization_id == organization_id
    return set(db.execute(select(column).where(mine, column.in_(list(program_ids)))).scalars())


def find_items(db: Connection, organization_id: int, order_ids: Collection[int]) -> dict[int, tuple[OrderItem, ...]]:
    """The items of orders, in order, by the order's id."""
    items: dict[int, list[OrderItem]] = {order_id: [] for order_id in order_ids}
    rows = db.execute(
        select(*columns_of(order_items, OrderItem))
        .where(order_items.c.organization_id == organization_id, order_items.c.order_id.in_(list(items)))
        .order_by(order_items.c.order_item_id)
    )
    for item in records(OrderItem, rows):
        items[item.order_id].append(item)
    return {order_id: tuple(of_order) for order_id, of_order in items.items()}


def find_by_external_ids(
    db: Connection, organization_id: int, external_ids: Collection[str]
) -> dict[str, OrderWithItems]:
    """The orders with these external ids, with their items in order."""
    orders = [Order(*row) for row in query(db, _BY_EXTERNAL_IDS, (organization_id, list(external_ids)))]
    if not orders:
        return {}
    items = find_items(db, organization_id, [order.order_id for order in orders])
    return {order.external_id: (order, items[order.order_id]) for order in orders}


def add_orders(db: Connection, orders: Sequence[Order], items: Sequence[OrderItem]) -> None:
    """Insert orders and items, whose ids were reserved."""
    add_all(db, purchase_orders, fields_of(Order), orders)
    add_all(db, order_items, fields_of(OrderItem), items)


def move_orders(db: Connection, organization_id: int, moved: Iterable[Order], at: datetime) -> None:
    """Store the status of orders, the events that led to it, and their returned amounts."""
    rows: list[dict[str, Any]] = [
        {
            "order_id": order.order_id,
            "status": order.status,
            "returned_total": order.returned_total,
            "event_ids": order.event_ids,
        }
        for order in moved
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
