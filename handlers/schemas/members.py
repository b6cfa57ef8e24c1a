"""Members on the wire (integration 2.6, administration "Member")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marshmallow import fields

from domain.members import Member, MemberTier, is_reserved_id
from handlers.schemas.base import Exact, Instant, Part, Plain, Shape, WireSchema, instant_text
from persistence.paging import Paged

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
    """The profile, answered with every member; `govId` and `address` only where something of them is known."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        parts = {name: {**empty, **value[name]} for name, empty in _PARTS_OF_PROFILE.items() if name in value}
        return {**_PROFILE, **value, **parts}

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value


class _Notifications(fields.Field[Any]):
    """The notifications wanted, answered with null where the member has not said."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return {**dict.fromkeys(("email", "phone", "push")), **value}

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value


class _LoyaltyMemberId(fields.Field[Any]):
    """The organization's own id of a member: what the document's pattern cannot say is refused here."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if is_reserved_id(value):
            raise ValueError(f"{value} is part of the path of an operation, which would hide the member.")
        return value


class _Writable(WireSchema):
    loyalty_member_id = _LoyaltyMemberId()
    public_loyalty_member_id = Plain()
    profile = _Profile(load_default=dict)
    active = Plain(load_default=True)
    custom_attributes = Plain(load_default=dict)
    member_type = Plain()
    channel_acquisition = Plain()
    notifications = _Notifications(load_default=dict)
    referral_code = Plain()
    on_chain = Plain(load_default=lambda: {"wallets": []})


class _Changes(_Writable):
    update_reason = Plain(load_only=True)
    emit_event = Plain(load_only=True)


class _CurrentTier(WireSchema):
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
    tier = Part(Shape(_KnownTier), metadata={"omit_none": True})
    is_manual = Plain()
    since = Instant()
    expires_at = Instant()
    points = Exact()
    next_tier = Part(Shape(_NextTier), metadata={"omit_none": True})
    points_to_keep = Exact()
    projected_tier = Part(Shape(_KnownTier), metadata={"omit_none": True})


class _Balance(WireSchema):
    ledger_id = Plain()
    ledger_account_id = Plain()
    wallet_id = Plain()
    current_balance = Exact(data_key="balance")


class _Record(_Writable):
    organization_id = Plain()
    member_id = Plain()
    tiers = Part(Shape(_CurrentTier), many=True)
    tier_status = Part(Shape(_TierStatus), many=True, metadata={"omit_none": True})
    wallet_id = Plain(data_key="ledgerWalletId")
    wallet_key = Plain(data_key="ledgerWalletKey")
    ledger_balances = Part(Shape(_Balance), many=True, metadata={"omit_none": True})
    created_at = Instant()
    updated_at = Instant()


class _Existing(WireSchema):
    member_id = Plain()
    loyalty_member_id = Plain()
    active = Plain()


class _TierEntry(_CurrentTier):
    organization_id = Plain()
    member_id = Plain()
    created_at = Instant()


NEW_MEMBER = Shape(_Writable, complete=True)
MEMBER_CHANGES = Shape(_Changes)
MEMBER_PROPERTIES = Shape(_Writable)
MEMBER = Shape(_Record)
EXISTING_MEMBER = Shape(_Existing)
MEMBER_TIER = Shape(_TierEntry)


def enrolled(name: str) -> Callable[[tuple[Any, list[dict[str, Any]]]], dict[str, Any]]:
    """The answer of an enrolment: the member, and what became of the referral code that came with it."""
    return lambda found: {name: MEMBER.dump(found[0]), "referrals": found[1]}


def member_page(found: Paged[Any]) -> dict[str, Any]:
    """A page of members as the integration interface answers it (integration 1, convention 4)."""
    return {
        "results": [MEMBER.dump(member) for member in found.results],
        "total": found.total_count,
        "page": found.page,
        "limit": found.limit,
    }


def member_batch(found: Mapping[str, Any]) -> dict[str, Any]:
    """The members that a batch asked for and the ids that nobody has."""
    return {"members": [MEMBER.dump(member) for member in found["members"]], "notFound": found["not_found"]}


def search_row(found: tuple[Member, MemberTier | None]) -> dict[str, Any]:
    """A member as found by a search, with the tier in one program (administration, "Member search row")."""
    member, tier = found
    answered = MEMBER_PROPERTIES.dump(member)
    profile = answered["profile"]
    data = {
        name: profile[name] for name in ("phoneNumber", "govId", "birthdate", "locations", "tags") if name in profile
    }
    return {
        "organizationId": member.organization_id,
        "memberId": member.member_id,
        "loyaltyProgramId": None if tier is None else tier.loyalty_program_id,
        "loyaltyTierId": None if tier is None else tier.loyalty_tier_id,
        "loyaltyMemberId": member.loyalty_member_id,
        "data": {
            **data,
            "publicLoyaltyMemberId": member.public_loyalty_member_id,
            "ledgerWalletId": member.wallet_id,
        },
        "name": profile["name"],
        "lastName": profile["lastName"],
        "email": profile["email"],
        "active": member.active,
        "since": instant_text(member.created_at),
    }
