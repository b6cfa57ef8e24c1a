"""Payments with points in a unit of work: captured by the event with an order's payments, refunded by returns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from domain.events import AUTHORIZE
from domain.ledger.postings import Details, Fiat, Posting, StoredTransaction
from domain.ledger.records import PENDING, REVERTED, SETTLED, LedgerAccount
from domain.ledger.session.fiat_values import rest_of
from domain.orders import CREATED, POINTS, UNDONE, Order
from domain.points_payments import (
    CAPTURED,
    HELD,
    RELEASED,
    PointsAndValue,
    PointsPayment,
    captured_part_for_value,
    refuse_unheld,
)
from domain.problems import NotFound, Refusal
from domain.redemptions import refuse_other_currency
from domain.tenders import PaidPoints, Payment, TenderRefund, refunds_of, refuse_greater, with_refunds
from handlers.services.unit_of_work.reversals import Participant
from handlers.services.unit_of_work.tracked import TrackedEvent
from persistence import points_payments, posting
from persistence.orders import find_with_payments
from persistence.points_payments import PAYMENTS

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork

_DESCRIPTION = "Points payment"
_STATUSES = {PENDING: HELD, SETTLED: CAPTURED, REVERTED: RELEASED}


class OrderRefund(NamedTuple):
    """An order with new refunds in its payments, these refunds, and their reverts in the ledger."""

    order: Order
    refunds: list[TenderRefund]
    reverts: list[Posting]


class PaymentWork(Participant):
    """The payments with these keys, named by the unit's events or by the orders that existed before them.

    The payments belong to the members of the orders, who are locked. Changes of payments are not reported as events,
    and payments are refunded with their orders, so `reverse` does nothing.
    """

    def __init__(self, unit: UnitOfWork, keys: Collection[str]) -> None:
        self._unit = unit
        payments = PAYMENTS.find_all(unit.db, unit.organization_id, points_payment_key=keys) if keys else []
        self._payments = {payment.points_payment_key: payment for payment in payments}
        self._transactions = posting.find_stored(
            unit.db, unit.organization_id, [payment.ledger_transaction_id for payment in payments]
        )
        # The payments captured since the last flush: the external id of the order by the id of the payment.
        self._orders_to_store: dict[int, str] = {}

    def capture(self, tracked: TrackedEvent, order: Order) -> None:
        """Capture the held payments of an event's order, all or none; in the mode `authorize` only check them.

        The confirmation of an order may name payments again that the order has already captured. Raises NotFound,
        PaymentNotHeld, CurrencyMismatch, AccountInactive, or InvalidRequest for more than a payment is worth.
        """
        ledger = self._unit.ledger
        captured_payments = list[PointsPayment]()
        savepoint = ledger.savepoint()
        try:
            for tender in order.payments or ():
                if tender["tender"] == POINTS and not self._is_repeated(tracked, order, tender):
                    captured_payments.append(self._capture(tracked, order, tender))
        except Refusal:
            ledger.rollback_to(savepoint)
            raise
        if self._unit.mode == AUTHORIZE:
            return
        for payment in captured_payments:
            # Later events of the unit see which order has captured the payment.
            self._payments[payment.points_payment_key] = replace(payment, order_external_id=order.external_id)
            self._orders_to_store[payment.points_payment_id] = order.external_id

    def _is_repeated(self, tracked: TrackedEvent, order: Order, tender: Payment) -> bool:
        """True if an event names a payment that another event of the order has already captured.

        `tender` is the order's entry about the payment. A new order has no other event.
        """
        payment = self._payments.get(tender["pointsPaymentKey"])
        orders = self._unit.orders
        if payment is None or payment.order_external_id != order.external_id:
            return False
        is_new = tracked.order_status == CREATED and (orders is None or orders.order_before(order.external_id) is None)
        return not is_new and self._unit.ledger.status_of(self._transactions[payment.ledger_transaction_id]) == SETTLED

    def _capture(self, tracked: TrackedEvent, order: Order, tender: Payment) -> PointsPayment:
        """Check the payment of one `tender` of an order, capture it unless the mode is `authorize`, and return it."""
        key = tender["pointsPaymentKey"]
        payment = self._payments.get(key)
        if payment is None or payment.member_id != tracked.member.member_id:
            raise NotFound(f"The member has no points payment with the key {key}.")
        ledger = self._unit.ledger
        transaction = self._transactions[payment.ledger_transaction_id]
        refuse_unheld(_STATUSES[ledger.status_of(transaction)], key)
        refuse_other_currency(payment.currency, order.currency)
        refuse_greater(tender, payment.value)
        if self._unit.mode != AUTHORIZE:
            account = self._account_of(payment)
            part = captured_part_for_value(payment, payment.rate(account.decimals), Decimal(tender["amount"]))
            fiat = Fiat(part.value, currency=payment.currency)
            ledger.capture(transaction, account, part.points, fiat, tracked.stored_date(self._unit.now))
        return payment

    def refund(self, tracked: TrackedEvent, order: Order) -> OrderRefund:
        """Refund what an event has returned of an order; if it undoes the order, release the payments still held.

        `order` is the order after the event. Raises AccountInactive or SupplyExceeded.
        """
        other_orders = self._find_other_orders(order)
        payments = {
            key: self._paid_points(key)
            for key in self._keys_of(order)
            if self._status_of(key) == SETTLED and not self._has_paid_other_order(key, order, other_orders)
        }
        refunds = refunds_of(order, payments)
        ledger = self._unit.ledger
        savepoint = ledger.savepoint()
        reverts: list[Posting] = []
        try:
            for tender, refund in zip(order.payments or (), refunds, strict=True):
                key = tender.get("pointsPaymentKey")
                if key in payments and (refund.points or refund.amount):
                    payment = self._payments[key]
                    details = self._details(tracked, key)
                    transaction = self._transactions[payment.ledger_transaction_id]
                    account = self._account_of(payment)
                    points = refund.points or Decimal(0)
                    reverts.append(ledger.refund(transaction, account, points, refund.amount, details))
            if order.status in UNDONE:
                reverts += self._release(tracked, order, other_orders)
        except Refusal:
            ledger.rollback_to(savepoint)
            raise
        return OrderRefund(replace(order, payments=with_refunds(order, refunds)), refunds, reverts)

    def _release(self, tracked: TrackedEvent, order: Order, other_orders: Sequence[Order]) -> list[Posting]:
        """Release the payments of an undone order that are still held, unless another order may still capture them.

        Returns the reverts in the ledger.
        """
        reverts = []
        needed_keys = {key for other in other_orders if other.status not in UNDONE for key in self._keys_of(other)}
        for key in self._keys_of(order):
            if self._status_of(key) == PENDING and key not in needed_keys:
                payment = self._payments[key]
                transaction = self._transactions[payment.ledger_transaction_id]
                account = self._account_of(payment)
                reverts.append(self._unit.ledger.revert(transaction, account, self._details(tracked, key)))
        return reverts

    def _find_other_orders(self, order: Order) -> list[Order]:
        """Find the other orders that name payments which an order has not captured itself, with one statement at most.

        An order that is only captured or authorized leaves its payment held, so that another order can name it, too.
        """
        keys = [
            key
            for key in self._keys_of(order)
            if self._was_captured_for_other_id(key, order)
            or (order.status in UNDONE and self._status_of(key) == PENDING)
        ]
        if not keys:
            return []
        unit = self._unit
        orders = {other.order_id: other for other in find_with_payments(unit.db, order, keys)}
        if unit.orders is not None:
            orders |= {other.order_id: other for other in unit.orders.current_orders}
        orders.pop(order.order_id, None)
        return list(orders.values())

    def _has_paid_other_order(self, key: str, order: Order, other_orders: Sequence[Order]) -> bool:
        """True if an event of another order has captured the payment, which this `order` only names.

        A payment that a request captured may have the external id of no order at all.
        """
        paid_id = self._payments[key].order_external_id
        return self._was_captured_for_other_id(key, order) and any(
            other.external_id == paid_id and key in self._keys_of(other) for other in other_orders
        )

    def _was_captured_for_other_id(self, key: str, order: Order) -> bool:
        """True if the payment was captured for another external id than that of the order."""
        return self._payments[key].order_external_id not in (None, order.external_id)

    def _details(self, tracked: TrackedEvent, key: str) -> Details:
        """The details of the refund of the points payment with this key, caused by an event."""
        return Details(
            f"{tracked.transaction_prefix}:refund-{key}",
            description=_DESCRIPTION,
            external_event_date=tracked.stored_date(self._unit.now),
            loyalty_event_id=tracked.loyalty_event_id,
        )

    def _keys_of(self, order: Order) -> list[str]:
        """The keys of the order's points payments that exist."""
        keys = (tender.get("pointsPaymentKey") for tender in order.payments or ())
        return [key for key in keys if key in self._payments]

    def _status_of(self, key: str) -> int:
        return self._unit.ledger.status_of(self._transactions[self._payments[key].ledger_transaction_id])

    def _account_of(self, payment: PointsPayment) -> LedgerAccount:
        return self._unit.ledger.accounts[payment.ledger_account_id]

    def _paid_points(self, key: str) -> PaidPoints:
        """The rate of a captured payment, the value refunded so far, and the points and the value still paid."""
        payment = self._payments[key]
        ledger = self._unit.ledger
        transaction: StoredTransaction = self._transactions[payment.ledger_transaction_id]
        refunded_value = ledger.fiat_returned_of(transaction)
        paid_value = rest_of(transaction.fiat_value, refunded_value) or Decimal(0)
        still_paid = PointsAndValue(ledger.unreverted_of(transaction), paid_value)
        return PaidPoints(payment.rate(self._account_of(payment).decimals), refunded_value, still_paid)

    def flush(self) -> None:
        """Store which orders have captured the payments."""
        points_payments.store_orders(self._unit.db, self._unit.organization_id, self._orders_to_store, self._unit.now)
        self._orders_to_store = {}
