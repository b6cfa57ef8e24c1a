"""Purchase orders, the state machine of their status, and the earlier orders of a member.

Orders are described in the administration interface, "Purchase orders".
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from domain.fields import Personal
from domain.problems import Conflict, NotFound

# The tender of an order's payments that are paid with points.
POINTS = "points"

_EVENT_PREFIX = "member-purchase-order-"
CREATED, CONFIRMED, CANCELLED = "created", "confirmed", "cancelled"
REJECTED, RETURNED, PARTIALLY_RETURNED = "rejected", "returned", "partially-returned"

TRANSITIONS: Mapping[str, frozenset[str]] = {
    CREATED: frozenset({CONFIRMED, CANCELLED, REJECTED}),
    CONFIRMED: frozenset({CANCELLED, RETURNED, PARTIALLY_RETURNED}),
    PARTIALLY_RETURNED: frozenset({PARTIALLY_RETURNED, RETURNED}),
}

# In these states nothing is left of the order, nor of the rewards for it.
UNDONE = frozenset({CANCELLED, REJECTED, RETURNED})

# The order status that events of a type lead to. Looked up, not derived from the type's name: a custom event type may
# begin like an order event.
STATUS_OF_EVENT: Mapping[str, str] = {
    _EVENT_PREFIX + status: status for status in (CREATED, CONFIRMED, CANCELLED, REJECTED, RETURNED, PARTIALLY_RETURNED)
}


@dataclass(frozen=True, slots=True)
class OrderItem:
    """A line of an order."""

    organization_id: int
    order_item_id: int
    order_id: int
    product_code: str | None
    description: Personal[str | None]
    custom_attributes: Personal[Mapping[str, Any]]
    total: Decimal | None
    amount: Decimal | None
    quantity: Decimal | None
    discounted_total: Decimal | None
    sub_total: Decimal | None
    category_code: str | None
    # The returned part of `quantity` and of `total`.
    returned_quantity: Decimal
    returned_total: Decimal
    created_at: datetime
    updated_at: datetime

    @property
    def quantity_left(self) -> Decimal:
        """The quantity that was not returned yet; a line without a quantity counts as one."""
        return (self.quantity or Decimal(1)) - self.returned_quantity

    @property
    def total_left(self) -> Decimal:
        """The part of `total` that was not returned yet; a line without a total counts as zero."""
        return (self.total or Decimal(0)) - self.returned_total

    @property
    def is_returned(self) -> bool:
        """True if nothing of the line is left."""
        return not self.quantity_left or (bool(self.total) and not self.total_left)


@dataclass(frozen=True, slots=True)
class Order:
    """A purchase order, built from its creation event; `returned_total` is the returned part of `total`.

    `currency` is the order's own currency, or else the organization's at its creation.

    `payments` has each tender with the amount that returns have refunded; None if the events do not include payments.

    `event_ids` are the events about the order, the creation first: returns reverse their results in proportion.
    """

    organization_id: int
    order_id: int
    member_id: int
    loyalty_event_id: int
    event_ids: tuple[int, ...]
    loyalty_program_id: int | None
    external_event_date: datetime | None
    external_id: Personal[str]
    description: Personal[str | None]
    custom_attributes: Personal[Mapping[str, Any]]
    type: Personal[str | None]
    tags: Personal[tuple[str, ...]]
    total: Decimal
    currency: str | None
    discounted_total: Decimal | None
    sub_total: Decimal | None
    merchant_id: Personal[str | None]
    payment_method: Personal[str | None]
    location_code: Personal[str | None]
    referral_code: Personal[str | None]
    channel: Personal[str | None]
    coupons: Personal[Mapping[str, Any]]
    payments: Personal[tuple[Mapping[str, Any], ...] | None]
    status: str
    returned_total: Decimal
    created_at: datetime
    updated_at: datetime

    @property
    def money_total(self) -> Decimal:
        """The part of the total that was not paid with points."""
        points_amounts = [Decimal(payment["amount"]) for payment in self.payments or () if payment["tender"] == POINTS]
        return self.total - sum(points_amounts, Decimal(0))

    @property
    def happened_at(self) -> datetime:
        """The date of the order, or else the moment when it was created here."""
        return self.external_event_date or self.created_at


class OrderWithItems(NamedTuple):
    """A purchase order and its items, ordered by id."""

    order: Order
    items: tuple[OrderItem, ...]


class OrderExists(Conflict, title="An order with this externalId exists"):
    """Another order already has the `externalId`."""


class UnknownOrder(NotFound, title="The member has no such order"):
    """The member does not have the order that the event is about."""


class OrderStatusConflict(Conflict, slug="order-status", title="The order's status does not allow this"):
    """The order's status does not allow the reported event."""


class ReturnExceedsOrder(Conflict, title="The return is greater than what is left of the order"):
    """A return names an item that the order does not have, or more of an item than is left."""


# The types of events that undo an order, whole or in part.
UNDOING_EVENTS = frozenset(
    event_type for event_type, status in STATUS_OF_EVENT.items() if status == PARTIALLY_RETURNED or status in UNDONE
)


def event_of_status(status: str) -> str:
    """The type of events that lead an order to a status."""
    return _EVENT_PREFIX + status


def steps_to(status: str) -> tuple[str, ...]:
    """The statuses of a new order, in their sequence, until `status`; raises OrderStatusConflict if there are none."""
    if status == PARTIALLY_RETURNED:
        raise OrderStatusConflict(
            "A new order cannot have the status partially-returned. Create it as confirmed, then send an event of type "
            "member-purchase-order-partially-returned with the returned items."
        )
    if status == RETURNED:
        return CREATED, CONFIRMED, RETURNED
    return (CREATED,) if status == CREATED else (CREATED, status)


def check_transition(status: str, next_status: str) -> None:
    """Refuse a status that cannot follow the present one."""
    if next_status not in TRANSITIONS.get(status, frozenset()):
        raise OrderStatusConflict(f"An order that is {status} cannot become {next_status}.")


@dataclass(frozen=True, slots=True)
class EarlierOrders:
    """The number of orders before a moment, and the date of the last one."""

    count: int = 0
    last_at: datetime | None = None


NO_ORDERS = EarlierOrders()


class OrderHistory:
    """The orders of members that were not undone; `dates` are the sorted dates of each member's orders."""

    def __init__(self, dates: Mapping[int, Sequence[datetime]]) -> None:
        self._dates = dates

    def before(
        self, member_id: int, at: datetime, other_orders: Iterable[Order] = (), own_order_id: int | None = None
    ) -> EarlierOrders:
        """The member's orders before `at`, except `own_order_id`; `other_orders` are orders that `dates` leave out."""
        dates = self._dates.get(member_id, ())
        count = bisect_left(dates, at)
        other_dates = [
            order.happened_at
            for order in other_orders
            if order.member_id == member_id and order.order_id != own_order_id and order.status not in UNDONE
        ]
        other_dates = [moment for moment in other_dates if moment < at]
        return EarlierOrders(
            count + len(other_dates), max([*dates[max(0, count - 1) : count], *other_dates], default=None)
        )
