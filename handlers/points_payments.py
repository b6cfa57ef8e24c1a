"""Points payments: the part of an order that a member pays with points."""

from domain.members import Member
from domain.points_payments import PointsPayment, PointsPaymentView
from domain.redemptions import Quote
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.operation import operation
from handlers.schemas.points_payments import PAYMENT, QUOTE
from handlers.services.ledger.points_payments import (
    NewPayment,
    PaymentCapture,
    PaymentRefund,
    QuoteRequest,
    capture_payment,
    create_payment,
    quote_payment,
    refund_payment,
    release_payment,
    view_payment,
)

_PAYMENT_RESPONSE = wrapped("pointsPayment", PAYMENT)


@operation("quotePointsPayment", response=QUOTE.dump)
def quote_points_payment(call: Call, member: Member, body: QuoteRequest) -> Quote:
    """Quote the part of an order that the member may pay with points now."""
    return quote_payment(call, member, body)


@operation("createPointsPayment", response=_PAYMENT_RESPONSE, audit="points-payment")
def create_points_payment(call: Call, member: Member, body: NewPayment) -> PointsPaymentView:
    """Reserve points of the member for an order."""
    return create_payment(call, member, body)


@operation("getPointsPayment", response=_PAYMENT_RESPONSE)
def get_points_payment(call: Call, points_payment: PointsPayment) -> PointsPaymentView:
    """The payment with its status and refunds."""
    return view_payment(call, points_payment)


@operation("capturePointsPayment", response=_PAYMENT_RESPONSE, audit="points-payment")
def capture_points_payment(call: Call, points_payment: PointsPayment, body: PaymentCapture) -> PointsPaymentView:
    """Burn points that the payment reserves, and release the rest."""
    return capture_payment(call, points_payment, body)


@operation("releasePointsPayment", response=_PAYMENT_RESPONSE, audit="points-payment")
def release_points_payment(call: Call, points_payment: PointsPayment) -> PointsPaymentView:
    """Release the points that the payment reserves."""
    return release_payment(call, points_payment)


@operation("refundPointsPayment", response=_PAYMENT_RESPONSE, audit="points-payment")
def refund_points_payment(call: Call, points_payment: PointsPayment, body: PaymentRefund) -> PointsPaymentView:
    """Refund points of the captured payment to the member."""
    return refund_payment(call, points_payment, body)
