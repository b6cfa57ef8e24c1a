"""Payments with points on the wire."""

from domain.points_payments import PointsPaymentView
from domain.redemptions import Quote
from handlers.messages.base import Shape

PAYMENT = Shape(PointsPaymentView, without=("organization_id", "member_id", "ledger_account_id"))
QUOTE = Shape(Quote)
