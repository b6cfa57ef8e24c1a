"""Loyalty programs and their tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.problems import Conflict


@dataclass(frozen=True, slots=True)
class LoyaltyProgram:
    """A program: which ledger accounts it accrues into and which tier its members start in."""

    organization_id: int
    loyalty_program_id: int
    loyalty_program_key: str
    name: str
    description: str | None
    active: bool
    ledger_id: int
    tier_points_ledger_account_id: int | None
    main_ledger_account_id: int | None
    main_portal_id: int | None
    default_tier_id: int | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LoyaltyTier:
    """A level of a program, reached at `min_required_points` in the program's tier account."""

    organization_id: int
    loyalty_tier_id: int
    loyalty_tier_key: str
    loyalty_program_id: int
    name: str
    active: bool
    min_required_points: Decimal
    tier_order: int
    custom_attributes: Mapping[str, Any]
    picture_url: str | None
    is_default: bool
    created_at: datetime
    updated_at: datetime


class TierNotInProgram(Conflict):
    """A default tier must be one of the program's own."""

    slug = "tier-not-in-program"
    title = "The tier belongs to another loyalty program"
