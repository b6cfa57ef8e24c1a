"""Payments that partners report (integration 4.7)."""

from functools import partial

from domain.partners import PaymentIntent
from handlers.call import Call
from handlers.operation import BatchHandler, operation
from handlers.schemas.partners import IntentBody, payment_outcome
from handlers.services.partners.payments import create_payment_intents

_payment_intent = partial(
    operation, body=IntentBody(), answer=payment_outcome, audit="member", batch=BatchHandler(create_payment_intents)
)


@_payment_intent("createPartnerAPaymentIntent")
def create_partner_a_payment_intent(call: Call, body: PaymentIntent) -> PaymentIntent:
    """Evaluate a payment that partner A reports."""
    return body


@_payment_intent("createPartnerBPaymentIntent")
def create_partner_b_payment_intent(call: Call, body: PaymentIntent) -> PaymentIntent:
    """Evaluate a payment that partner B reports."""
    return body
