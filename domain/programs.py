"""Loyalty programs and their tiers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Key
from domain.problems import NotFound


@dataclass(frozen=True, slots=True)
class LoyaltyProgram:
    """A program: its ledger accounts, the tier in which members start, and the policy for tiers.

    `tier_policy` has every field of the API, as `domain.tier_policies.completed` makes it.
    """

    organization_id: int
    loyalty_program_id: int
    loyalty_program_key: Key
    name: str | None
    description: str
    active: bool
    ledger_id: int
    tier_points_ledger_account_id: int | None
    main_ledger_account_id: int | None
    main_portal_id: int | None
    default_tier_id: int | None
    tier_policy: Mapping[str, Any]
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LoyaltyTier:
    """A level of a program, reached at `min_required_points` in the program's tier account."""

    organization_id: int
    loyalty_tier_id: int
    loyalty_tier_key: Key
    loyalty_program_id: int
    name: str
    active: bool
    min_required_points: Decimal
    tier_order: int
    custom_attributes: Mapping[str, Any]
    picture_url: str | None
    is_default: bool
    external_key: str | None
    created_at: datetime
    updated_at: datetime


class UnknownLoyaltyProgram(NotFound, title="The loyalty program does not exist"):
    """The organization does not have the loyalty program that a request names."""


class UnknownTier(NotFound, title="The tier does not exist"):
    """The loyalty program does not have the tier that a request names."""


class UnknownPortal(NotFound, title="The portal does not exist"):
    """The organization does not have the portal that a request names."""
