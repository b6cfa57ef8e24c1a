"""Partners of an organization: their API keys and the payments that they report (integration 2.9 and 4.7)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from domain.event_types import PAYMENT_CONFIRMED
from domain.events import IncomingEvent
from domain.problems import Conflict, NotFound

# The last use of a key is stored at most once in this time, so that a key in constant use does not become a hot row.
LAST_USE_INTERVAL = timedelta(minutes=1)
MAX_GOV_ID_LENGTH = 100
# Random characters of a key: 256 bits in base64url.
SECRET_LENGTH = 43

_KEY = re.compile(rf"partner_([1-9][0-9]{{0,17}})_[A-Za-z0-9_-]{{{SECRET_LENGTH}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PartnerApiKey:
    """An API key, stored as a hash only; `key_hint` is the end of the key."""

    organization_id: int
    partner_api_key_id: int
    partner: str
    name: str
    key_hint: str
    last_used_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """Onboarding data of a customer; `data` has no fixed form."""

    loyalty_member_id: str | None = None
    user_gov_id: str | None = None
    email: str | None = None
    phone: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def profile(self, gov_id: str | None) -> dict[str, Any]:
        """The data as a member's profile with this government id, without unknown fields and blank names."""
        profile_fields = {
            "name": _unless_blank(self.first_name),
            "lastName": _unless_blank(self.last_name),
            "email": self.email,
            "phoneNumber": self.phone,
            "govId": None if gov_id is None else {"id": gov_id},
        }
        return {name: value for name, value in profile_fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PaymentIntent:
    """A payment as a partner reports it; `payment_id` is unique in the organization."""

    payment_id: str
    total: Decimal
    type: str
    loyalty_member_id: str
    organization_key: str
    reference_id: str | None = None
    merchant_id: str | None = None
    store_id: str | None = None
    raw_qr: str | None = None
    post_payment: bool | None = None
    force_user_subscription: bool = False
    products: Sequence[Mapping[str, Any]] = ()
    member_info: MemberInfo | None = None

    @property
    def new_member_id(self) -> str:
        """The `loyaltyMemberId` for the member that would be created."""
        reported_id = None if self.member_info is None else self.member_info.loyalty_member_id
        return self.loyalty_member_id if reported_id is None else reported_id

    @property
    def new_gov_id(self) -> str | None:
        """The government id for the member that would be created.

        If the member gets another `loyaltyMemberId` than the intent names, the named one becomes the government id, by
        which the next payment finds the member. Raises MemberNotCreated if that is impossible.
        """
        gov_id = None if self.member_info is None else self.member_info.user_gov_id
        if self.loyalty_member_id == self.new_member_id:
            return gov_id
        if gov_id not in (None, self.loyalty_member_id):
            raise MemberNotCreated(
                f"The loyaltyMemberId {self.loyalty_member_id} of the payment intent is neither the loyaltyMemberId "
                "nor the userGovId of memberInfo."
            )
        if len(self.loyalty_member_id) > MAX_GOV_ID_LENGTH:
            raise MemberNotCreated(
                f"The loyaltyMemberId {self.loyalty_member_id} of the payment intent has more than "
                f"{MAX_GOV_ID_LENGTH} characters, the maximum of a userGovId."
            )
        return self.loyalty_member_id

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of the event `member-payment-confirmed`; personal data in `memberInfo` is left out."""
        return {
            "payment": {
                "paymentId": self.payment_id,
                "referenceId": self.reference_id,
                "total": self.total,
                "type": self.type,
                "merchantId": self.merchant_id,
                "storeId": self.store_id,
                "products": list(self.products),
                "rawQr": self.raw_qr,
                "postPayment": self.post_payment,
                "memberInfo": {"data": {} if self.member_info is None else self.member_info.data},
            }
        }


@dataclass(frozen=True, slots=True)
class AccountAccrual:
    """The points that a payment accrued in one account: `new_accrual` in total, and the `balance` after it."""

    ledger_account_id: int
    unit_name: str
    balance: Decimal
    new_accrual: Decimal


@dataclass(frozen=True, slots=True)
class PaymentEffect:
    """An executed effect; the last three fields are for discounts only."""

    effect_id: str
    discount: Decimal | None = None
    discounted_total: Decimal | None = None
    discount_type: str | None = None


@dataclass(frozen=True, slots=True)
class PaymentOutcome:
    """The outcome of a payment intent; `missions` has one outcome for each mission, in the form of tracking."""

    loyalty_member_id: str
    tier: str | None
    is_new_member: bool
    accruals: Sequence[AccountAccrual]
    missions: Sequence[Mapping[str, Any]]
    effects: Sequence[PaymentEffect]


class PaymentExists(Conflict, title="The payment already exists"):
    """Another transaction of the organization already has the `paymentId`."""


def payment_exists(payment_id: str) -> PaymentExists:
    """The refusal of a payment whose id another transaction has."""
    return PaymentExists(f"The paymentId {payment_id} belongs to another transaction.")


def payment_id_of(event: IncomingEvent) -> str | None:
    """The id of the payment that an event confirms; None for other events."""
    payment = (event.payload or {}).get("payment") if event.event_type == PAYMENT_CONFIRMED else None
    payment_id: str | None = None if payment is None else payment["paymentId"]
    return payment_id


class MemberNotCreated(NotFound, title="The member cannot be created"):
    """The customer is not a member, and the data do not suffice to create one."""


class UnknownOrganization(NotFound, title="The organization does not exist"):
    """The `organizationKey` is not the key of the API key's organization."""


def _unless_blank(name: str | None) -> str | None:
    """The name; None if it consists of blanks only. An empty name stays."""
    return name if name is not None and (not name or name.strip()) else None


def key_of(organization_id: int, secret: str) -> str:
    """The text of an API key; it contains the organization, in which the key is then looked up."""
    return f"partner_{organization_id}_{secret}"


def organization_of(key: str) -> int | None:
    """The id of the organization in the text of an API key; None if the text is not a key."""
    match = _KEY.fullmatch(key)
    return None if match is None else int(match[1])


def payment_effects(total: Decimal, effects: Iterable[Mapping[str, Any]]) -> list[PaymentEffect]:
    """The executed effects of a payment of `total`, each discount with the total that is left after it.

    `effects` are the effects in the results of events, in the order of the evaluation.
    """
    remaining, results = total, []
    for effect in effects:
        if "discountAmount" not in effect:
            results.append(PaymentEffect(effect["effectId"]))
            continue
        discount = Decimal(effect["discountAmount"])
        remaining -= discount
        kind = next(param["value"] for param in effect["params"] if param["id"] == "type")
        results.append(PaymentEffect(effect["effectId"], discount, remaining, kind))
    return results


def merge_missions(outcomes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One outcome for each mission: its counter before the first of `outcomes`, and the other fields of the last.

    The mission counts as achieved if any of its outcomes achieved it.
    """
    by_mission_id: dict[int, dict[str, Any]] = {}
    for outcome in outcomes:
        earlier_outcome = by_mission_id.get(outcome["missionId"])
        if earlier_outcome is None:
            by_mission_id[outcome["missionId"]] = dict(outcome)
        else:
            by_mission_id[outcome["missionId"]] = {
                **outcome,
                "currentCounter": earlier_outcome["currentCounter"],
                "achieved": earlier_outcome["achieved"] or outcome["achieved"],
            }
    return list(by_mission_id.values())
