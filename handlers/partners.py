"""Payments that partners report (integration 4.7)."""

from functools import partial

from domain.partners import PaymentIntent
from handlers.call import Call
from handlers.operation import BatchHandler, operation
from handlers.schemas.partners import payment_intent, payment_outcome
from handlers.services.partners.payments import create_payment_intents

_payment_intent = partial(
    operation, body=payment_intent, response=payment_outcome, audit="member", batch=BatchHandler(create_payment_intents)
)


@_payment_intent("createPartnerAPaymentIntent")
@_payment_intent("createPartnerBPaymentIntent")
def create_payment_intent(call: Call, body: PaymentIntent) -> PaymentIntent:
    """Evaluate a payment that a partner reports; returns the body for the batch."""
    return body
