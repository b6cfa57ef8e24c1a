"""Setting a member's tier on the wire (integration 4.5.8, administration, Members 4)."""

from dataclasses import dataclass
from typing import Any

from domain.programs import LoyaltyTier
from domain.tier_log import TierTracking
from handlers.messages.base import Body
from handlers.services.tiers import TierSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class TierByKey(TierSetting):
    """A tier to set, named by its key; None for the tier of the points."""

    loyalty_tier_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierById(TierSetting):
    """A tier to set, named by its id; None for the tier of the points."""

    loyalty_tier_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierByIdInProgram(TierById):
    """A tier to set, named by its id, and the id of its program."""

    loyalty_program_id: int


TIER_BY_KEY = Body(TierByKey)
TIER_BY_ID = Body(TierById)


def tier_key(tier_change: tuple[TierTracking, LoyaltyTier | None]) -> dict[str, Any]:
    """The response with the key of the tier that resulted, null if the member has none."""
    _, tier = tier_change
    return {"loyaltyTierKey": None if tier is None else tier.loyalty_tier_key}


def tier_id(tier_change: tuple[TierTracking, LoyaltyTier | None]) -> dict[str, Any]:
    """The response with the id of the tier that resulted, and the id of the tier tracking."""
    tracking, _ = tier_change
    return {
        "loyaltyTierId": tracking.answered_tier_id,
        "memberTierTrackingId": tracking.member_tier_tracking_id,
    }
