"""Portals: the pages of an organization where its members help themselves."""

from sqlalchemy import BigInteger, Boolean, Column, Text, UniqueConstraint

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    key,
    refers_to,
    tenant_table,
    texts,
)

portals = tenant_table(
    "portals",
    "portal_id",
    Column("name", Text, nullable=False),
    key("public_id"),
    document("custom_attributes"),
    document("links"),
    document("theme"),
    document("forms"),
    document("metadata"),
    Column("active", Boolean, nullable=False),
    Column("loyalty_program_id", BigInteger),
    Column("auth_redirect_url", Text),
    texts("auth_valid_scopes"),
    *created_and_updated(),
    UniqueConstraint("organization_id", "public_id"),
    belongs_to_organization(),
    refers_to("loyalty_programs", "loyalty_program_id"),
)
