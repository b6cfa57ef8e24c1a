"""The earlier orders of members, as expressions see them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from domain.members import Member
from domain.order_history import NO_ORDERS, EarlierOrders, OrderHistory
from domain.orders import Order
from persistence import orders

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


def load_order_history(unit: UnitOfWork) -> OrderHistory:
    """Load the orders of the members, except the orders of the unit's events."""
    stored_ids = () if unit.orders is None else unit.orders.stored_ids
    return orders.find_order_history(unit.db, unit.organization_id, unit.members, max(unit.moments), stored_ids)


def orders_before(unit: UnitOfWork, member: Member | None, at: datetime, own: Order | None = None) -> EarlierOrders:
    """The orders of a member before a moment, without the order that an event itself is about; none of nobody."""
    if member is None:
        return NO_ORDERS
    others = () if unit.orders is None else unit.orders.present
    return unit.order_history.before(member.member_id, at, others, None if own is None else own.order_id)
