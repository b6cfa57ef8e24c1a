"""Partners on the wire: their API keys and payment intents (integration 2.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.partners import MemberInfo, PartnerApiKey, PaymentIntent, PaymentOutcome
from handlers.messages.base import Exact, Instant, Plain, Shape, WireSchema, exact_number


class _KeyBody(WireSchema):
    partner = Plain()
    name = Plain()


class _KeyRecord(_KeyBody):
    organization_id = Plain()
    partner_api_key_id = Plain()
    key_hint = Plain()
    last_used_at = Instant()
    revoked_at = Instant()
    created_at = Instant()
    updated_at = Instant()


class _MemberInfo(WireSchema):
    loyalty_member_id = Plain()
    user_gov_id = Plain()
    email = Plain()
    phone = Plain()
    first_name = Plain()
    last_name = Plain()
    data = Plain(load_default=dict)


class _Intent(WireSchema):
    total = Exact()
    loyalty_member_id = Plain()
    merchant_id = Plain()
    reference_id = Plain()
    type = Plain()
    organization_key = Plain()
    force_user_subscription = Plain(load_default=False)
    store_id = Plain()
    raw_qr = Plain()
    payment_id = Plain()
    post_payment = Plain()
    products = Plain(load_default=list)
    member_info = Plain()


KEY_BODY = Shape(_KeyBody, complete=True)
KEY = Shape(_KeyRecord)
_INTENT = Shape(_Intent, complete=True)
_MEMBER_INFO = Shape(_MemberInfo, complete=True)


class IntentBody:
    """The body of an intent; if it has no `paymentId`, its `referenceId` is used (partner B)."""

    def load(self, body: Mapping[str, Any]) -> PaymentIntent:
        """The intent of a body that the document accepted."""
        loaded = _INTENT.load(body)
        info = loaded.pop("member_info")
        if loaded["payment_id"] is None:
            loaded["payment_id"] = loaded["reference_id"]
        return PaymentIntent(**loaded, member_info=None if info is None else MemberInfo(**_MEMBER_INFO.load(info)))


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
