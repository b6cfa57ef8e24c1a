"""Quotes, holds, captures, releases and refunds payments with points, which are holds of the ledger with a value."""

from dataclasses import dataclass, replace
from decimal import Decimal

from domain.durations import end_of_validity
from domain.ledger.postings import Details, Fiat
from domain.ledger.records import MAX_AMOUNT, LedgerAccount
from domain.members import Member, refuse_erased, refuse_inactive
from domain.points_payments import (
    CAPTURED,
    DEFAULT_VALIDITY,
    HELD,
    MAX_VALIDITY,
    REFUNDED,
    PointsPayment,
    PointsPaymentView,
    RefundExceedsPayment,
    captured_part,
    new_payment,
    refunded_part,
    refuse_empty_payment,
    refuse_too_many_digits,
    refuse_unheld,
    view_of,
)
from domain.problems import FieldFault, InvalidRequest
from domain.redemptions import Quote, RedemptionPolicy, quote_of, refuse_other_currency
from handlers.call import Call
from handlers.messages.json_text import digest_of
from handlers.services.ledger.holds import find_keys_and_states, find_transaction, hold_points, open_hold
from handlers.services.references import account_of_members_with_key
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import posting
from persistence.points_payments import PAYMENTS

_DESCRIPTION = "Points payment"
_ENTITY = "points-payment"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteRequest:
    """The request for a quote; without `currency` the order is in the organization's currency, if it has one."""

    order_total: Decimal
    currency: str | None = None
    ledger_account_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPayment:
    """The request for a payment of `points` or of a `value`; without `valid_for` it is held for an hour."""

    points: Decimal | None = None
    value: Decimal | None = None
    order_total: Decimal
    currency: str | None = None
    ledger_account_key: str | None = None
    valid_for: str | None = None
    order_external_id: str | None = None
    system_unique_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentCapture:
    """The request to capture `points` of a payment, None for all points."""

    points: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentRefund:
    """The request to refund `points` or a `value` of a payment."""

    points: Decimal | None = None
    value: Decimal | None = None
    system_unique_key: str


def quote_payment(call: Call, member: Member, request: QuoteRequest) -> Quote:
    """Quote the part of an order that the member may pay with points now.

    Raises MemberErased, MemberInactive, UnknownLedgerAccount, RedemptionDisabled or CurrencyMismatch.
    """
    refuse_erased(member)
    refuse_inactive(member)
    account = account_of_members_with_key(call, request.ledger_account_key)
    policy = _policy_of(call, account, request.currency)
    accounts = {account.ledger_account_id: account}
    session = posting.open_session(
        call.db, call.organization, [member.wallet_id], accounts, call.now, accounts, lock=False
    )
    return quote_of(policy, request.order_total, session.holding(member.wallet_id, account.ledger_account_id).available)


def _policy_of(call: Call, account: LedgerAccount, currency: str | None) -> RedemptionPolicy:
    """The redemption policy of an account, for an order in this currency.

    Raises RedemptionDisabled or CurrencyMismatch.
    """
    policy = RedemptionPolicy.of(account)
    refuse_other_currency(policy.currency, currency or call.organization.currency)
    return policy


def create_payment(call: Call, member: Member, request: NewPayment) -> PointsPaymentView:
    """Hold points of the member for an order, until they are captured or released, or time ends the hold.

    The same request under the same key returns the first response. Raises MemberErased, MemberInactive, KeyReused,
    UnknownLedgerAccount, RedemptionDisabled, CurrencyMismatch, what `new_payment` and `end_of_validity` raise,
    InsufficientBalance, CaptureNotSupported or AccountInactive.
    """
    unit = UnitOfWork(call)
    member = unit.lock(member_ids=[member.member_id])[member.member_id]
    refuse_erased(member)
    request_values = [getattr(request, name) for name in request.__slots__ if name != "system_unique_key"]
    digest = digest_of((_ENTITY, member.member_id, *request_values))
    posted_by_key = posting.find_posted(call.db, unit.organization_id, [request.system_unique_key])
    transaction_id = posted_by_key.find(request.system_unique_key, digest)
    if transaction_id is not None:
        return _as_created(call, transaction_id, request)
    refuse_inactive(member)
    account = account_of_members_with_key(call, request.ledger_account_key)
    policy = _policy_of(call, account, request.currency)
    valid_for = request.valid_for or DEFAULT_VALIDITY
    held_until = end_of_validity(valid_for, call.now, call.organization.zone, MAX_VALIDITY)
    terms = new_payment(policy, request.order_total, request.points, request.value)
    if terms.points > MAX_AMOUNT:
        # Only a value can be worth so many points.
        detail = f"value is worth {terms.points} points, more than {MAX_AMOUNT}"
        raise InvalidRequest([FieldFault(detail, pointer="/value")])
    details = Details(
        request.system_unique_key, digest, description=_DESCRIPTION, fiat=Fiat(terms.value, currency=policy.currency)
    )
    transaction_id = hold_points(unit, member, account, terms.points, details, held_until)
    payment = PAYMENTS.add(
        call.db,
        unit.organization_id,
        {
            "points_payment_key": call.new_key(),
            "member_id": member.member_id,
            "ledger_account_id": account.ledger_account_id,
            "ledger_transaction_id": transaction_id,
            "points": terms.points,
            "value": terms.value,
            "currency": policy.currency,
            "points_per_unit": policy.points_per_unit,
            "multiple_of": policy.multiple_of,
            "held_until": held_until,
            "order_external_id": request.order_external_id,
        },
        call.now,
    )
    view = view_payment(call, payment)
    _audit(call, payment, before=None, after=view)
    return view


