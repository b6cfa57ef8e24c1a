"""Members in the form of responses, webhooks and the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from marshmallow import fields

from domain.ledger.expiring import ExpiringPoints
from domain.ledger.views import WalletView
from domain.members import Member, MemberProperties, is_reserved_id
from domain.profiles import NOTIFICATIONS, PROFILE, empty_profile
from domain.tiers import ConfiguredTier, MemberTier, TierStatus
from handlers.messages.base import Completed, Nested, Shape, UnusableText, WireSchema

# Responses have all fields of a profile, null if unknown; but objects with parts only if one part is known.
_PROFILE = Completed(
    empty_profile(),
    {name: dict.fromkeys(profile_field.parts) for name, profile_field in PROFILE.items() if profile_field.parts},
)
# A channel is null if the member has made no choice.
_NOTIFICATIONS = Completed(dict.fromkeys(NOTIFICATIONS))


class _LoyaltyMemberId(fields.Field[Any]):
    """The organization's own id of a member; refuses reserved ids, which the pattern in the OpenAPI document allows."""

    def load(self, value: Any) -> Any:
        """The unchanged id; raises UnusableText."""
        if is_reserved_id(value):
            raise UnusableText(f"is {value}, which is a fixed part of a path of the API: choose another id")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBody(MemberProperties):
    """The writable fields of a member, as requests and records have them."""

    loyalty_member_id: Annotated[str, _LoyaltyMemberId]
    profile: Annotated[Mapping[str, Any], _PROFILE] = field(default_factory=dict)
    notifications: Annotated[Mapping[str, Any], _NOTIFICATIONS] = field(default_factory=dict)


_CONFIGURED_TIER = Shape(ConfiguredTier, only=("loyalty_tier_id", "loyalty_tier_key", "name"))


class _TierStatus(WireSchema):
    tier = Nested(_CONFIGURED_TIER, metadata={"omit_none": True})
    projected_tier = Nested(_CONFIGURED_TIER, metadata={"omit_none": True})


class _Expiring(WireSchema):
    expiring = Nested(Shape(ExpiringPoints, optional=("next",)), metadata={"omit_none": True})


class _Holdings(WireSchema):
    tiers = Nested(Shape(MemberTier, only=("loyalty_program_id", "loyalty_tier_id", "expires_at")), many=True)
    tier_status = Nested(
        Shape(_TierStatus, TierStatus, optional=("next_tier",)), many=True, metadata={"omit_none": True}
    )
    ledger_balances = Nested(
        Shape(
            _Expiring,
            WalletView,
            only=(
                "ledger_id",
                "ledger_account_id",
                "wallet_id",
                "current_balance",
                "pending",
                "next_available",
                "expiring",
            ),
            names={"current_balance": "balance"},
            optional=("next_available",),
        ),
        many=True,
        metadata={"omit_none": True},
    )


MEMBER_PROPERTIES = Shape(MemberBody)

MEMBER = Shape(MemberBody, _Holdings, Member, names={"wallet_id": "ledgerWalletId", "wallet_key": "ledgerWalletKey"})
