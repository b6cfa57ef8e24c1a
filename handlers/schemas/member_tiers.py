"""Setting a member's tier on the wire (integration 4.5.8, administration, Members 4)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

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


class RequestedTier(NamedTuple):
    """The record of a request that set a tier, and the tier that the member then had, if any."""

    tracking: TierTracking
    tier: LoyaltyTier | None


def tier_key(change: RequestedTier) -> dict[str, Any]:
    """The response with the key of the tier that resulted, null if the member has none."""
    return {"loyaltyTierKey": None if change.tier is None else change.tier.loyalty_tier_key}


def tier_id(change: RequestedTier) -> dict[str, Any]:
    """The response with the id of the tier that resulted, and the id of the tier tracking."""
    return {
        "loyaltyTierId": change.tracking.answered_tier_id,
        "memberTierTrackingId": change.tracking.member_tier_tracking_id,
    }
