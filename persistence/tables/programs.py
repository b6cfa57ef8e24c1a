"""Loyalty programs and their tiers."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Text, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    exact,
    external_key,
    key,
    refers_to,
    tenant_table,
)

loyalty_programs = tenant_table(
    "loyalty_programs",
    "loyalty_program_id",
    key("loyalty_program_key"),
    Column("name", Text),
    Column("description", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("ledger_id", BigInteger, nullable=False),
    Column("tier_points_ledger_account_id", BigInteger),
    Column("main_ledger_account_id", BigInteger),
    Column("main_portal_id", BigInteger),
    Column("default_tier_id", BigInteger),
    Column("tier_policy", JSONB, nullable=False),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "loyalty_program_key"),
    belongs_to_organization(),
    refers_to("ledgers", "ledger_id"),
)

loyalty_tiers = tenant_table(
    "loyalty_tiers",
    "loyalty_tier_id",
    key("loyalty_tier_key"),
    Column("loyalty_program_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    exact("min_required_points", nullable=False),
    Column("tier_order", Integer, nullable=False),
    document("custom_attributes"),
    Column("picture_url", Text),
    Column("is_default", Boolean, nullable=False),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "loyalty_tier_key"),
    Index(None, "organization_id", "loyalty_program_id"),
    refers_to("loyalty_programs", "loyalty_program_id"),
)
