"""Payments that partners report (integration 4.7)."""

from collections.abc import Mapping, Sequence
from functools import partial

from domain.partners import PaymentIntent, PaymentOutcome
from domain.problems import Refusal, Unauthorized
from handlers.call import Call, PartnerKey
from handlers.operation import Together, operation
from handlers.schemas.partners import IntentBody, payment_outcome
from handlers.services.partners.payments import ReportedPayment, create_payment_intent, create_payment_intents


def _key_of(call: Call) -> PartnerKey:
    if call.caller is None or call.caller.partner is None:
        raise Unauthorized("This operation needs the API key of a partner.")
    return call.caller.partner


def _together(
    calls: Sequence[Call], arguments: Sequence[Mapping[str, PaymentIntent]]
) -> list[PaymentOutcome | Refusal | None]:
    return create_payment_intents(
        [
            ReportedPayment(call, _key_of(call), call_arguments["body"])
            for call, call_arguments in zip(calls, arguments, strict=True)
        ]
    )


_payment_intent = partial(
    operation, body=IntentBody(), answer=payment_outcome, audit="member", together=Together(_together)
)


@_payment_intent("createPartnerAPaymentIntent")
def create_partner_a_payment_intent(call: Call, body: PaymentIntent) -> PaymentOutcome:
    """Evaluate a payment that partner A reports."""
    return create_payment_intent(call, _key_of(call), body)


@_payment_intent("createPartnerBPaymentIntent")
def create_partner_b_payment_intent(call: Call, body: PaymentIntent) -> PaymentOutcome:
    """Evaluate a payment that partner B reports."""
    return create_payment_intent(call, _key_of(call), body)
