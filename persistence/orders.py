"""Purchase orders and their items."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, or_

from domain.ledger.availability import ORDER
from domain.orders import UNDONE, Order, OrderHistory, OrderItem, OrderWithItems
from persistence.connections import fetch_rows
from persistence.member_lookups import AWAITING
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import add_all, as_rows, change_all, fields_of, update_by_id
from persistence.tables.events import order_items, purchase_orders

ORDERS = Records(purchase_orders, Order)
ITEMS = Records(order_items, OrderItem)

_ORDER_FIELDS, _ITEM_FIELDS = fields_of(Order), fields_of(OrderItem)
_CHANGED_COLUMNS = ("order_id", "status", "returned_total", "event_ids", "payments")
_CHANGE_ORDERS = update_by_id(purchase_orders, *_CHANGED_COLUMNS, "updated_at")
_RETURN_COLUMNS = ("order_item_id", "returned_quantity", "returned_total")
_RETURN_ITEMS = update_by_id(order_items, *_RETURN_COLUMNS, "updated_at")

_DATES = Prepared(f"""
SELECT member_id, coalesce(external_event_date, created_at) FROM purchase_orders
WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND order_id <> ALL(%s::bigint[])
    AND coalesce(external_event_date, created_at) < %s AND status NOT IN ({", ".join(f"'{s}'" for s in sorted(UNDONE))})
ORDER BY 1, 2
""")

ERASED_EXTERNAL_ID = "'erased-' || {0}.order_id"
"""The SQL of the external id of an order whose member is erased; the table of orders has the alias `{0}`."""

RENAME_AWAITED_ORDERS = f"""
UPDATE ledger_transactions t SET available_on = jsonb_set(
    t.available_on, '{{{ORDER}}}', CAST('"' || {ERASED_EXTERNAL_ID.format("p")} || '"' AS jsonb)
)
FROM purchase_orders p
WHERE t.available_on ->> '{ORDER}' = p.external_id AND {AWAITING}
"""
"""The SQL by which mints that wait for an event of an order `p` wait for the order with its new external id.

So the events of another member's order with the old external id do not confirm them. Conditions on both organizations
and on the orders follow.
"""

# Orders of erased members lose their external ids, also while a job is still erasing them.
_EXTERNAL_IDS_IN_USE = """
SELECT p.external_id FROM purchase_orders p WHERE p.organization_id = %s AND p.external_id = ANY(%s)
    AND NOT EXISTS (
        SELECT FROM unfinished_erasings u WHERE u.organization_id = %s AND u.member_id = p.member_id
    )
"""
_RENAME_AWAITED_ORDERS_TO_FREE = f"""{RENAME_AWAITED_ORDERS}
    AND t.organization_id = %s AND p.organization_id = %s AND p.external_id = ANY(%s) AND p.member_id IN (
        SELECT u.member_id FROM unfinished_erasings u WHERE u.organization_id = %s
    )
"""
# The events of the order keep its new external id, as they do when the job erases them. Citus does not allow
# json_build_object of a column here; the new external id needs no quoting.
_FREE_EXTERNAL_IDS = f"""
WITH renamed AS (
    UPDATE purchase_orders p SET external_id = {ERASED_EXTERNAL_ID.format("p")}
    FROM unfinished_erasings u
    WHERE p.organization_id = %s AND p.external_id = ANY(%s)
        AND u.organization_id = %s AND u.member_id = p.member_id
    RETURNING p.external_id, p.event_ids
)
UPDATE events e SET payload = CAST('{{"order":{{"externalId":"' || renamed.external_id || '"}}}}' AS json)
FROM renamed WHERE e.organization_id = %s AND e.loyalty_event_id = ANY(renamed.event_ids)
"""


def find_order_history(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    before: datetime,
    excluded_ids: Collection[int] = (),
) -> OrderHistory:
    """The orders of members before a moment, except undone orders and the orders with the `excluded_ids`."""
    dates: dict[int, list[datetime]] = {}
    for member_id, moment in fetch_rows(db, _DATES, (organization_id, list(member_ids), list(excluded_ids), before)):
        dates.setdefault(member_id, []).append(moment)
    return OrderHistory(dates)


def find_items(db: Connection, organization_id: int, order_ids: Collection[int]) -> dict[int, tuple[OrderItem, ...]]:
    """The items of each order, by order id; the items of an order are ordered by item id."""
    items: dict[int, list[OrderItem]] = {order_id: [] for order_id in order_ids}
    for item in ITEMS.find_where(
        db, organization_id, order_items.c.order_id.in_(list(items)), order=[order_items.c.order_item_id]
    ):
        items[item.order_id].append(item)
    return {order_id: tuple(of_order) for order_id, of_order in items.items()}


def find_by_external_ids(
    db: Connection, organization_id: int, external_ids: Collection[str]
) -> dict[str, OrderWithItems]:
    """The orders with these external ids, by external id, each with its items, ordered by id."""
    orders = ORDERS.find_all(db, organization_id, external_id=external_ids)
    if not orders:
        return {}
    items = find_items(db, organization_id, [order.order_id for order in orders])
    return {order.external_id: OrderWithItems(order, items[order.order_id]) for order in orders}


def find_with_payments(db: Connection, order: Order, points_payment_keys: Collection[str]) -> list[Order]:
    """The orders of the member of an order that name one of the payments with points."""
    of_member = purchase_orders.c.member_id == order.member_id
    names_payment = [purchase_orders.c.payments.contains([{"pointsPaymentKey": key}]) for key in points_payment_keys]
    return ORDERS.find_where(db, order.organization_id, of_member, or_(*names_payment))


def find_external_ids_in_use(db: Connection, organization_id: int, external_ids: Collection[str]) -> set[str]:
    """The external ids, among these, that no new order can have.

    Orders that a job is still erasing do not keep their external ids.
    """
    rows = fetch_rows(db, _EXTERNAL_IDS_IN_USE, (organization_id, list(external_ids), organization_id))
    return {external_id for (external_id,) in rows}


def free_external_ids(db: Connection, organization_id: int, external_ids: Collection[str]) -> None:
    """Replace these external ids in the orders that a job is still erasing, so that new orders can have them."""
    values = (organization_id, list(external_ids), organization_id)
    db.exec_driver_sql(_RENAME_AWAITED_ORDERS_TO_FREE, (organization_id, *values))
    db.exec_driver_sql(_FREE_EXTERNAL_IDS, (*values, organization_id))


def add_orders(db: Connection, orders: Sequence[Order], items: Sequence[OrderItem]) -> None:
    """Insert orders and items, whose ids were reserved before."""
    add_all(db, purchase_orders, orders, names=_ORDER_FIELDS)
    add_all(db, order_items, items, names=_ITEM_FIELDS)


def store_order_changes(db: Connection, organization_id: int, changed_orders: Iterable[Order], at: datetime) -> None:
    """Store the statuses of orders, the ids of their events, their returned totals and their payments."""
    change_all(db, _CHANGE_ORDERS, organization_id, as_rows(changed_orders, _CHANGED_COLUMNS, updated_at=at))


def store_returns(db: Connection, organization_id: int, items: Iterable[OrderItem], at: datetime) -> None:
    """Store the returned quantities and totals of items."""
    change_all(db, _RETURN_ITEMS, organization_id, as_rows(items, _RETURN_COLUMNS, updated_at=at))
