"""Loyalty programs and their tiers."""

from sqlalchemy import Integer
from sqlalchemy.dialects.postgresql import JSONB

from domain.programs import LoyaltyProgram, LoyaltyTier
from persistence.tables.base import belongs_to_organization, index, record_table, refers_to, unique

loyalty_programs = record_table(
    "loyalty_programs",
    LoyaltyProgram,
    "loyalty_program_id",
    unique("loyalty_program_key"),
    belongs_to_organization(),
    refers_to("ledgers", "ledger_id"),
    types={"tier_policy": JSONB},
)

loyalty_tiers = record_table(
    "loyalty_tiers",
    LoyaltyTier,
    "loyalty_tier_id",
    unique("loyalty_tier_key"),
    index(None, "loyalty_program_id"),
    refers_to("loyalty_programs", "loyalty_program_id"),
    types={"tier_order": Integer},
)
