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
    """The body of an intent; where it has no `paymentId`, its `referenceId` stands for it (partner B)."""

    def load(self, body: Mapping[str, Any]) -> PaymentIntent:
        """The intent of a body that the document has accepted."""
        loaded = _INTENT.load(body)
        info = loaded.pop("member_info")
        if loaded["payment_id"] is None:
            loaded["payment_id"] = loaded["reference_id"]
        return PaymentIntent(**loaded, member_info=None if info is None else MemberInfo(**_MEMBER_INFO.load(info)))


def new_key(made: tuple[PartnerApiKey, str]) -> dict[str, Any]:
    """A key that was made just now, with the only answer that ever shows it."""
    record, key = made
    return {"partnerApiKey": KEY.dump(record), "apiKey": key}


def payment_outcome(outcome: PaymentOutcome) -> dict[str, Any]:
    """What a partner is told of a payment."""
    return {
        "loyaltyMemberId": outcome.loyalty_member_id,
        "tier": outcome.tier,
        "isNewMember": outcome.is_new_member,
        "accountBalances": [
            {
                "balance": exact_number(each.balance),
                "newAccrual": exact_number(each.new_accrual),
                "unitName": each.unit_name,
                "accountId": each.ledger_account_id,
            }
            for each in outcome.accruals
        ],
        "missionsStatus": [
            {name: each[name] for name in ("currentCounter", "newCounter", "achieved", "goal", "timesAchieved")}
            | {"missionId": each["missionId"], "userMessage": each["userMessage"]}
            for each in outcome.missions
        ],
        "effects": [
            {
                "effectId": each.effect_id,
                "discount": None if each.discount is None else exact_number(each.discount),
                "discountedTotal": None if each.discounted_total is None else exact_number(each.discounted_total),
                "discountType": each.discount_type,
            }
            for each in outcome.effects
        ],
    }
