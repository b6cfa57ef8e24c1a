"""Loyalty programs and their tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.problems import NotFound


@dataclass(frozen=True, slots=True)
class LoyaltyProgram:
    """A program: which ledger accounts it accrues into, which tier its members start in, and what tiers go by.

    `tier_policy` has every field of the API's, as `domain.tier_policies.completed` makes it.
    """

    organization_id: int
    loyalty_program_id: int
    loyalty_program_key: str
    name: str | None
    description: str
    active: bool
    ledger_id: int
    tier_points_ledger_account_id: int | None
    main_ledger_account_id: int | None
    main_portal_id: int | None
    default_tier_id: int | None
    tier_policy: Mapping[str, Any]
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


class UnknownLoyaltyProgram(NotFound):
    """A request names a loyalty program that the organization does not have."""

    slug = "unknown-loyalty-program"
    title = "The loyalty program does not exist"


class UnknownTier(NotFound):
    """A request names a tier that the loyalty program does not have."""

    slug = "unknown-tier"
    title = "The tier does not exist"


class UnknownPortal(NotFound):
    """A request names a portal that the organization does not have."""

    slug = "unknown-portal"
    title = "The portal does not exist"
