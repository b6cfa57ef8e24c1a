"""Audiences, and the members of those that are defined by a list."""

from sqlalchemy import BigInteger, Boolean, Column, PrimaryKeyConstraint, Table, Text, UniqueConstraint, text

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    external_key,
    instant,
    key,
    metadata,
    refers_to,
    tenant_table,
)

audiences = tenant_table(
    "audiences",
    "audience_id",
    key("audience_key"),
    Column("active", Boolean, nullable=False),
    Column("name", Text),
    Column("description", Text),
    Column("matcher_type", Text, nullable=False),
    document("matcher", nullable=True),
    Column("segment_key", Text),
    Column("version", BigInteger, nullable=False, server_default=text("1")),
    instant("refreshed_at"),
    instant("expires_at"),
    Column("member_count", BigInteger),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "audience_key"),
    belongs_to_organization(),
)

# By member first: every event needs the audiences of a few members.
audience_members = Table(
    "audience_members",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("member_id", BigInteger, nullable=False),
    Column("audience_id", BigInteger, nullable=False),
    instant("created_at", nullable=False),
    PrimaryKeyConstraint("organization_id", "member_id", "audience_id"),
    refers_to("members", "member_id"),
    refers_to("audiences", "audience_id"),
)