def _as_created(call: Call, transaction_id: int, request: NewPayment) -> PointsPaymentView:
    """The payment of an earlier request in the state of its first response."""
    organization_id = call.organization.organization_id
    payment = PAYMENTS.find_by(call.db, organization_id, ledger_transaction_id=transaction_id)
    assert payment is not None, transaction_id
    return replace(
        view_payment(call, payment),
        status=HELD,
        points=payment.points,
        value=payment.value,
        refunded_points=Decimal(0),
        refunded_value=Decimal(0),
        order_external_id=request.order_external_id,
        updated_at=payment.created_at,
    )


def view_payment(call: Call, payment: PointsPayment) -> PointsPaymentView:
    """The payment with the state of its hold."""
    keys, states = find_keys_and_states(call, [payment])
    return view_of(payment, keys[payment.ledger_account_id], states[payment.ledger_transaction_id], call.now)


def capture_payment(call: Call, payment: PointsPayment, request: PaymentCapture) -> PointsPaymentView:
    """Burn points that a payment holds, all by default, and release the rest.

    Raises PaymentNotHeld, CaptureExceedsHold, AccountInactive, or InvalidRequest for no points.
    """
    with open_hold(call, payment) as unit:
        before = view_payment(call, payment)
        refuse_unheld(before.status, payment.points_payment_key)
        points = payment.points if request.points is None else request.points
        refuse_empty_payment(points, value=None)
        part = captured_part(payment, points)
        fiat = Fiat(part.value, currency=payment.currency)
        transaction, account = find_transaction(unit, payment)
        unit.ledger.capture(transaction, account, part.points, fiat, amount_field="points")
    return _store_change(call, payment, before)


def release_payment(call: Call, payment: PointsPayment) -> PointsPaymentView:
    """Release the points that a payment holds; raises PaymentNotHeld or AccountInactive."""
    with open_hold(call, payment) as unit:
        before = view_payment(call, payment)
        refuse_unheld(before.status, payment.points_payment_key)
        transaction, account = find_transaction(unit, payment)
        unit.ledger.revert(transaction, account, Details(call.new_key(), description=_DESCRIPTION))
    return _store_change(call, payment, before)


def refund_payment(call: Call, payment: PointsPayment, request: PaymentRefund) -> PointsPaymentView:
    """Refund points, or points for a value, of a captured payment.

    The same request under the same key returns the first response. Raises KeyReused, RefundExceedsPayment,
    AccountInactive, SupplyExceeded, or InvalidRequest.
    """
    digest = digest_of((_ENTITY, payment.points_payment_key, request.points, request.value))
    with open_hold(call, payment) as unit:
        before = view_payment(call, payment)
        posted_by_key = posting.find_posted(call.db, unit.organization_id, [request.system_unique_key])
        transaction_id = posted_by_key.find(request.system_unique_key, digest)
        if transaction_id is not None:
            return _as_refunded(call, payment, transaction_id)
        refuse_empty_payment(request.points, request.value)
        if before.status not in (CAPTURED, REFUNDED):
            raise RefundExceedsPayment(f"The points payment {payment.points_payment_key} is {before.status}.")
        if request.value is not None:
            refuse_too_many_digits(request.value, payment.currency, before.value)
        transaction, account = find_transaction(unit, payment)
        part = refunded_part(payment.rate(account.decimals), before.rest, request.points, request.value)
        details = Details(request.system_unique_key, digest, description=_DESCRIPTION)
        unit.ledger.refund(transaction, account, *part, details)
    return _store_change(call, payment, before)


def _as_refunded(call: Call, payment: PointsPayment, transaction_id: int) -> PointsPaymentView:
    """The payment in the state after the refund with this transaction id."""
    keys, states = find_keys_and_states(call, [payment], transaction_id)
    hold = states[payment.ledger_transaction_id]
    view = view_of(payment, keys[payment.ledger_account_id], hold, call.now)
    is_refunded_in_full = not any(view.rest)
    return replace(
        view,
        status=REFUNDED if is_refunded_in_full else CAPTURED,
        updated_at=hold.returned_at or payment.updated_at,
    )


def _store_change(call: Call, payment: PointsPayment, before: PointsPaymentView) -> PointsPaymentView:
    """Set `updatedAt` of a payment, add an entry to the audit log, and return the payment with its new state."""
    # Nothing else is stored: the status follows from the hold.
    after = view_payment(call, PAYMENTS.store(call.db, payment, {}, call.now))
    _audit(call, payment, before, after)
    return after


def _audit(call: Call, payment: PointsPayment, before: PointsPaymentView | None, after: PointsPaymentView) -> None:
    """Add an entry to the audit log about the member's payment."""
    call.audit.add(
        _ENTITY,
        payment.points_payment_id,
        before=None if before is None else _audited_fields(before),
        after=_audited_fields(after),
        member_ids=(payment.member_id,),
    )


def _audited_fields(view: PointsPaymentView) -> dict[str, object]:
    """The fields of a payment that an audit entry compares."""
    return {
        "status": view.status,
        "points": view.points,
        "value": view.value,
        "currency": view.currency,
        "ledgerAccountKey": view.ledger_account_key,
        "refundedPoints": view.refunded_points,
        "refundedValue": view.refunded_value,
        "orderExternalId": view.order_external_id,
    }
