"""Tiers on the wire (administration, "Loyalty tier")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from domain.programs import LoyaltyTier
from handlers.messages.base import OF_REQUEST, Plain, Shape, WireSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class TierProperties:
    """The writable fields of a tier."""

    name: str
    active: bool
    min_required_points: Decimal
    tier_order: int
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    picture_url: str | None = None
    is_default: bool = field(default=False, metadata=OF_REQUEST)
    external_key: str | None = None


class _WithProgramKey(WireSchema):
    loyalty_program_key = Plain()


TIER = Shape(_WithProgramKey, LoyaltyTier)
