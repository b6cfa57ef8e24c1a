"""Loyalty programs and their tiers."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, update

from domain.organizations import Organization
from domain.programs import LoyaltyProgram, LoyaltyTier
from persistence.filters import is_true_if_asked
from persistence.paging import Paged
from persistence.records import Records
from persistence.tables.organizations import loyalty_programs, loyalty_tiers

PROGRAMS = Records(loyalty_programs, LoyaltyProgram, equal=("loyaltyProgramKey",))
TIERS = Records(
    loyalty_tiers,
    LoyaltyTier,
    equal=("loyaltyTierKey",),
    filters={"onlyActive": is_true_if_asked(loyalty_tiers.c.active)},
)


def find_page(db: Connection, organization: Organization, query: Mapping[str, Any]) -> Paged[LoyaltyProgram]:
    """A page of programs; without the organization's default program if `default` is false."""
    filters = {name: value for name, value in query.items() if name != "default"}
    is_not_default = PROGRAMS.id.is_distinct_from(organization.default_loyalty_program_id)
    conditions = [] if query["default"] else [is_not_default]
    return PROGRAMS.find_page(db, organization.organization_id, filters, *conditions)


def set_default_tier(
    db: Connection, organization_id: int, loyalty_program_id: int, loyalty_tier_id: int | None
) -> dict[int, bool]:
    """Make one of the program's tiers its default tier in place of the current one; with None, it has no default tier.

    Returns the ids of the changed tiers, each with True if it is the default now.
    """
    db.execute(
        update(loyalty_programs)
        .where(
            loyalty_programs.c.organization_id == organization_id,
            loyalty_programs.c.loyalty_program_id == loyalty_program_id,
        )
        .values(default_tier_id=loyalty_tier_id)
    )
    is_new_default = loyalty_tiers.c.loyalty_tier_id.is_not_distinct_from(loyalty_tier_id)
    changed_tiers = db.execute(
        update(loyalty_tiers)
        .where(
            loyalty_tiers.c.organization_id == organization_id,
            loyalty_tiers.c.loyalty_program_id == loyalty_program_id,
            loyalty_tiers.c.is_default != is_new_default,
        )
        .values(is_default=is_new_default)
        .returning(loyalty_tiers.c.loyalty_tier_id, loyalty_tiers.c.is_default)
    )
    return {row.loyalty_tier_id: row.is_default for row in changed_tiers}
