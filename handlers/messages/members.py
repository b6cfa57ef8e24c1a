"""Members, as they are sent: in answers, webhooks and the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from marshmallow import fields

from domain.members import is_reserved_id
from handlers.messages.base import Exact, Instant, Nested, Plain, Shape, UnusableText, WireSchema

_PROFILE: Mapping[str, Any] = {
    **dict.fromkeys(("name", "lastName", "email", "birthdate", "phoneNumber", "pictureUrl", "nickname")),
    "emails": [],
    "locations": [],
    **dict.fromkeys(("gender", "country", "state", "city")),
    "tags": [],
    "customAttributes": {},
}


_PARTS_OF_PROFILE = {
    "govId": dict.fromkeys(("id", "type", "issuingCountry")),
    "address": dict.fromkeys(("addressLine", "floor", "apartment", "zipCode")),
}


class _Profile(fields.Field[Any]):
    """The profile in every member record; `govId` and `address` only if some of their fields are known."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        parts = {name: {**empty, **value[name]} for name, empty in _PARTS_OF_PROFILE.items() if name in value}
        return {**_PROFILE, **value, **parts}

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value


class _Notifications(fields.Field[Any]):
    """The notification wishes; null where the member has not said."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return {**dict.fromkeys(("email", "phone", "push")), **value}

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value


class _LoyaltyMemberId(fields.Field[Any]):
    """The organization's own id of a member; refuses values that the document's pattern cannot exclude."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if is_reserved_id(value):
            raise UnusableText(f"is {value}, which is part of the path of an operation, and would hide the member")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProperties:
    """The writable fields of a member."""

    loyalty_member_id: Annotated[str, _LoyaltyMemberId]
    public_loyalty_member_id: str | None = None
    profile: Annotated[Mapping[str, Any], _Profile] = field(default_factory=dict)
    active: bool = True
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    member_type: str | None = None
    channel_acquisition: str | None = None
    notifications: Annotated[Mapping[str, Any], _Notifications] = field(default_factory=dict)
    referral_code: str | None = None
    on_chain: Mapping[str, Any] = field(default_factory=lambda: {"wallets": []})


class CurrentTier(WireSchema):
    """A tier that a member has."""

    loyalty_program_id = Plain()
    loyalty_tier_id = Plain()
    expires_at = Instant()


class _KnownTier(WireSchema):
    loyalty_tier_id = Plain()
    loyalty_tier_key = Plain()
    name = Plain()


class _NextTier(_KnownTier):
    missing_points = Exact()


class _TierStatus(WireSchema):
    loyalty_program_id = Plain()
    loyalty_program_key = Plain()
    tier = Nested(Shape(_KnownTier), metadata={"omit_none": True})
    is_manual = Plain()
    since = Instant()
    expires_at = Instant()
    points = Exact()
    next_tier = Nested(Shape(_NextTier), metadata={"omit_none": True})
    points_to_keep = Exact()
    projected_tier = Nested(Shape(_KnownTier), metadata={"omit_none": True})


class _Balance(WireSchema):
    ledger_id = Plain()
    ledger_account_id = Plain()
    wallet_id = Plain()
    current_balance = Exact(data_key="balance")


class _Record(WireSchema):
    organization_id = Plain()
    member_id = Plain()
    tiers = Nested(Shape(CurrentTier), many=True)
    tier_status = Nested(Shape(_TierStatus), many=True, metadata={"omit_none": True})
    wallet_id = Plain(data_key="ledgerWalletId")
    wallet_key = Plain(data_key="ledgerWalletKey")
    ledger_balances = Nested(Shape(_Balance), many=True, metadata={"omit_none": True})
    created_at = Instant()
    updated_at = Instant()


MEMBER_PROPERTIES = Shape(MemberProperties)


MEMBER = Shape(MemberProperties, _Record)
