"""Loyalty programs and their tiers."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any

from domain.fields import Key
from domain.problems import Conflict, NotFound
from domain.tier_policies import TierPolicy
from domain.tiers import ConfiguredTier, TierSchedule, TierStep


@dataclass(frozen=True, slots=True)
class LoyaltyProgram:
    """A program: its ledger accounts, the tier in which members start, and the policy for tiers.

    `tier_policy` has every field of the API, as `domain.tier_policies.complete_tier_policy` returns it.
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


def configured_tiers(programs: Iterable[LoyaltyProgram], tiers: Iterable[LoyaltyTier]) -> list[ConfiguredTier]:
    """The tiers in the form that effects need, each with the key of its program; all of them, in the same order."""
    program_keys = {program.loyalty_program_id: program.loyalty_program_key for program in programs}
    return [
        ConfiguredTier(
            tier.loyalty_tier_id,
            tier.loyalty_tier_key,
            tier.loyalty_program_id,
            program_keys[tier.loyalty_program_id],
            tier.name,
            tier.active,
        )
        for tier in tiers
    ]


def schedules_of(
    programs: Iterable[LoyaltyProgram], tiers: Iterable[LoyaltyTier], zone: tzinfo
) -> tuple[TierSchedule, ...]:
    """The schedules of the active programs; `tiers` are those of all programs."""
    tiers_by_program: dict[int, list[LoyaltyTier]] = {}
    for tier in tiers:
        tiers_by_program.setdefault(tier.loyalty_program_id, []).append(tier)
    return tuple(
        _schedule_of(program, tiers_by_program.get(program.loyalty_program_id, ()), zone)
        for program in programs
        if program.active
    )


def _schedule_of(program: LoyaltyProgram, own_tiers: Collection[LoyaltyTier], zone: tzinfo) -> TierSchedule:
    """The schedule of a program with its tiers; an inactive default tier counts as none."""
    default_id = program.default_tier_id
    is_default_inactive = any(tier.loyalty_tier_id == default_id and not tier.active for tier in own_tiers)
    return TierSchedule(
        loyalty_program_id=program.loyalty_program_id,
        loyalty_program_key=program.loyalty_program_key,
        ledger_account_id=program.tier_points_ledger_account_id,
        default_tier_id=None if is_default_inactive else default_id,
        steps=tuple(
            TierStep(tier.loyalty_tier_id, tier.min_required_points, tier.tier_order)
            for tier in own_tiers
            if tier.active
        ),
        moves_members=any(tier.loyalty_tier_id != default_id for tier in own_tiers),
        policy=TierPolicy.of(program.tier_policy, zone),
    )


class UnknownLoyaltyProgram(NotFound, title="The loyalty program does not exist"):
    """The organization does not have the loyalty program that a request names."""


class UnknownTier(NotFound, title="The tier does not exist"):
    """The loyalty program does not have the tier that a request names."""


class UnknownPortal(NotFound, title="The portal does not exist"):
    """The organization does not have the portal that a request names."""


class LoyaltyProgramLimit(Conflict, title="The organization has the maximum number of loyalty programs"):
    """Another loyalty program would exceed the maximum."""


class TierInactive(Conflict, title="The tier is not active"):
    """An inactive tier cannot be assigned, and cannot be the default tier of a program."""


def refuse_inactive_default(name: str, active: bool) -> None:
    """Raise TierInactive for an inactive tier that would become a program's default tier."""
    if not active:
        raise TierInactive(f"The tier {name} is not active, and so cannot be the default tier of a loyalty program.")
