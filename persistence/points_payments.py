"""Payments with points; the transactions that hold their points are in the ledger."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection

from domain.points_payments import PointsPayment
from persistence.records import Records
from persistence.rows import change_all, update_by_id
from persistence.tables.points_payments import points_payments

PAYMENTS = Records(points_payments, PointsPayment)

_STORE_ORDERS = update_by_id(points_payments, "points_payment_id", "order_external_id", "updated_at")


def store_orders(db: Connection, organization_id: int, orders: Mapping[int, str], at: datetime) -> None:
    """Store the external ids of the orders that have captured payments; `orders` has them by the id of the payment."""
    rows = [
        {"points_payment_id": payment_id, "order_external_id": external_id, "updated_at": at}
        for payment_id, external_id in orders.items()
    ]
    change_all(db, _STORE_ORDERS, organization_id, rows)
