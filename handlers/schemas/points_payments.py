"""Payments with points on the wire."""

from domain.redemptions import Quote
from handlers.messages.base import Body, Shape
from handlers.services.ledger.points_payments import QuoteRequest

QUOTE = Shape(Quote)
QUOTE_REQUEST = Body(QuoteRequest)
