"""Purchase orders from events: the first event of an order creates it, later events change its status."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from domain.calendar import instant_of
from domain.currencies import CurrencyMismatch
from domain.events import IncomingEvent, PayloadMissing
from domain.orders import (
    CANCELLED,
    CONFIRMED,
    CREATED,
    PARTIALLY_RETURNED,
    RETURNED,
    STATUS_OF_EVENT,
    TRANSITIONS,
    UNDONE,
    Order,
    OrderExists,
    OrderItem,
    OrderStatusConflict,
    OrderWithItems,
    UnknownOrder,
    check_transition,
)
from domain.returns import order_after_return
from domain.reversals import WHOLE, Extent
from domain.tenders import checked_payments, refuse_other_payments
from domain.triggers import CREATED as CREATED_ENTITY
from domain.triggers import PURCHASE_ORDER
from domain.triggers import UPDATED as UPDATED_ENTITY
from handlers.call import Execution
from handlers.messages.orders import order_record
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.tracked import TrackedEvent
from handlers.services.webhooks.outbox import queue_entities
from persistence import orders

# The statuses whose events can define how the order is paid.
PAYMENT_STATUSES = frozenset({CREATED, CONFIRMED})

# Fields of an order that are stored as sent: the field of the record by the field of the payload.
_COPIED_FIELDS = {
    "description": "description",
    "type": "type",
    "merchantId": "merchant_id",
    "paymentMethod": "payment_method",
    "locationCode": "location_code",
    "referralCode": "referral_code",
    "channel": "channel",
    "loyaltyProgramId": "loyalty_program_id",
}


def sent_orders(incoming_events: Iterable[IncomingEvent]) -> list[Mapping[str, Any]]:
    """The orders in the payloads of events that are about orders and have one."""
    return [
        order
        for event in incoming_events
        if event.event_type in STATUS_OF_EVENT and (order := (event.payload or {}).get("order")) is not None
    ]


class OrderWork:
    """The orders that the events of a batch are about: the existing ones, the new ones, and the changed ones.

    `order_ids` and `item_ids` are reserved ids for new orders and items.
    """

    def __init__(
        self,
        execution: Execution,
        external_ids: Iterable[str],
        order_ids: Iterable[int] = (),
        item_ids: Iterable[int] = (),
    ) -> None:
        self._execution = execution
        self._db = execution.db
        self._organization_id = execution.organization.organization_id
        self._default_currency = execution.organization.currency
        self._at = execution.now
        self._is_quiet = execution.is_quiet
        self._order_ids = iter(order_ids)
        self._item_ids = iter(item_ids)
        distinct_ids = set(external_ids)
        self._orders: dict[str, OrderWithItems] = (
            orders.find_by_external_ids(self._db, self._organization_id, distinct_ids) if distinct_ids else {}
        )
        # The external ids of the orders that existed before the batch.
        self._existing_ids = set(self._orders)
        # The external ids that new orders take over from orders of erased members, which a job has not erased yet.
        self._ids_to_free: set[str] = set()
        self._changed_orders: dict[int, Order] = {}
        self._returned_items: dict[int, OrderItem] = {}

    def order_before(self, external_id: str) -> Order | None:
        """The order with this external id if it existed before the batch, else None."""
        return self._orders[external_id].order if external_id in self._existing_ids else None

    @property
    def referral_codes(self) -> set[str]:
        """The referral codes with which the existing orders were created."""
        return {order.referral_code for order in self._existing_orders if order.referral_code is not None}

    def payment_keys(self, events: Iterable[TrackedEvent]) -> frozenset[str]:
        """The keys of the points payments that these events or their existing orders name."""
        payments: list[Mapping[str, Any]] = []
        for event in events:
            if event.order is not None and event.order_status in PAYMENT_STATUSES:
                payments += event.order.get("payments") or ()
        payments += [payment for order in self._existing_orders for payment in order.payments or ()]
        return frozenset([key.lower() for payment in payments if (key := payment.get("pointsPaymentKey"))])

    def changed_by(self, tracked: TrackedEvent) -> OrderWithItems | None:
        """The order after an event; None for an event that is about no order. Raises the conflicts of `domain.orders`.

        The caller passes the order to `set_order` as soon as nothing can refuse the event any more.
        """
        payload, status = tracked.order, tracked.order_status
        if payload is None or status is None:
            return None
        event_type = tracked.event.event_type
        if payload.get("status", status) != status:
            raise OrderStatusConflict(
                f"order.status is {payload['status']}, but an event of type {event_type} needs {status}, or no status."
            )
        external_id = payload["externalId"]
        order_before = self._orders.get(external_id)
        if status == CREATED:
            if order_before is not None and not self._forget_if_erased(external_id):
                raise OrderExists(f"An order with the externalId {external_id} already exists.")
            if payload.get("total") is None:
                raise PayloadMissing("A new order needs payload.order.total.")
            return self._new_order(payload, tracked)
        if order_before is None or order_before.order.member_id != tracked.member.member_id:
            raise UnknownOrder(f"The member has no order with the externalId {external_id}.")
        check_transition(order_before.order.status, status)
        _refuse_other_currency(order_before.order, payload)
        return _order_with_status(order_before, status, payload, tracked.loyalty_event_id)

    def set_order(self, order_with_items: OrderWithItems) -> None:
        """Set the order to the value that `changed_by` or `cancelled_order` returned; `flush` stores it."""
        order, items = order_with_items
        self._orders[order.external_id] = order_with_items
        if order.external_id in self._existing_ids:
            self._changed_orders[order.order_id] = order
            for item in items:
                if item.returned_total or item.returned_quantity:
                    self._returned_items[item.order_item_id] = item

    def cancelled_order(self, external_id: str, loyalty_event_id: int) -> OrderWithItems | None:
        """The order that an event created, after the cancellation of this event; the caller passes it to `set_order`.

        It becomes CANCELLED; an order that was returned in part keeps its status. None if the event did not create this
        order, or if there is nothing to change or to refund.
        """
        order_with_items = self._orders.get(external_id)
        if order_with_items is None:
            return None
        order, items = order_with_items
        if order.loyalty_event_id != loyalty_event_id:
            return None
        if CANCELLED in TRANSITIONS.get(order.status, frozenset()):
            return OrderWithItems(replace(order, status=CANCELLED), items)
        return order_with_items if order.status == PARTIALLY_RETURNED and order.payments else None

    def events_cancelled_with(self, external_id: str, loyalty_event_id: int) -> list[int]:
        """The events of the order that an event created, newest first; only this event if it created none."""
        order = self.order_before(external_id)
        if order is None or order.loyalty_event_id != loyalty_event_id:
            return [loyalty_event_id]
        return [*reversed(order.event_ids)]

    @property
    def _existing_orders(self) -> list[Order]:
        """The orders that existed before the batch, in their current state."""
        return [self._orders[external_id].order for external_id in self._existing_ids]

    @property
    def stored_ids(self) -> list[int]:
        """The ids of the orders that existed before the batch and that its events are about."""
        return [order.order_id for order in self._existing_orders]

    @property
    def current_orders(self) -> Iterator[Order]:
        """The orders that the events of the batch are about, in their current state."""
        return (order for order, _ in self._orders.values())

    def flush(self, configuration: Configuration) -> None:
        """Store the new and the changed orders, and queue messages about them for the triggers that listen."""
        new_orders = [
            order_with_items
            for external_id, order_with_items in self._orders.items()
            if external_id not in self._existing_ids
        ]
        if self._ids_to_free:
            orders.free_external_ids(self._db, self._organization_id, self._ids_to_free)
        if new_orders:
            new_items = [item for _, items in new_orders for item in items]
            orders.add_orders(self._db, [order for order, _ in new_orders], new_items)
        if self._changed_orders:
            orders.store_order_changes(self._db, self._organization_id, self._changed_orders.values(), self._at)
            orders.store_returns(self._db, self._organization_id, self._returned_items.values(), self._at)
        subscriptions = () if self._is_quiet else configuration.subscriptions
        if subscriptions and any(subscription.includes_entity(PURCHASE_ORDER) for subscription in subscriptions):
            changes = [(CREATED_ENTITY, order_record(order_with_items)) for order_with_items in new_orders]
            for order in self._changed_orders.values():
                items = self._orders[order.external_id].items
                stored_order = OrderWithItems(replace(order, updated_at=self._at), items)
                changes.append((UPDATED_ENTITY, order_record(stored_order)))
            queue_entities(self._execution, configuration, PURCHASE_ORDER, changes)

    @cached_property
    def _ids_in_use(self) -> set[str]:
        """The external ids of existing orders that no new order can have; looked up once for the batch."""
        return orders.find_external_ids_in_use(self._db, self._organization_id, self._existing_ids)

    def _forget_if_erased(self, external_id: str) -> bool:
        """Forget an existing order whose member is erased, so that another order can have its external id.

        Returns False for any other order.
        """
        if external_id not in self._existing_ids:
            return False
        if external_id in self._ids_in_use:
            return False
        del self._orders[external_id]
        self._existing_ids.remove(external_id)
        self._ids_to_free.add(external_id)
        return True

    def _new_order(self, payload: Mapping[str, Any], tracked: TrackedEvent) -> OrderWithItems:
        """The order that an event creates, and its items; `payload` is the `order` of the event's payload."""
        total = Decimal(payload["total"])
        own_date = payload.get("externalEventDate")
        order = Order(
            organization_id=self._organization_id,
            order_id=next(self._order_ids),
            member_id=tracked.member.member_id,
            loyalty_event_id=tracked.loyalty_event_id,
            event_ids=(tracked.loyalty_event_id,),
            external_event_date=tracked.event.external_event_date if own_date is None else instant_of(own_date),
            external_id=payload["externalId"],
            custom_attributes=payload.get("customAttributes") or {},
            tags=tuple(payload.get("tags") or ()),
            total=total,
            currency=payload.get("currency") or self._default_currency,
            discounted_total=_decimal(payload.get("discountedTotal")),
            sub_total=_decimal(payload.get("subTotal")),
            coupons=payload.get("coupons") or {},
            payments=_payments_of(payload, total),
            status=CREATED,
            returned_total=Decimal(0),
            created_at=self._at,
            updated_at=self._at,
            **{name: payload.get(wire) for wire, name in _COPIED_FIELDS.items()},
        )
        items = tuple(self._new_item(order.order_id, item) for item in payload.get("items") or ())
        return OrderWithItems(order, items)

    def _new_item(self, order_id: int, payload: Mapping[str, Any]) -> OrderItem:
        """An item of a new order, from its form in the payload of the event; nothing of it is returned yet."""
        return OrderItem(
            organization_id=self._organization_id,
            order_item_id=next(self._item_ids),
            order_id=order_id,
            product_code=payload.get("productCode"),
            description=payload.get("description"),
            custom_attributes=payload.get("customAttributes") or {},
            total=_decimal(payload.get("total")),
            amount=_decimal(payload.get("amount")),
            quantity=_decimal(payload.get("quantity")),
            discounted_total=_decimal(payload.get("discountedTotal")),
            sub_total=_decimal(payload.get("subTotal")),
            category_code=payload.get("categoryCode"),
            returned_quantity=Decimal(0),
            returned_total=Decimal(0),
            created_at=self._at,
            updated_at=self._at,
        )


