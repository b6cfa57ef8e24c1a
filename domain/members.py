"""Members of an organization's loyalty programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.problems import Conflict


@dataclass(frozen=True, slots=True)
class Member:
    """A member; `wallet_id` holds the member's balances in the organization's default ledger."""

    organization_id: int
    member_id: int
    loyalty_member_id: str
    public_loyalty_member_id: str | None
    active: bool
    member_type: str | None
    channel_acquisition: str | None
    referral_code: str | None
    profile: Mapping[str, Any]
    custom_attributes: Mapping[str, Any]
    notifications: Mapping[str, Any]
    on_chain: Mapping[str, Any]
    wallet_id: int
    wallet_key: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class MemberTier:
    """The tier that a member holds in one program; without `expires_at` until it is evaluated again."""

    organization_id: int
    member_id: int
    loyalty_program_id: int
    loyalty_tier_id: int
    expires_at: datetime | None
    created_at: datetime


class MemberExists(Conflict):
    """The `loyaltyMemberId` belongs to a member already."""

    slug = "member-exists"
    title = "A member with this loyaltyMemberId exists"
