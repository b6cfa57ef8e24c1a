"""Payments with points: a part of an order that a member pays with them."""

from domain.members import Member
from domain.redemptions import Quote
from handlers.call import Call
from handlers.operation import operation
from handlers.schemas.points_payments import QUOTE, QUOTE_REQUEST
from handlers.services.ledger.points_payments import QuoteRequest, quote_payment


@operation("quotePointsPayment", body=QUOTE_REQUEST, answer=QUOTE.dump)
def quote_points_payment(call: Call, member: Member, body: QuoteRequest) -> Quote:
    """Quote the part of an order that the member may pay with points now."""
    return quote_payment(call, member, body)