def _order_with_status(
    order_before: OrderWithItems, status: str, payload: Mapping[str, Any], loyalty_event_id: int
) -> OrderWithItems:
    """The order after an event that sets this `status`."""
    order, items = order_before
    if status == PARTIALLY_RETURNED:
        return order_after_return(order, items, payload)
    if status == RETURNED:
        return OrderWithItems(replace(order, status=status, returned_total=order.total), items)
    if status == CONFIRMED:
        event_ids = (*order.event_ids, loyalty_event_id)
        payments = _payments_of(payload, order.total)
        if payments is not None and order.payments is not None:
            refuse_other_payments(order, payments)
        confirmed_order = replace(order, status=status, event_ids=event_ids, payments=order.payments or payments)
        return OrderWithItems(confirmed_order, items)
    return OrderWithItems(replace(order, status=status), items)


def _refuse_other_currency(order: Order, payload: Mapping[str, Any]) -> None:
    """Refuse a later event whose currency differs from that of its order; an order without one accepts any."""
    currency = payload.get("currency")
    if None not in (currency, order.currency) and currency != order.currency:
        raise CurrencyMismatch(f"The order {order.external_id} is in {order.currency}, the event names {currency}.")


def _payments_of(payload: Mapping[str, Any], total: Decimal) -> tuple[Mapping[str, Any], ...] | None:
    """The payments that an event names for an order of this total, None for none; raises InvalidRequest."""
    payments = payload.get("payments")
    return None if payments is None else checked_payments(payments, total)


def _decimal(value: Any) -> Decimal | None:
    return None if value is None else Decimal(value)


def extent_to_reverse(order: Order) -> Extent | None:
    """How much of the events of an order has to be reversed for its status; None if nothing has to be."""
    if order.status in UNDONE:
        return WHOLE
    return Extent.part(order.returned_total, order.total) if order.status == PARTIALLY_RETURNED else None
