"""Audiences, and the members of those that are defined by a list."""

from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, Table

from domain.audiences import Audience
from persistence.tables.base import belongs_to_organization, instant, metadata, record_table, refers_to, unique

audiences = record_table(
    "audiences",
    Audience,
    "audience_id",
    unique("audience_key"),
    belongs_to_organization(),
    defaults={"version": "1"},
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
