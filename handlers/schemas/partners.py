"""Partners on the wire: their API keys and payment intents (integration 2.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from domain.partners import PartnerApiKey, PaymentIntent, PaymentOutcome
from handlers.messages.base import Body, Instant, Plain, Shape, WireSchema, exact_number


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProperties:
    """The partner that a key is for, and the organization's name for it."""

    partner: str
    name: str


class _KeyRecord(WireSchema):
    organization_id = Plain()
    partner_api_key_id = Plain()
    key_hint = Plain()
    last_used_at = Instant()
    revoked_at = Instant()
    created_at = Instant()
    updated_at = Instant()


KEY_BODY = Body(KeyProperties)
KEY = Shape(KeyProperties, _KeyRecord)
_INTENT = Body(PaymentIntent)


class IntentBody:
    """The body of an intent; if it has no `paymentId`, its `referenceId` is used (partner B)."""

    def load(self, body: Mapping[str, Any]) -> PaymentIntent:
        """The intent of a body that the document accepted."""
        if body.get("paymentId") is None:
            body = {**body, "paymentId": body.get("referenceId")}
        return _INTENT.load(body)


def new_key(made: tuple[PartnerApiKey, str]) -> dict[str, Any]:
    """A new key, in the only answer that ever shows it."""
    record, key = made
    return {"partnerApiKey": KEY.dump(record), "apiKey": key}


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
