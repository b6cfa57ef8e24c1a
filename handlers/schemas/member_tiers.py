"""Setting a member's tier on the wire (integration 4.5.8, administration, Members 4)."""

from __future__ import annotations

from typing import Any

from domain.programs import LoyaltyTier
from domain.tiers import TierTracking
from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Setting(WireSchema):
    expires_at = Instant()
    external_id = Plain()
    system_unique_key = Plain()
    description = Plain()
    tags = Plain(load_default=list)


class _ByKey(_Setting):
    loyalty_tier_key = Plain()


class _ById(_Setting):
    loyalty_tier_id = Plain()


class _ByIdInProgram(_ById):
    loyalty_program_id = Plain()


TIER_BY_KEY = Shape(_ByKey, complete=True)
TIER_BY_ID = Shape(_ById, complete=True)
TIER_BY_ID_IN_PROGRAM = Shape(_ByIdInProgram, complete=True)


def tier_key(done: tuple[TierTracking, LoyaltyTier | None]) -> dict[str, Any]:
    """The key of the member's tier after it was set."""
    _, tier = done
    return {"loyaltyTierKey": None if tier is None else tier.loyalty_tier_key}


def tier_id(done: tuple[TierTracking, LoyaltyTier | None]) -> dict[str, Any]:
    """The id of the member's tier after it was set, and the record of the request."""
    tracking, _ = done
    return {
        "loyaltyTierId": tracking.answered_tier_id,
        "memberTierTrackingId": tracking.member_tier_tracking_id,
    }
