"""Loyalty programs and their tiers."""

from typing import Any

from sqlalchemy import Connection, select, update

from domain.programs import LoyaltyProgram, LoyaltyTier
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, record, with_external_key
from persistence.tables.programs import loyalty_programs, loyalty_tiers

PROGRAM_ORDER = {
    "loyaltyProgramId": loyalty_programs.c.loyalty_program_id,
    "name": loyalty_programs.c.name,
    "active": loyalty_programs.c.active,
}
TIER_ORDER = {
    "loyaltyTierId": loyalty_tiers.c.loyalty_tier_id,
    "name": loyalty_tiers.c.name,
    "active": loyalty_tiers.c.active,
    "minRequiredPoints": loyalty_tiers.c.min_required_points,
    "tierOrder": loyalty_tiers.c.tier_order,
    "createdAt": loyalty_tiers.c.created_at,
    "updatedAt": loyalty_tiers.c.updated_at,
}


def find(db: Connection, organization_id: int, loyalty_program_id: int) -> LoyaltyProgram | None:
    """The program with this id."""
    table = loyalty_programs
    row = db.execute(
        select(*columns_of(table, LoyaltyProgram)).where(
            table.c.organization_id == organization_id, table.c.loyalty_program_id == loyalty_program_id
        )
    ).one_or_none()
    return record(LoyaltyProgram, row)


def find_by_key(db: Connection, organization_id: int, loyalty_program_key: str) -> LoyaltyProgram | None:
    """The program with this key."""
    table = loyalty_programs
    row = db.execute(
        select(*columns_of(table, LoyaltyProgram)).where(
            table.c.organization_id == organization_id, table.c.loyalty_program_key == loyalty_program_key
        )
    ).one_or_none()
    return record(LoyaltyProgram, row)


def find_page(
    db: Connection,
    organization_id: int,
    page: Page,
    *,
    key: str | None = None,
    external_key: str | None = None,
    without: int | None = None,
) -> Paged[LoyaltyProgram]:
    """A page of programs: only the one with `key`, and all but the one whose id is `without`, where given."""
    table = loyalty_programs
    conditions = [table.c.organization_id == organization_id, *with_external_key(table, external_key)]
    if key is not None:
        conditions.append(table.c.loyalty_program_key == key)
    if without is not None:
        conditions.append(table.c.loyalty_program_id != without)
    return paged(db, LoyaltyProgram, table, conditions, page, table.c.loyalty_program_id, PROGRAM_ORDER)


def add_program(db: Connection, organization_id: int, **values: Any) -> LoyaltyProgram:
    """Insert a program."""
    return add(db, loyalty_programs, LoyaltyProgram, {"organization_id": organization_id, **values})


def change_program(db: Connection, program: LoyaltyProgram, **values: Any) -> LoyaltyProgram:
    """Change a program's columns, all but its default tier, which `set_default_tier` moves."""
    address = {"organization_id": program.organization_id, "loyalty_program_id": program.loyalty_program_id}
    return change(db, loyalty_programs, LoyaltyProgram, address, values)


def find_tier(db: Connection, organization_id: int, loyalty_tier_id: int) -> LoyaltyTier | None:
    """The tier with this id."""
    return _tier(db, organization_id, loyalty_tiers.c.loyalty_tier_id == loyalty_tier_id)


def find_tier_by_key(db: Connection, organization_id: int, loyalty_tier_key: str) -> LoyaltyTier | None:
    """The tier with this key."""
    return _tier(db, organization_id, loyalty_tiers.c.loyalty_tier_key == loyalty_tier_key)


def _tier(db: Connection, organization_id: int, condition: Any) -> LoyaltyTier | None:
    row = db.execute(
        select(*columns_of(loyalty_tiers, LoyaltyTier)).where(
            loyalty_tiers.c.organization_id == organization_id, condition
        )
    ).one_or_none()
    return record(LoyaltyTier, row)


def find_tier_page(
    db: Connection,
    program: LoyaltyProgram,
    page: Page,
    *,
    key: str | None = None,
    external_key: str | None = None,
    only_active: bool = False,
) -> Paged[LoyaltyTier]:
    """A page of a program's tiers: only the one with `key`, and only active ones, where asked."""
    table = loyalty_tiers
    conditions = [
        table.c.organization_id == program.organization_id,
        table.c.loyalty_program_id == program.loyalty_program_id,
        *with_external_key(table, external_key),
    ]
    if key is not None:
        conditions.append(table.c.loyalty_tier_key == key)
    if only_active:
        conditions.append(table.c.active)
    return paged(db, LoyaltyTier, table, conditions, page, table.c.loyalty_tier_id, TIER_ORDER)


def add_tier(db: Connection, program: LoyaltyProgram, **values: Any) -> LoyaltyTier:
    """Insert a tier of a program; `set_default_tier` makes it the default one."""
    owned = {"organization_id": program.organization_id, "loyalty_program_id": program.loyalty_program_id}
    return add(db, loyalty_tiers, LoyaltyTier, {**owned, "is_default": False, **values})


def change_tier(db: Connection, tier: LoyaltyTier, **values: Any) -> LoyaltyTier:
    """Change a tier."""
    address = {"organization_id": tier.organization_id, "loyalty_tier_id": tier.loyalty_tier_id}
    return change(db, loyalty_tiers, LoyaltyTier, address, values)


def set_default_tier(
    db: Connection, organization_id: int, loyalty_program_id: int, loyalty_tier_id: int | None
) -> dict[int, bool]:
    """Make one of the program's tiers its default in place of the present one; None leaves it without.

    Returns the changed tiers, by id, and whether each is the default now.
    """
    db.execute(
        update(loyalty_programs)
        .where(
            loyalty_programs.c.organization_id == organization_id,
            loyalty_programs.c.loyalty_program_id == loyalty_program_id,
        )
        .values(default_tier_id=loyalty_tier_id)
    )
    is_chosen = loyalty_tiers.c.loyalty_tier_id.is_not_distinct_from(loyalty_tier_id)
    changed = db.execute(
        update(loyalty_tiers)
        .where(
            loyalty_tiers.c.organization_id == organization_id,
            loyalty_tiers.c.loyalty_program_id == loyalty_program_id,
            loyalty_tiers.c.is_default != is_chosen,
        )
        .values(is_default=is_chosen)
        .returning(loyalty_tiers.c.loyalty_tier_id, loyalty_tiers.c.is_default)
    )
    return {row.loyalty_tier_id: row.is_default for row in changed}
