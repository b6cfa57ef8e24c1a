"""Payments with points on the wire."""

from domain.points_payments import PointsPaymentView
from domain.redemptions import Quote
from handlers.messages.base import Body, Shape
from handlers.services.ledger.points_payments import NewPayment, PaymentCapture, PaymentRefund, QuoteRequest

PAYMENT = Shape(PointsPaymentView, without=("organization_id", "member_id", "ledger_account_id"))
NEW_PAYMENT = Body(NewPayment)
CAPTURE = Body(PaymentCapture)
REFUND = Body(PaymentRefund)
QUOTE = Shape(Quote)
QUOTE_REQUEST = Body(QuoteRequest)
