"""Payments that partners report (integration 4.7)."""

from __future__ import annotations

from domain.partners import PaymentIntent, PaymentOutcome
from domain.problems import Unauthorized
from handlers.call import Call
from handlers.operation import operation
from handlers.schemas.partners import IntentBody, payment_outcome
from handlers.services.partners.payments import create_payment_intent


@operation("createPartnerAPaymentIntent", body=IntentBody(), answer=payment_outcome, audit="member")
def create_partner_a_payment_intent(call: Call, body: PaymentIntent) -> PaymentOutcome:
    """Evaluate a payment that partner A reports."""
    return _created(call, body)


@operation("createPartnerBPaymentIntent", body=IntentBody(), answer=payment_outcome, audit="member")
def create_partner_b_payment_intent(call: Call, body: PaymentIntent) -> PaymentOutcome:
    """Evaluate a payment that partner B reports."""
    return _created(call, body)


def _created(call: Call, intent: PaymentIntent) -> PaymentOutcome:
    if call.caller is None or call.caller.partner is None:
        raise Unauthorized("This operation needs the API key of a partner.")
    return create_payment_intent(call, call.caller.partner, intent)
