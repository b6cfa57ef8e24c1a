"""Payment intents of partners on the wire (integration 2.9)."""

from collections.abc import Mapping
from typing import Any

from domain.partners import AccountAccrual, PaymentEffect, PaymentIntent, PaymentOutcome
from handlers.messages.base import Body, Shape

_INTENT = Body(PaymentIntent)
_ACCRUAL = Shape(AccountAccrual, names={"ledger_account_id": "accountId"})
_EFFECT = Shape(PaymentEffect)
_MISSION_FIELDS = ("currentCounter", "newCounter", "achieved", "goal", "timesAchieved", "missionId", "userMessage")


def payment_intent(body: Mapping[str, Any]) -> PaymentIntent:
    """The intent of an accepted body; the `referenceId` of partner B replaces a missing `paymentId`."""
    if body.get("paymentId") is None:
        body = {**body, "paymentId": body.get("referenceId")}
    return _INTENT.load(body)


def payment_outcome(outcome: PaymentOutcome) -> dict[str, Any]:
    """The response to a partner's payment."""
    return {
        "loyaltyMemberId": outcome.loyalty_member_id,
        "tier": outcome.tier,
        "isNewMember": outcome.is_new_member,
        "accountBalances": [_ACCRUAL(accrual) for accrual in outcome.accruals],
        "missionsStatus": [{name: mission[name] for name in _MISSION_FIELDS} for mission in outcome.missions],
        "effects": [_EFFECT(effect) for effect in outcome.effects],
    }
