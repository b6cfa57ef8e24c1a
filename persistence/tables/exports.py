"""Exports: the jobs, and their rows until they expire."""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    instant,
    metadata,
    refers_to,
    tenant_table,
)

exports = tenant_table(
    "exports",
    "export_id",
    Column("kind", Text, nullable=False),
    instant("updated_from"),
    Column("after", BigInteger, nullable=False),
    # Values by the names that they have on the wire; moments as texts.
    document("filters"),
    Column("description", Text),
    Column("status", Text, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("parts", Integer, nullable=False, server_default=text("0")),
    Column("rows", BigInteger, nullable=False, server_default=text("0")),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("last_id", BigInteger),
    *created_and_updated(),
    instant("started_at"),
    instant("finished_at"),
    # Few exports wait at any time, and few are kept, of all organizations.
    Index("ix_exports_to_do", "updated_at", postgresql_where=text("status IN ('queued', 'running')")),
    Index("ix_exports_kept", "finished_at", postgresql_where=text("status = 'done'")),
    belongs_to_organization(),
)

export_parts = Table(
    "export_parts",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("export_id", BigInteger, nullable=False),
    Column("part_number", Integer, nullable=False),
    # Lines of JSON, which the database compresses.
    Column("content", Text, nullable=False),
    PrimaryKeyConstraint("organization_id", "export_id", "part_number"),
    refers_to("exports", "export_id"),
)
