"""The accounts, programs and tiers of an organization that the evaluation of events needs."""

from dataclasses import replace

from sqlalchemy import Connection, select

from domain.organizations import Organization
from domain.tier_policies import TierPolicy
from domain.tiers import KnownTier, Step, TierSchedule
from persistence.filters import is_same
from persistence.tables.organizations import loyalty_programs, loyalty_tiers

_OF_PROGRAM = is_same(loyalty_tiers, loyalty_programs, "loyalty_program_id")


def programs(db: Connection, organization_id: int) -> list[tuple[int, str, int | None]]:
    """The id, the key and the id of the main ledger account of every loyalty program, active or not."""
    columns = loyalty_programs.c
    rows = db.execute(
        select(columns.loyalty_program_id, columns.loyalty_program_key, columns.main_ledger_account_id).where(
            columns.organization_id == organization_id
        )
    )
    return [(program_id, key, account_id) for program_id, key, account_id in rows]


def tiers(db: Connection, organization_id: int) -> list[KnownTier]:
    """Every loyalty tier, active or not, with its program, by id."""
    programs, tiers = loyalty_programs.c, loyalty_tiers.c
    rows = db.execute(
        select(
            tiers.loyalty_tier_id,
            tiers.loyalty_tier_key,
            tiers.loyalty_program_id,
            programs.loyalty_program_key,
            tiers.name,
            tiers.active,
        )
        .select_from(loyalty_tiers.join(loyalty_programs, _OF_PROGRAM))
        .where(tiers.organization_id == organization_id)
        .order_by(tiers.loyalty_tier_id)
    )
    return [KnownTier(*row) for row in rows]


def tier_schedules(db: Connection, organization: Organization) -> list[TierSchedule]:
    """The tiers of every active program, by program id; one statement for all."""
    programs, tiers = loyalty_programs.c, loyalty_tiers.c
    rows = db.execute(
        select(
            programs.loyalty_program_id,
            programs.loyalty_program_key,
            programs.tier_points_ledger_account_id,
            programs.default_tier_id,
            programs.tier_policy,
            tiers.loyalty_tier_id,
            tiers.min_required_points,
            tiers.tier_order,
            tiers.active,
        )
        .select_from(loyalty_programs.outerjoin(loyalty_tiers, _OF_PROGRAM))
        .where(programs.organization_id == organization.organization_id, programs.active)
        .order_by(programs.loyalty_program_id)
    )
    schedules: dict[int, TierSchedule] = {}
    for program_id, key, account_id, default_id, policy, tier_id, least, order, active in rows:
        schedule = schedules.get(program_id) or TierSchedule(
            program_id, key, account_id, default_id, (), False, TierPolicy.of(policy, organization.zone)
        )
        if tier_id is not None:
            if active:
                schedule = replace(schedule, steps=(*schedule.steps, Step(tier_id, least, order)))
            elif tier_id == default_id:
                schedule = replace(schedule, default_tier_id=None)
            schedule = replace(schedule, moves=schedule.moves or tier_id != default_id)
        schedules[program_id] = schedule
    return list(schedules.values())
