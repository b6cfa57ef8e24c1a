"""Item matchers."""

from sqlalchemy import Column, Text, UniqueConstraint

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    external_key,
    key,
    tenant_table,
)

matchers = tenant_table(
    "matchers",
    "matcher_id",
    key("matcher_key"),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    document("matcher"),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "matcher_key"),
    belongs_to_organization(),
)
