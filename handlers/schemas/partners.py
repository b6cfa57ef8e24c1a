"""Payment intents of partners on the wire (integration 2.9)."""

from collections.abc import Mapping
from typing import Any

from domain.partners import PaymentIntent, PaymentOutcome
from handlers.messages.base import Body, exact_number

_INTENT = Body(PaymentIntent)


class IntentBody:
    """The body of an intent; if it has no `paymentId`, its `referenceId` is used (partner B)."""

    def load(self, body: Mapping[str, Any]) -> PaymentIntent:
        """The intent of a body that the document accepted."""
        if body.get("paymentId") is None:
            body = {**body, "paymentId": body.get("referenceId")}
        return _INTENT.load(body)


def payment_outcome(outcome: PaymentOutcome) -> dict[str, Any]:
    """The answer to a partner's payment."""
    return {
        "loyaltyMemberId": outcome.loyalty_member_id,
        "tier": outcome.tier,
        "isNewMember": outcome.is_new_member,
        "accountBalances": [
            {
                "balance": exact_number(accrual.balance),
                "newAccrual": exact_number(accrual.new_accrual),
                "unitName": accrual.unit_name,
                "accountId": accrual.ledger_account_id,
            }
            for accrual in outcome.accruals
        ],
        "missionsStatus": [
            {name: mission[name] for name in ("currentCounter", "newCounter", "achieved", "goal", "timesAchieved")}
            | {"missionId": mission["missionId"], "userMessage": mission["userMessage"]}
            for mission in outcome.missions
        ],
        "effects": [
            {
                "effectId": effect.effect_id,
                "discount": None if effect.discount is None else exact_number(effect.discount),
                "discountedTotal": None if effect.discounted_total is None else exact_number(effect.discounted_total),
                "discountType": effect.discount_type,
            }
            for effect in outcome.effects
        ],
    }
